"""Bandwidths of the node and of its QoS classes from NodeSLO's spec, once for tc (bits) and once for terway (bytes).

A class's share is a percentage of the node's (a whole number) or a quantity of bits per second (a text). The two
programs do not agree on what is wrong: tc's side takes a value that it cannot read for none, terway's refuses it. Next:
`nri.agent.koordinator.tc` and `hooks.terway_qos`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from nri.agent.koordinator.documents import read_spec
from nri.agent.koordinator.quirks import Quirks
from nri.kube import quantity

__all__ = [
    "Bandwidths",
    "TcRule",
    "bytes_per_s",
    "class_shares",
    "tc",
    "tc_bandwidths",
    "tc_bits_per_s",
    "terway",
    "terway_chosen",
]

_PARTS = {"rx_bps_min": "ingressRequest", "rx_bps_max": "ingressLimit"}
_PARTS |= {"tx_bps_min": "egressRequest", "tx_bps_max": "egressLimit"}
_CLASSES = {"l1": "lsClass", "l2": "beClass"}
_UINT64 = 1 << 64


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """Bandwidths of the node (`hw`), of LS (`l1`) and of BE (`l2`), in and out, per second; 0 is not set."""

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
        return [(each.name, getattr(self, each.name)) for each in fields(self)]


@dataclass(frozen=True, slots=True)
class TcRule:
    """Whether tc shapes the node's traffic, and to what, in bits per second."""

    enabled: bool = False
    bandwidths: Bandwidths = Bandwidths()


def tc(spec: Any, current: TcRule, quirks: Quirks = Quirks.DEFAULT) -> TcRule:
    """Return tc's rule; it is the default policy. A spec that does not say the node's bandwidth changes nothing."""
    found = read_spec(spec)
    policy = found.get("resourceQOSStrategy", {}).get("policies", {}).get("netQOSPolicy", "tc")
    if policy != "tc":
        return TcRule(False, current.bandwidths)
    if "systemStrategy" not in found:
        return current
    return TcRule(True, tc_bandwidths(spec, quirks))


def tc_bandwidths(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> Bandwidths:
    """Return the bandwidths in bits per second."""
    found = read_spec(spec)
    try:
        total = _unsigned(_total(found), quirks)
    except ValueError as error:
        raise ValueError(f"spec.systemStrategy.totalNetworkBandwidth: {error}") from None
    return _bandwidths(found, total, lambda value: tc_bits_per_s(value, total, quirks))


def tc_bits_per_s(value: int | str | None, total: int, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return a class's share in bits per second; 0 for none, for a percentage out of range, for no quantity."""
    if value is None:
        return 0
    if isinstance(value, int):
        return total * value // 100 if 0 <= value <= 100 else 0
    try:
        return _unsigned(quantity.ceil(quantity.capped(value)), quirks)
    except ValueError:
        return 0


def terway_chosen(spec: Any) -> bool:
    """Whether terway is to limit the bandwidths."""
    policies = read_spec(spec).get("resourceQOSStrategy", {}).get("policies", {})
    return bool(policies.get("netQOSPolicy") == "terway-qos")


def terway(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> Bandwidths:
    """Return the bandwidths in bytes per second. ValueError: one cannot be read or is above the node's."""
    found = read_spec(spec)
    if "systemStrategy" not in found:
        return Bandwidths()
    total = _total(found)
    if total < 0:
        raise ValueError(f"spec.systemStrategy.totalNetworkBandwidth: {total} is below 0")
    node = total // 8
    whole = node if quirks.bandwidth_shares_in_bytes else total
    return _bandwidths(found, node, lambda value: bytes_per_s(value, whole, quirks))


def bytes_per_s(value: int | str | None, total: int, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return a share in terway's words: a text is bits, eight to a byte; a percentage is of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return _unsigned(value, quirks) * total % _UINT64 // 100
    found = _unsigned(quantity.ceil(quantity.capped(value)), quirks) // 8
    if found > total:
        raise ValueError(f"{value!r} is more than the node's {total}")
    return found


def class_shares(network: Mapping[str, Any], share: Callable[[int | str | None], int]) -> dict[str, int]:
    """Return the four parts of one class's network QoS as `share` reads them; none counts unless it is switched on."""
    shares = dict.fromkeys(_PARTS, 0)
    for part, key in _PARTS.items() if network.get("enable", False) else ():
        try:
            shares[part] = share(network.get(key))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return shares


def _bandwidths(found: Mapping[str, Any], node: int, share: Callable[[int | str | None], int]) -> Bandwidths:
    values = {"hw_tx_bps_max": node, "hw_rx_bps_max": node}
    for level, name in _CLASSES.items():
        network = found.get("resourceQOSStrategy", {}).get(name, {}).get("networkQOS", {})
        try:
            shares = class_shares(network, share)
        except ValueError as error:
            raise ValueError(f"spec.resourceQOSStrategy.{name}.networkQOS.{error}") from None
        values.update({f"{level}_{part}": value for part, value in shares.items()})
    return Bandwidths(**values)


def _total(found: Mapping[str, Any]) -> int:
    return quantity.ceil(found.get("systemStrategy", {}).get("totalNetworkBandwidth", quantity.parse(0)))


def _unsigned(number: int, quirks: Quirks) -> int:
    if number < 0 and quirks.negative_bandwidth_refused:
        raise ValueError(f"{number} is below 0")
    return number % _UINT64
