"""The values that CNI plugins are given, and those that they answer with.

Rules: pure.
Next: :mod:`nri.engine.machine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Attached", "PortMapping", "capability_arguments", "parse_result", "plugin_error"]


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
    """The addresses that a result gives to the pod's interface. Pure.

    An address without an interface, or of one inside the namespace, is the pod's; one of the host's side is not.
    """
    interfaces = [row for row in result.get("interfaces") or () if isinstance(row, Mapping)]
    addresses, gateways = [], []
    for row in result.get("ips") or ():
        number = row.get("interface")
        if isinstance(number, int) and 0 <= number < len(interfaces) and not interfaces[number].get("sandbox"):
            continue
        addresses.append(str(row.get("address", "")).partition("/")[0])
        if row.get("gateway"):
            gateways.append(str(row["gateway"]))
    macs = [str(row.get("mac", "")) for row in interfaces if row.get("name") == interface and row.get("sandbox")]
    return Attached(tuple(filter(None, addresses)), tuple(gateways), macs[0] if macs else "", dict(result))


def capability_arguments(
    plugin: Mapping[str, Any],
    ports: Sequence[PortMapping],
    *,
    dns: Mapping[str, Sequence[str]] | None = None,
    cgroup_path: str = "",
    pod_annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The ``runtimeConfig`` of one plugin: those of our values that it says it takes. Pure."""
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
    """The sentence of a plugin's error. Pure."""
    text = "; ".join(str(answer[key]) for key in ("msg", "details") if answer.get(key))
    return text or f"error {answer.get('code', 'without a number')}"
