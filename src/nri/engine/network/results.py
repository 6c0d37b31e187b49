"""The values that CNI plugins are given, and those that they answer with.

Pure; a value of a wrong type is an error, and an address is one: it becomes a line of /etc/hosts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class PortMapping(NamedTuple):
    """A port of the host that leads to one of the pod."""

    host_port: int
    container_port: int
    protocol: str = "tcp"
    host_ip: str = ""


class Attached(NamedTuple):
    """A pod's place in a network: its addresses, the first is the pod's own, and the plugins' whole answer."""

    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    mac: str
    result: dict[str, Any]


def parse_result(result: Mapping[str, Any], interface: str) -> Attached:
    """The addresses that a result gives to the pod's interface. Raises ValueError.

    An address without an interface, or of one inside the namespace, is the pod's; one of the host's side is not.
    """
    interfaces, ips = _rows(result, "interfaces"), _rows(result, "ips")
    addresses, gateways = [], []
    for row in ips:
        number = row.number("interface")
        if number is not None and 0 <= number < len(interfaces) and not interfaces[number].text("sandbox"):
            continue  # the host's side
        addresses.append(row.address("address"))
        gateways.append(row.address("gateway"))
    macs = [row.text("mac") for row in interfaces if row.text("name") == interface and row.text("sandbox")]
    return Attached(tuple(filter(None, addresses)), tuple(filter(None, gateways)), (macs or [""])[0], dict(result))


def _rows(result: Mapping[str, Any], key: str) -> list[_Row]:
    rows = result.get(key) or []
    if not isinstance(rows, list):
        raise ValueError(f"{key} is not a list")  # noqa: TRY004  one kind of complaint for the reader
    return [_Row(f"{key}[{place}]", row) for place, row in enumerate(rows)]


class _Row:
    """A table of one of a result's lists, whose values are of their types. Raises ValueError."""

    def __init__(self, name: str, row: object) -> None:
        if not isinstance(row, dict):
            raise ValueError(f"{name} is not a table")  # noqa: TRY004
        self._name, self._row = name, row

    def number(self, key: str) -> int | None:
        value = self._row.get(key)
        if value is None or type(value) is int:
            return value
        raise ValueError(f"{self._name}.{key} is not a number")

    def text(self, key: str) -> str:
        value = self._row.get(key) or ""
        if isinstance(value, str):
            return value
        raise ValueError(f"{self._name}.{key} is not text")

    def address(self, key: str) -> str:
        text = self.text(key)
        try:
            return str(ipaddress.ip_interface(text).ip) if text else ""
        except ValueError:
            raise ValueError(f"{self._name}.{key} is {text!r:.80}, which is not an address") from None


def capability_arguments(
    plugin: Mapping[str, Any],
    ports: Sequence[PortMapping],
    *,
    dns: Mapping[str, Sequence[str]] | None = None,
    cgroup_path: str = "",
    pod_annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The ``runtimeConfig`` of one plugin: those of our values that it says it takes."""
    known: dict[str, Any] = {
        "portMappings": [
            {"hostPort": row.host_port, "containerPort": row.container_port, "protocol": row.protocol.lower(),
             **({"hostIP": row.host_ip} if row.host_ip else {})}
            for row in ports if row.host_port
        ],
        "dns": dict(dns or {}),
        "cgroupPath": cgroup_path,
        "io.kubernetes.cri.pod-annotations": dict(pod_annotations or {}),
    }  # fmt: skip
    wanted = plugin.get("capabilities") or {}
    return {name: value for name, value in known.items() if value and wanted.get(name)}


def plugin_error(answer: Mapping[str, Any]) -> str:
    """The sentence of a plugin's error."""
    text = "; ".join(str(answer[key]) for key in ("msg", "details") if answer.get(key))
    return text or f"error {answer.get('code', 'without a number')}"
