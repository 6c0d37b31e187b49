"""The ConfigMap `slo-controller-config`, from which Koordinator's manager computes the NodeSLO of each node.

The agent computes its node's from it in the same way, so that the manager is not required: of each strategy the first
entry of `nodeStrategies` whose selector matches the node's labels counts, merged into `clusterStrategy`. A NodeSLO that
exists takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.colocation import is_selected, node_texts
from nri.agent.koordinator.documents import SLO, over
from nri.config.syntax import parse_json
from nri.kube import quantity
from nri.kube.shapes import Unread, nearest_name

__all__ = ["CONFIG_MAP", "NAME", "NAMESPACE", "node_slo", "read", "unread"]

CONFIG_MAP: Final = "ConfigMap"
#: The manager's defaults.
NAMESPACE: Final = "koordinator-system"
NAME: Final = "slo-controller-config"
#: Keys of the ConfigMap, and the keys of NodeSLO that their strategies become.
_STRATEGIES: Final = {
    "resource-threshold-config": "resourceUsedThresholdWithBE",
    "resource-qos-config": "resourceQOSStrategy",
    "cpu-burst-config": "cpuBurstStrategy",
    "system-config": "systemStrategy",
}
_APPLICATIONS: Final = "host-application-config"
#: Keys that only other parts of the manager read.
_OF_MANAGER: Final = frozenset(("colocation-config", "cpu-normalization-config", "resource-amplification-config"))
_BANDWIDTH: Final = "node.koordinator.sh/network-bandwidth"
#: Keys of an entry of `nodeStrategies` or `nodeConfigs` that are not its strategy.
_PROFILE: Final = frozenset(("name", "nodeSelector"))


class _Configuration(NamedTuple):
    """One key of the ConfigMap: a strategy for all nodes, and entries for some nodes."""

    cluster: Mapping[str, Any]
    nodes: tuple[Mapping[str, Any], ...]


def read(config_map: Mapping[str, Any]) -> dict[str, _Configuration]:
    """Return the configurations by the keys of the ConfigMap. Raises ValueError that begins with the key."""
    data = config_map.get("data") or {}
    if not isinstance(data, Mapping):
        raise ValueError("data: not an object")  # noqa: TRY004  (a bad document, not a bad call)
    return {key: _configuration(key, data[key]) for key in (*_STRATEGIES, _APPLICATIONS) if data.get(key) is not None}


def _configuration(key: str, text: Any) -> _Configuration:
    if not isinstance(text, str):
        raise ValueError(f"data.{key}: not a string of JSON")  # noqa: TRY004
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f"data.{key}: not JSON: {error}") from None
    if key == _APPLICATIONS:
        cluster, nodes = value, "nodeConfigs"
    else:
        cluster, nodes = value.get("clusterStrategy") if isinstance(value, dict) else None, "nodeStrategies"
    entries = value.get(nodes) if isinstance(value, dict) else None
    for what, part, kind in (("", value, dict), (".clusterStrategy", cluster, dict), (f".{nodes}", entries, list)):
        if part is not None and not isinstance(part, kind):
            raise ValueError(f"data.{key}{what}: not {'a list' if kind is list else 'an object'}")
    if not all(isinstance(entry, dict) for entry in entries or ()):
        raise ValueError(f"data.{key}.{nodes}: not a list of objects")
    return _Configuration(cluster or {}, tuple(entries or ()))


def node_slo(config_map: Mapping[str, Any] | None, node: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the NodeSLO of a node; None without a ConfigMap. Raises ValueError as `read` does.

    Args:
        config_map: the ConfigMap.
        node: the Node, whose labels selectors match; without it only empty selectors match.
    """
    if config_map is None:
        return None
    configurations = read(config_map)
    labels = node_texts(node or {}, "labels")
    spec: dict[str, Any] = {}
    for key, slo_key in _STRATEGIES.items():
        configuration = configurations.get(key, _Configuration({}, ()))
        strategy = over(configuration.cluster, _own(key, configuration, labels))
        if strategy:
            spec[slo_key] = strategy
    bandwidth = node_texts(node or {}, "annotations").get(_BANDWIDTH)
    if bandwidth is not None and _is_quantity(bandwidth):
        spec["systemStrategy"] = {**spec.get("systemStrategy", {}), "totalNetworkBandwidth": bandwidth}
    if _APPLICATIONS in configurations:
        configuration = configurations[_APPLICATIONS]
        own = _matching(configuration, labels)
        applications = (configuration.cluster if own is None else own).get("applications")
        if applications:
            spec["hostApplications"] = applications
    return {"kind": SLO, "metadata": {}, "spec": spec}


def _matching(configuration: _Configuration, labels: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the first entry for a node; None without one."""
    return next((entry for entry in configuration.nodes if is_selected(entry.get("nodeSelector"), labels)), None)


def _own(key: str, configuration: _Configuration, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the strategy of the first entry for a node."""
    entry = _matching(configuration, labels) or {}
    strategy = {name: value for name, value in entry.items() if name not in _PROFILE}
    if key == "system-config" and strategy:
        # The manager writes the bandwidth of an entry also if it has none, so the cluster's does not count.
        strategy.setdefault("totalNetworkBandwidth", "0")
    return strategy


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def unread(config_map: Mapping[str, Any]) -> list[Unread]:
    """Return the keys of the ConfigMap without effect on a node."""
    known = {*_STRATEGIES, _APPLICATIONS}
    data = config_map.get("data") or {}
    return [*_unknown(data, known)] if isinstance(data, Mapping) else []


def _unknown(data: Mapping[str, Any], known: set[str]) -> Iterator[Unread]:
    for key in data:
        if key in _OF_MANAGER:
            yield Unread(f"data.{key}", "only Koordinator's manager reads it")
        elif key not in known:
            yield Unread.of(f"data.{key}", nearest_name(key, known))
