"""The inputs and results of CNI plugins. Results are checked: addresses become lines of /etc/hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class PortMapping(NamedTuple):
    """A port of the host that is forwarded to the pod."""

    host_port: int
    container_port: int
    protocol: str = "tcp"
    host_ip: str = ""


class Attached(NamedTuple):
    """A pod's attachment to a network: its addresses, of which the first is the primary one, and the whole result."""

    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    mac: str
    result: dict[str, Any]


def parse_result(result: Mapping[str, Any], interface: str) -> Attached:
    """The addresses of a result for the pod's interface. Raises ValueError.

    An address without an interface, or of an interface inside the namespace, is the pod's; others are the host's.
    """
    interfaces, ips = _rows(result, "interfaces"), _rows(result, "ips")
    addresses, gateways = [], []
    for row in ips:
        number = row.number("interface")
        if number is not None and 0 <= number < len(interfaces) and not interfaces[number].text("sandbox"):
            continue  # the host's end
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
    """An object in a list of a result, with typed access to its values. Raises ValueError."""

    def __init__(self, name: str, row: object) -> None:
        if not isinstance(row, dict):
            raise ValueError(f"{name} is not an object")  # noqa: TRY004
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
    """The ``runtimeConfig`` of a plugin: the values of the capabilities that it declares."""
    values: dict[str, Any] = {
        "portMappings": [
            {"hostPort": row.host_port, "containerPort": row.container_port, "protocol": row.protocol.lower(),
             **({"hostIP": row.host_ip} if row.host_ip else {})}
            for row in ports if row.host_port
        ],
        "dns": dict(dns or {}),
        "cgroupPath": cgroup_path,
        "io.kubernetes.cri.pod-annotations": dict(pod_annotations or {}),
    }  # fmt: skip
    declared = plugin.get("capabilities") or {}
    return {name: value for name, value in values.items() if value and declared.get(name)}


def plugin_error(answer: Mapping[str, Any]) -> str:
    """The message of a plugin's error."""
    text = "; ".join(str(answer[key]) for key in ("msg", "details") if answer.get(key))
    return text or f"error {answer.get('code', 'without a number')}"
