"""CgroupReconcile: what of a pod's and a container's memory is protected, and from which use on it is slowed down.

| level | cgroup files |
|---|---|
| folder of a Kubernetes class | sums of `memory.min` and `memory.low`; the out-of-memory killer's priority and group |
| pod | these, of what it asks for; Anolis' `memory.wmark_*` and `memory.pagecache_limit.*` |
| container | these, and `memory.high` |

A class that is off has the values of `OFF`, and those are written: so what was set goes back. Configurations are
NodeSLO's `memoryQOS` as dicts; a key that is absent sets nothing. cgroup v2 has the first three files and the group (v1
on Anolis alone). While any class or pod asks for it, all have their values; when none does any more they are written
once again, and at the start too, where an agent that was killed has left some. That a container dies as a group is not
a sign of one: the kubelet sets it; that a pod or a folder does is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from nri.agent.koordinator import pod_class
from nri.agent.koordinator.documents import AUTO, OFF, SLO, NodeSlo, Part, PodAnnotation, class_part, json_object
from nri.agent.koordinator.names import BATCH_MEMORY, BE, LS, LSE, LSR, SYSTEM
from nri.agent.loops.round import Round, folder_subject
from nri.agent.loops.strategy import Strategy
from nri.agent.model import Pod, Subject
from nri.agent.ownership import Level, Owns
from nri.agent.pods.manifest import from_runtime
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.quantity import capped, ceil
from nri.kube.shapes import Record, decode, fit

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
NAME: Final = "CgroupReconcile"


class QosContainer(NamedTuple):
    """A container: its folder, and its request and limit in bytes; 0 is none."""

    folder: str
    request: int
    limit: int


class QosPod(NamedTuple):
    """A pod: its folder, its Kubernetes class, its request and limit in bytes, 0 for none, and what holds for it."""

    folder: str
    kube_class: str
    config: Config
    request: int
    containers: Sequence[QosContainer]
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
    pods: Iterable[QosPod], classes: Mapping[str, Config | None], allocatable: int | None, folders: Mapping[str, str]
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


def _slowed(config: Config, container: QosContainer, allocatable: int | None) -> dict[str, int]:
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


def _pod_memory(text: str, node: Config, class_key: str) -> Config:
    policy = json_object(text).get("policy", "")
    if policy not in ("", "default", "auto", "none"):
        raise ValueError(f"policy: there is no policy {str(policy)[:40]!r}; there are default, auto, none")
    return of_pod(text, node, class_key)


class MemoryQos(Strategy):
    """Sets memory QoS."""

    name = NAME
    key = ANNOTATION_MEMORY

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        #: Whether anything is set; None before it was looked.
        self._active: bool | None = None
        #: The pods whose page cache is limited.
        self._cached: frozenset[str] = frozenset()

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: memory QoS that is asked for, or that was set."""
        return self._active is not False or any(each.get("enable") for each in rules[MEMORY].values())

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for all pods and the folders above them."""
        before, self._active = self._active, any(each.get("enable") for each in round_.rules[MEMORY].values())
        self._active = self._active or any(ANNOTATION_MEMORY in pod.annotations for pod in round_.pods)
        if before is False and not self._active:
            return
        folders = {
            name: paths.kube_class_path(name, round_.parts.driver) for name in (GUARANTEED, BURSTABLE, BEST_EFFORT)
        }
        subjects: dict[str, Subject] = {folder: folder_subject(name) for name, folder in folders.items()}
        pods = []
        for pod in round_.pods:
            subjects[pod.folder] = pod.subject()
            subjects |= {each.folder: pod.subject(each.name) for each in pod.containers}
            pods.append(_pod(round_, pod))
        found = targets(pods, round_.rules[MEMORY], _allocatable(round_), folders)
        if before is None and not self._active and not any(_left(round_, each) for each in found):
            return
        told = {each.folder for each in found if each.knob == CACHE_SWITCH}
        found += [Target("pod", each, CACHE_SWITCH, 0) for each in self._cached - told if each in subjects]
        self._cached = frozenset(each.folder for each in found if each.knob == CACHE_SWITCH and each.value)
        for each in found:
            round_.set(
                subjects[each.folder], each.folder, each.knob, each.value, NAME, "NodeSLO's memoryQOS, or the pod's"
            )


def _left(round_: Round[NodeSlo], target: Target) -> bool:
    """Whether a value that is off was set."""
    kubelets = (target.level, target.knob) == ("container", "memory.oom_group")
    return not kubelets and round_.read(target.folder, target.knob) not in (None, target.value)


def _pod(round_: Round[NodeSlo], pod: Pod) -> QosPod:
    name = BATCH_MEMORY if pod_class.labelled_be(pod.labels) else "memory"
    names = (name, "memory") if from_runtime(pod.manifest) else (name,)
    containers = [
        QosContainer(
            each.folder,
            max(pod.amount(each.name, "requests", *names), 0),
            max(pod.amount(each.name, "limits", *names), 0),
        )
        for each in pod.containers
    ]
    config = POD_MEMORY.in_round(round_, pod)
    request, limit = (
        next((amount for each in names if (amount := read(pod.manifest, each))), 0)
        for read in (pod_class.request, pod_class.limit)
    )
    return QosPod(pod.folder, pod.kube_class, config, request, containers, limit)


def _allocatable(round_: Round[NodeSlo]) -> int | None:
    """Bytes that the node has for pods, as its status tells, else all that the machine has; None is not known."""
    status: Mapping[str, Any] = (round_.parts.store.document("Node") or {}).get("status") or {}
    try:
        return ceil(capped((status.get("allocatable") or {})["memory"]))
    except (KeyError, TypeError, ValueError):
        found = round_.sample.memory_total
    if found is None:
        round_.cannot(NAME, "no memory.high for containers without a limit", round_.sample.no_memory)
    return found


def _of_classes(spec: Mapping[str, Any]) -> Mapping[str, Config]:
    """Return `memoryQOS` by NodeSLO's key of the class."""
    return {key: parse(*class_part(spec, key, "memoryQOS")) for key in CLASS_KEYS.values()}


def _of_node(rules: NodeSlo, qos: str) -> Config:
    return rules[MEMORY].get(CLASS_KEYS.get(qos, ""), {})


MEMORY: Final[Part[Mapping[str, Config]]] = Part(_of_classes, {})
POD_MEMORY: Final = PodAnnotation(
    NAME,
    ANNOTATION_MEMORY,
    lambda text, rules, qos: _pod_memory(text, _of_node(rules, qos), CLASS_KEYS.get(qos, "")),
    _of_node,
)
_FILES: Final = (
    "memory.min", "memory.low", "memory.high", "memory.wmark_ratio", "memory.wmark_scale_factor",
    "memory.wmark_min_adj", "memory.oom_group", "memory.priority", "memory.use_priority_oom",
    "memory.pagecache_limit.enable", "memory.pagecache_limit.size", "memory.pagecache_limit.sync",
)  # fmt: skip
STRATEGY: Final = StrategyRow(
    NAME,
    False,
    "memory QoS: minimum, low and high of pods and containers",
    "nri.agent.koordinator.memory_qos:MemoryQos",
    tuple(Owns(level, file) for level in (Level.KUBE_QOS, Level.POD, Level.CONTAINER) for file in _FILES),
    ANNOTATION_MEMORY,
    document_keys=((SLO, "resourceQOSStrategy.{}.memoryQOS"),),
)
