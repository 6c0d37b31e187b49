"""The section ``[http]`` of every program's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Health and metrics over TCP, for probes and Prometheus.

    Attributes:
        address: HOST:PORT of /healthz, /readyz and /metrics; "" for none.
    """

    address: str = ""

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        if self.address and not (host and port.isascii() and port.isdecimal() and int(port[:6]) < 1 << 16):
            raise ValueError(f'address "{self.address}" is not HOST:PORT, for example "127.0.0.1:9316"')
