"""Read the bandwidths of the node and its QoS classes from NodeSLO, and of a pod from its annotation.

A class's share is a percentage of the node's bandwidth (an integer) or a quantity of bits per second (a string).
TCNetworkQoS uses bits and ignores an unreadable value; TerwayQoS uses bytes and refuses an unreadable value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from nri.agent.koordinator.documents import SLO
from nri.agent.koordinator.pod_annotations import read
from nri.agent.koordinator.quirks import Quirks
from nri.kube import quantity
from nri.kube.shapes import Record

_PARTS = {"rx_bps_min": "ingressRequest", "rx_bps_max": "ingressLimit"}
_PARTS |= {"tx_bps_min": "egressRequest", "tx_bps_max": "egressLimit"}
_CLASSES = {"l1": "lsClass", "l2": "beClass"}
UINT64 = 1 << 64  # the number of values of Go's uint64
#: The keys of NodeSLO with the bandwidths of a class.
DOCUMENT_KEYS: Final = (
    (SLO, "resourceQOSStrategy.{}.networkQOS"),
    (SLO, "systemStrategy.totalNetworkBandwidth"),
)
ANNOTATION_NETWORK_QOS: Final = "koordinator.sh/networkQOS"
_LIMITS = Record({"ingressLimit": str, "egressLimit": str})


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """Received (rx) and sent (tx) bandwidths per second of the node (`hw`), LS (`l1`) and BE (`l2`); 0 is not set."""

    hw_tx_bps_max: int = 0
    hw_rx_bps_max: int = 0
    l1_tx_bps_min: int = 0
    l1_tx_bps_max: int = 0
    l1_rx_bps_min: int = 0
    l1_rx_bps_max: int = 0
    l2_tx_bps_min: int = 0
    l2_tx_bps_max: int = 0
    l2_rx_bps_min: int = 0
    l2_rx_bps_max: int = 0

    def items(self) -> list[tuple[str, int]]:
        """Return names and values in the order of terway's file."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


def class_shares(network: Mapping[str, Any], share: Callable[[int | str | None], int]) -> dict[str, int]:
    """Return the four shares of a class's network QoS, converted by `share`. All are 0 if network QoS is off."""
    shares = dict.fromkeys(_PARTS, 0)
    for part, key in _PARTS.items() if network.get("enable", False) else ():
        try:
            shares[part] = share(network.get(key))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return shares


def shared_out(spec: Mapping[str, Any], node: int, share: Callable[[int | str | None], int]) -> Bandwidths:
    """Return the bandwidths of the node and of its classes. Raises ValueError if `share` cannot convert a share."""
    values = {"hw_tx_bps_max": node, "hw_rx_bps_max": node}
    for level, name in _CLASSES.items():
        network = spec.get("resourceQOSStrategy", {}).get(name, {}).get("networkQOS", {})
        try:
            shares = class_shares(network, share)
        except ValueError as error:
            raise ValueError(f"spec.resourceQOSStrategy.{name}.networkQOS.{error}") from None
        values.update({f"{level}_{part}": value for part, value in shares.items()})
    return Bandwidths(**values)


def node_total(spec: Mapping[str, Any]) -> int:
    """Return the bandwidth of the node in bits per second."""
    return quantity.ceil(spec.get("systemStrategy", {}).get("totalNetworkBandwidth", quantity.parse(0)))


def unsigned(number: int, quirks: Quirks) -> int:
    """Return a bandwidth as Koordinator's unsigned number.

    Raises ValueError if it is negative and the quirk refuses that.
    """
    if number < 0 and quirks.negative_bandwidth_refused:
        raise ValueError(f"{number} is below 0")
    return number % UINT64


def pod_bandwidths(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the limits of a pod's traffic in bits per second, by their keys `ingressLimit` and `egressLimit`."""
    key = ANNOTATION_NETWORK_QOS
    rates: dict[str, str] = read(annotations, key, _LIMITS) or {} if annotations.get(key) else {}
    limits: dict[str, int] = {}
    for name, text in rates.items():
        try:
            limits |= {name: quantity.ceil(quantity.capped(text))} if text else {}
        except ValueError as error:
            raise ValueError(f"annotation {key}: {name}: {error}") from None
    return limits
