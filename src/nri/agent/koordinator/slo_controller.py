"""The ConfigMap `slo-controller-config`, from which Koordinator's manager computes the NodeSLO of each node.

The agent computes its node's NodeSLO from it in the same way, so that the manager is not required: of each strategy the
first entry of `nodeStrategies` whose selector matches the node's labels is used, merged into `clusterStrategy`. A key
that cannot be read keeps its last valid version. A NodeSLO that exists takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from nri.agent.koordinator import block_io, cpu_burst, documents, host_application, memory_qos, resctrl, system_config
from nri.agent.koordinator.colocation import is_selected, node_texts
from nri.agent.koordinator.documents import SLO, over
from nri.agent.koordinator.thresholds import THRESHOLDS
from nri.kube import quantity
from nri.kube.shapes import INT32, Items, Record, Table, Unread, decode
from nri.text import nearest

CONFIG_MAP: Final = "ConfigMap"
#: The manager's defaults.
NAMESPACE: Final = "koordinator-system"
NAME: Final = "slo-controller-config"
_SYSTEM: Final = "system-config"
#: Keys of the ConfigMap, and the keys of NodeSLO that their strategies become.
_STRATEGIES: Final = {
    "resource-threshold-config": "resourceUsedThresholdWithBE",
    "resource-qos-config": "resourceQOSStrategy",
    "cpu-burst-config": "cpuBurstStrategy",
    _SYSTEM: "systemStrategy",
}
_APPLICATIONS: Final = "host-application-config"
#: Keys that only other parts of the manager read.
_OF_MANAGER: Final = frozenset(("colocation-config", "cpu-normalization-config", "resource-amplification-config"))
_BANDWIDTH: Final = "node.koordinator.sh/network-bandwidth"
_BANDWIDTH_KEY: Final = "totalNetworkBandwidth"
_DISK: Final = {
    key: shape
    for disks in (block_io.SHAPE, block_io.ROOT_SHAPE)
    for key, shape in disks.keys["blocks"].shape.keys["ioCfg"].keys.items()
}
_CLASS: Final = Record(
    {
        **documents.CLASS.keys,
        "memoryQOS": memory_qos.SHAPE,
        "resctrlQOS": resctrl.CACHE,
        "blkioQOS": Record(
            {**block_io.SHAPE.keys, "blocks": Items(Record({"name": str, "type": str, "ioCfg": Record(_DISK)}))}
        ),
    }
)
_PRIORITIES: Final = ("evictEnabledPriorityThreshold", "allocatableEvictPriorityThreshold")
#: The manager's types of each strategy: with a value of another type it does not accept the entire key.
_SHAPES: Final = {
    "resource-threshold-config": Record({**THRESHOLDS.keys, **dict.fromkeys(_PRIORITIES, INT32)}),
    "resource-qos-config": Record(
        {
            "policies": documents.POLICIES,
            **dict.fromkeys(("lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot"), _CLASS),
        }
    ),
    "cpu-burst-config": cpu_burst.SHAPE,
    _SYSTEM: Record(
        {
            **documents.SPEC.keys["systemStrategy"].keys,
            **system_config.SHAPE.keys,
            **dict.fromkeys(("schedGroupIdentityEnabled", "schedIdleSaverWmark"), int),
            "schedFeatures": Table(bool),
        }
    ),
    _APPLICATIONS: Record({"applications": host_application.SPEC}),
}
_EXPRESSION: Final = Record({"key": str, "operator": str, "values": Items(str)})
#: The keys of an entry of `nodeStrategies` or `nodeConfigs` that are not its strategy.
_PROFILE: Final = {
    "name": str,
    "nodeSelector": Record({"matchLabels": Table(str), "matchExpressions": Items(_EXPRESSION)}),
}


class _Configuration(NamedTuple):
    """One key of the ConfigMap: a strategy for all nodes, and entries for some nodes."""

    cluster: Mapping[str, Any]
    nodes: tuple[Mapping[str, Any], ...]


def read(config_map: Mapping[str, Any]) -> dict[str, _Configuration]:
    """Return the configurations by the keys of the ConfigMap. Raises ValueError that begins with the key."""
    data = _data(config_map)
    return {key: _configuration(key, data[key]) for key in _SHAPES if data.get(key) is not None}


def salvage(config_map: Mapping[str, Any], previous: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    """Replace the keys of a ConfigMap that cannot be read by their last valid versions, and return the errors.

    Raises ValueError if the ConfigMap has no readable data.

    Args:
        config_map: the new version.
        previous: the version in force; None without one.
    """
    data, before = dict(_data(config_map)), _data(previous or {})
    errors = []
    for key in _SHAPES:
        try:
            read({"data": {key: data.get(key)}})
        except ValueError as error:
            errors.append(str(error))
            data[key] = before.get(key)
    return {**config_map, "data": data}, "; ".join(errors)


def _data(config_map: Mapping[str, Any]) -> Mapping[str, Any]:
    data = config_map.get("data") or {}
    if not isinstance(data, Mapping):
        raise ValueError("data: not an object")  # noqa: TRY004  (a bad document, not a bad call)
    return data


def _configuration(key: str, text: Any) -> _Configuration:
    if not isinstance(text, str):
        raise ValueError(f"data.{key}: not a string of JSON")  # noqa: TRY004
    strategy = _SHAPES[key]
    entry = Record({**_PROFILE, **strategy.keys})
    is_list = key == _APPLICATIONS
    nodes = "nodeConfigs" if is_list else "nodeStrategies"
    shape = Record({**(strategy.keys if is_list else {"clusterStrategy": strategy}), nodes: Items(entry)})
    try:
        value = decode(text, shape)
    except ValueError as error:
        raise ValueError(f"data.{key}: {error}") from None
    entries = value.pop(nodes, ())
    cluster = value if is_list else value.get("clusterStrategy", {})
    return _Configuration(_with_bandwidth(cluster), tuple(map(_with_bandwidth, entries)))


def _with_bandwidth(strategy: dict[str, Any]) -> dict[str, Any]:
    """Return a strategy in which the bandwidth is a string, as in NodeSLO."""
    bandwidth: Fraction | None = strategy.get(_BANDWIDTH_KEY)
    if bandwidth is None:
        return strategy
    text = str(bandwidth) if bandwidth.denominator == 1 else f"{quantity.ceil(bandwidth * 10**9)}n"
    return {**strategy, _BANDWIDTH_KEY: text}


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
        strategy = over(configuration.cluster, _node_strategy(key, configuration, labels))
        if strategy:
            spec[slo_key] = strategy
    bandwidth = node_texts(node or {}, "annotations").get(_BANDWIDTH)
    if bandwidth is not None and _is_quantity(bandwidth):
        spec["systemStrategy"] = {**spec.get("systemStrategy", {}), _BANDWIDTH_KEY: bandwidth}
    elif bandwidth is not None:
        spec.pop("systemStrategy", None)  # the manager writes no strategy if it cannot read the annotation
    if _APPLICATIONS in configurations:
        configuration = configurations[_APPLICATIONS]
        entry = _matching(configuration, labels)
        applications = (configuration.cluster if entry is None else entry).get("applications")
        if applications:
            spec["hostApplications"] = applications
    return {"kind": SLO, "metadata": {}, "spec": spec}


def _matching(configuration: _Configuration, labels: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the first entry for a node, or None if there is no entry."""
    return next((entry for entry in configuration.nodes if is_selected(entry.get("nodeSelector"), labels)), None)


def _node_strategy(key: str, configuration: _Configuration, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the strategy of the first entry for a node."""
    entry = _matching(configuration, labels) or {}
    strategy = {name: value for name, value in entry.items() if name not in _PROFILE}
    if key == _SYSTEM and strategy:
        # The manager writes an entry's bandwidth even if it is missing, so the cluster's bandwidth is not used.
        strategy.setdefault(_BANDWIDTH_KEY, "0")
    return strategy


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def unread(config_map: Mapping[str, Any]) -> list[Unread]:
    """Return the keys of the ConfigMap without effect on a node."""
    return [*_unknown(_data(config_map), set(_SHAPES))]


def _unknown(data: Mapping[str, Any], known_keys: set[str]) -> Iterator[Unread]:
    for key in data:
        if key in _OF_MANAGER:
            yield Unread(f"data.{key}", "only Koordinator's manager reads it")
        elif key not in known_keys:
            yield Unread.of(f"data.{key}", nearest(key, known_keys))
