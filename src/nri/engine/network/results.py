"""The inputs and results of CNI plugins. Results are checked, because their addresses are written to /etc/hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nri.errors import RequestError
from nri.kube import quantity

#: The limits of a pod's bandwidth in bits per second, as in containerd.
_MIN_BANDWIDTH, _MAX_BANDWIDTH = 10**3, 10**15
#: The burst in bits for a pod's bandwidth, as in containerd: the largest that the bandwidth plugin accepts.
_BURST_BITS = 2**32 - 1


class PortMapping(NamedTuple):
    """A port of the host that is forwarded to the pod."""

    host_port: int
    container_port: int
    protocol: str = "tcp"
    host_ip: str = ""


class NetworkAttachment(NamedTuple):
    """A pod's attachment to a network. The first address is the primary one. `result` is the plugins' whole result."""

    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    mac: str
    result: dict[str, Any]


def parse_result(result: Mapping[str, Any], interface: str) -> NetworkAttachment:
    """Return the addresses of the pod in a result. Raises ValueError if the result is invalid.

    An address belongs to the pod if its interface is inside the pod's namespace, or if it names no interface. Other
    addresses belong to the host.
    """
    interfaces, ips = _rows(result, "interfaces"), _rows(result, "ips")
    addresses, gateways = [], []
    for row in ips:
        number = row.number("interface")
        if number is not None and 0 <= number < len(interfaces) and not interfaces[number].text("sandbox"):
            continue  # an interface of the host
        addresses.append(row.address("address"))
        gateways.append(row.address("gateway"))
    macs = [row.text("mac") for row in interfaces if row.text("name") == interface and row.text("sandbox")]
    return NetworkAttachment(
        tuple(filter(None, addresses)), tuple(filter(None, gateways)), (macs or [""])[0], dict(result)
    )


def _rows(result: Mapping[str, Any], key: str) -> list[_Row]:
    rows = result.get(key) or []
    if not isinstance(rows, list):
        raise ValueError(f"{key} is not a list")  # noqa: TRY004  one kind of complaint for the reader
    return [_Row(f"{key}[{place}]", row) for place, row in enumerate(rows)]


class _Row:
    """An object in a list of a result. Its methods check the types of values, and raise ValueError."""

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
        raise ValueError(f"{self._name}.{key} is not a string")

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
    bandwidth: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the ``runtimeConfig`` of a plugin: the values for the capabilities that it declares."""
    values: dict[str, Any] = {
        "portMappings": [
            {"hostPort": row.host_port, "containerPort": row.container_port, "protocol": row.protocol.lower(),
             **({"hostIP": row.host_ip} if row.host_ip else {})}
            for row in ports if row.host_port
        ],
        "dns": dict(dns or {}),
        "cgroupPath": cgroup_path,
        "io.kubernetes.cri.pod-annotations": dict(pod_annotations or {}),
        "bandwidth": dict(bandwidth or {}),
    }  # fmt: skip
    declared = plugin.get("capabilities") or {}
    return {name: value for name, value in values.items() if value and declared.get(name)}


def bandwidth_limits(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the value of the capability ``bandwidth`` for a pod, in bits per second; {} without limits.

    Raises RequestError if an annotation is not a quantity between 1k and 1P.
    """
    limits: dict[str, int] = {}
    for direction in ("ingress", "egress"):
        text = annotations.get(key := f"kubernetes.io/{direction}-bandwidth")
        if text is None:
            continue
        try:
            rate = quantity.ceil(quantity.parse(text))
        except ValueError as error:
            raise RequestError(f"annotations[{key}]", text, str(error)) from None
        if not _MIN_BANDWIDTH <= rate <= _MAX_BANDWIDTH:
            raise RequestError(f"annotations[{key}]", text, "must be between 1k and 1P bits per second")
        limits |= {f"{direction}Rate": rate, f"{direction}Burst": _BURST_BITS}
    return limits


def plugin_error(answer: Mapping[str, Any]) -> str:
    """Return the message in a plugin's error."""
    text = "; ".join(str(answer[key]) for key in ("msg", "details") if answer.get(key))
    return text or f"error {answer.get('code', 'without a number')}"
