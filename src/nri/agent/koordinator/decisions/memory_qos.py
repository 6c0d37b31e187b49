"""Memory QoS: what of a pod's and a container's memory is protected, and from where on it is slowed down.

| level | knobs |
|---|---|
| folder of a Kubernetes class | sums of `memory.min` and `memory.low`; the out-of-memory killer's priority and group |
| pod | these, of what it asks for; Anolis' `memory.wmark_*` and `memory.pagecache_limit.*` |
| container | these, and `memory.high` |

A class that is off has the values of `defaults.OFF`, and those are written: so what was set goes back. Configurations
are NodeSLO's `memoryQOS` as dicts; a key that is absent sets nothing. cgroup v2 has the first three knobs and the
group (v1 on Anolis alone). Next: `nri.agent.koordinator.decisions.block_io`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.defaults import AUTO, OFF
from nri.agent.koordinator.names import BE, LS, LSE, LSR, SYSTEM
from nri.policies.formulas import UNLIMITED
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from nri.policies.shapes import Record, decode, fit

__all__ = [
    "ANNOTATION_MEMORY",
    "CACHE_SWITCH",
    "CLASS_KEYS",
    "POD_SHAPE",
    "SHAPE",
    "Container",
    "Pod",
    "Target",
    "of_pod",
    "parse",
    "targets",
]

ANNOTATION_MEMORY: Final = "koordinator.sh/memoryQOS"
#: NodeSLO's key of each QoS class.
CLASS_KEYS: Final = {LSE: "lsrClass", LSR: "lsrClass", LS: "lsClass", BE: "beClass", SYSTEM: "systemClass"}
_PAGE: Final = 4096
#: Whether a pod's page cache is limited.
CACHE_SWITCH: Final = "memory.pagecache_limit.enable"
#: Limits of a pod's page cache, which only Anolis' kernels have.
_CACHE: Final = {
    "pageCacheEnable": bool, "pageCacheLimitPercent": int, "pageCacheLimitSize": int, "pageCacheReclaimSync": bool,
}  # fmt: skip
SHAPE: Final = Record({**{name: bool if name == "enable" else int for name in OFF["memoryQOS"]}, **_CACHE})
POD_SHAPE: Final = Record({**SHAPE.keys, "policy": str})
#: Anolis' knobs and the killer's, by NodeSLO's key.
_WATERMARKS: Final = {
    "wmarkRatio": "memory.wmark_ratio",
    "wmarkScalePermill": "memory.wmark_scale_factor",
    "wmarkMinAdj": "memory.wmark_min_adj",
}
_KILLER: Final = {
    "priority": "memory.priority",
    "priorityEnable": "memory.use_priority_oom",
    "oomKillGroup": "memory.oom_group",
}
#: Whose configuration a Kubernetes class's folder has.
_FOLDERS: Final = {GUARANTEED: "lsrClass", BURSTABLE: "lsClass", BEST_EFFORT: "beClass"}
Config = Mapping[str, Any]


class Container(NamedTuple):
    """A container: its folder, and its request and limit in bytes; 0 is none."""

    folder: str
    request: int
    limit: int


class Pod(NamedTuple):
    """A pod: its folder, its Kubernetes class, its request and limit in bytes, 0 for none, and what holds for it."""

    folder: str
    kube_class: str
    config: Config
    request: int
    containers: Sequence[Container]
    limit: int = 0


class Target(NamedTuple):
    """A value that a knob is to have. `level` is qos, pod or container."""

    level: str
    folder: str
    knob: str
    value: int


def parse(given: Any, where: str = "memoryQOS") -> Config:
    """Read a class's `memoryQOS`. Raises ValueError with the place, which begins with `where`."""
    found: Config = fit({} if given is None else given, SHAPE, where)
    return found


def of_pod(annotation: str | None, node: Config | None, class_key: str) -> Config:
    """Return what holds for a pod: its annotation's policy and fields over the node's word on its class.

    Args:
        annotation: the pod's, if it has one.
        node: `memoryQOS` of its class; None is none.
        class_key: NodeSLO's key of its class, "" for none.

    Raises:
        ValueError: the annotation cannot be read.
    """
    found = dict(node or {})
    if not annotation:
        return found
    given = decode(annotation, POD_SHAPE)
    policy = given.pop("policy", "")
    if policy == "none":
        return dict(OFF["memoryQOS"])
    if policy == "auto":
        enable = {"enable": found["enable"]} if "enable" in found else {}
        found = {**AUTO.get(class_key, OFF["memoryQOS"]), **enable}
        if not enable:
            del found["enable"]
    return {**found, **{key: value for key, value in given.items() if key != "enable"}}


def targets(
    pods: Iterable[Pod], classes: Mapping[str, Config | None], allocatable: int | None, folders: Mapping[str, str]
) -> list[Target]:
    """Return all values.

    Args:
        pods: those that run.
        classes: `memoryQOS` by NodeSLO's key of the class; the folder of a class that is not there is left alone.
        allocatable: bytes that the node has for pods, where a container without a limit is slowed down; None is not
            known, and then it is not.
        folders: of the Kubernetes classes; that of guaranteed pods is the one of all.
    """
    found: list[Target] = []
    sums: dict[str, dict[str, int]] = {}
    for pod in pods:
        asked = _asked(pod.config, pod.request)
        values = _protected(pod.config, pod.request)
        for name in {GUARANTEED, pod.kube_class}:
            own = sums.setdefault(name, dict.fromkeys(asked, 0))
            for knob, value in asked.items():
                own[knob] = own.get(knob, 0) + value
        values |= _cached(pod.config, pod.limit)
        found += _all("pod", pod.folder, {**values, **_named(pod.config, {**_WATERMARKS, **_KILLER})})
        for each in pod.containers:
            own = {**_protected(pod.config, each.request), **_slowed(pod.config, each, allocatable)}
            found += _all("container", each.folder, {**own, **_named(pod.config, {**_WATERMARKS, **_KILLER})})
    for name, key in _FOLDERS.items():
        if key not in classes:
            continue
        config = classes[key] or {}
        found += _all("qos", folders[name], {**sums.get(name, {}), **_named(config, _KILLER)})
    return found


def _all(level: str, folder: str, values: Mapping[str, int]) -> list[Target]:
    return [Target(level, folder, knob, value) for knob, value in values.items()]


def _named(config: Config, knobs: Mapping[str, str]) -> dict[str, int]:
    return {knob: config[key] for key, knob in knobs.items() if config.get(key) is not None}


def _cached(config: Config, limit: int) -> dict[str, int]:
    """The limit of a pod's page cache: a size, or a percentage of its memory's limit; 0 switches it off.

    `pageCacheEnable` has the last word on the switch alone.
    """
    size, percent = config.get("pageCacheLimitSize"), config.get("pageCacheLimitPercent")
    if size is None and percent is not None and limit > 0:
        size = limit * percent // 100
    values: dict[str, int] = {}
    if size is not None and size > 0:
        values["memory.pagecache_limit.size"] = min(size, limit) if limit > 0 else size
        values["memory.pagecache_limit.sync"] = int(config.get("pageCacheReclaimSync") or False)
        values[CACHE_SWITCH] = 1
    elif size is not None:
        values |= {CACHE_SWITCH: 0, "memory.pagecache_limit.size": 0}
    if config.get("pageCacheEnable") is not None:
        values[CACHE_SWITCH] = int(config["pageCacheEnable"])
    return values


def _asked(config: Config, request: int) -> dict[str, int]:
    """`memory.min` and `memory.low`, as the percentages say."""
    keys = {"minLimitPercent": "memory.min", "lowLimitPercent": "memory.low"}
    return {knob: request * config[key] // 100 for key, knob in keys.items() if config.get(key) is not None}


def _protected(config: Config, request: int) -> dict[str, int]:
    """`memory.min` and `memory.low`; the second never below the first, if it is set."""
    values = _asked(config, request)
    if values.get("memory.low"):
        values["memory.low"] = max(values["memory.low"], values.get("memory.min", 0))
    return values


def _slowed(config: Config, container: Container, allocatable: int | None) -> dict[str, int]:
    """`memory.high`, between request and limit, in whole pages, and never below `memory.min`."""
    percent = config.get("throttlingPercent")
    if percent is None:
        return {}
    end = container.limit or allocatable
    if percent == 0:
        return {"memory.high": UNLIMITED}
    if end is None:
        return {}
    request = container.request
    above = (end - request) * percent
    high = (request + (above // 100 if above >= 0 else -(-above // 100))) // _PAGE * _PAGE
    return {"memory.high": max(high, _protected(config, request).get("memory.min", 0))}
