"""The address of a kubelet, taken apart; one to which a token would go for all to read is none. Pure.

Next: :mod:`nri.agent.settings.tables`, which has the key, and `nri.agent.pods.kubelet`, which connects.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["KubeletAddress", "kubelet_address"]


class KubeletAddress(NamedTuple):
    """The place at which a kubelet listens.

    Attributes:
        tls: whether it is spoken to over HTTPS.
        loopback: whether it is on this machine by its address, which no packet leaves.
    """

    tls: bool
    host: str
    port: int
    loopback: bool


def kubelet_address(text: str) -> KubeletAddress:
    """Take `https://HOST:PORT` apart. ValueError, without the text itself, for what cannot or must not be used."""
    try:
        where = urlsplit(text)
        host, port = where.hostname, where.port
    except ValueError as error:  # a port that is not a number or none of TCP, brackets that do not close
        raise ValueError(f"is not an address: {error}") from None
    if where.scheme not in ("https", "http") or not host:
        raise ValueError("is not an address")
    if not port:
        raise ValueError("names no port")
    loopback = _is_loopback(host)
    if where.scheme == "http" and not loopback:
        raise ValueError("would send the service account's token in clear: without https it is for loopback alone")
    return KubeletAddress(where.scheme == "https", host, port, loopback)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
