"""The strategy CgroupReconcile: protected memory of pods and containers, and the usage at which they are throttled.

| level | cgroup files |
|---|---|
| Kubernetes QoS class | sums of `memory.min` and `memory.low`; the out-of-memory killer's priority and group |
| pod | the same files, from the pod's request; Anolis' `memory.wmark_*` and `memory.pagecache_limit.*` |
| container | the same files, and `memory.high` |

A class that is off is written with the values of `OFF`, which resets it. Configurations are NodeSLO's `memoryQOS` as
dicts; an absent key sets no value. cgroup v2 has the first three files and the group (v1 has them on Anolis only). When
the last class or pod is switched off, the values of `OFF` are written once more, also at the start if an earlier agent
left values. A set `memory.oom_group` of a container does not count as such a value, because the kubelet sets it.
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
from nri.agent.ownership import Level, OwnedKnob
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
#: The knob that switches the limit of a pod's page cache on.
CACHE_SWITCH: Final = "memory.pagecache_limit.enable"
#: The keys of a pod's page cache limit, which only Anolis' kernels have.
_CACHE: Final = {
    "pageCacheEnable": bool, "pageCacheLimitPercent": int, "pageCacheLimitSize": int, "pageCacheReclaimSync": bool,
}  # fmt: skip
SHAPE: Final = Record({**{name: bool if name == "enable" else int for name in OFF["memoryQOS"]}, **_CACHE})
POD_SHAPE: Final = Record({**SHAPE.keys, "policy": str})
#: Anolis' knobs for watermarks, by NodeSLO's key.
_WATERMARKS: Final = {
    "wmarkRatio": "memory.wmark_ratio",
    "wmarkScalePermill": "memory.wmark_scale_factor",
    "wmarkMinAdj": "memory.wmark_min_adj",
}
_KILLER: Final = {
    #: Knobs of the out-of-memory killer, by NodeSLO's key.
    "priority": "memory.priority",
    "priorityEnable": "memory.use_priority_oom",
    "oomKillGroup": "memory.oom_group",
}
#: NodeSLO's key of the class that configures each Kubernetes QoS class.
_FOLDERS: Final = {GUARANTEED: "lsrClass", BURSTABLE: "lsClass", BEST_EFFORT: "beClass"}
Config = Mapping[str, Any]
NAME: Final = "CgroupReconcile"


class QosContainer(NamedTuple):
    """A container: its cgroup, and its request and limit in bytes. 0 means none."""

    folder: str
    request: int
    limit: int


class QosPod(NamedTuple):
    """A pod: its cgroup, Kubernetes class and configuration, and its request and limit in bytes. 0 means none."""

    folder: str
    kube_class: str
    config: Config
    request: int
    containers: Sequence[QosContainer]
    limit: int = 0


class Target(NamedTuple):
    """A value for a knob. `level` is qos, pod or container."""

    level: str
    folder: str
    knob: str
    value: int


def parse(document: Any, where: str = "memoryQOS") -> Config:
    """Read a class's `memoryQOS`. Raises ValueError, which starts with the key's path, if it is malformed."""
    config: Config = fit({} if document is None else document, SHAPE, where)
    return config


def of_pod(annotation: str | None, node: Config | None, class_key: str) -> Config:
    """Return the configuration of a pod: policy and fields of its annotation replace its class's configuration.

    Args:
        annotation: the annotation of the pod; None if it has none.
        node: `memoryQOS` of the pod's class; None if it is absent.
        class_key: NodeSLO's key of the class; "" if the pod has no class.

    Raises:
        ValueError: the annotation is malformed.
    """
    config = dict(node or {})
    if not annotation:
        return config
    fields = decode(annotation, POD_SHAPE)
    policy = fields.pop("policy", "")
    if policy == "none":
        return dict(OFF["memoryQOS"])
    if policy == "auto":
        enable = {"enable": config["enable"]} if "enable" in config else {}
        config = {**AUTO.get(class_key, OFF["memoryQOS"]), **enable}
        if not enable:
            del config["enable"]
    return {**config, **{key: value for key, value in fields.items() if key != "enable"}}


def targets(
    pods: Iterable[QosPod], classes: Mapping[str, Config | None], allocatable: int | None, folders: Mapping[str, str]
) -> list[Target]:
    """Return the values of all pods, containers and Kubernetes QoS classes.

    Args:
        pods: the running pods.
        classes: `memoryQOS` by NodeSLO's key of the class; an absent class gets no values.
        allocatable: the node's memory for pods in bytes, from which the throttling of containers without a limit is
            computed; None if unknown, then they are not throttled.
        folders: the cgroups of Kubernetes QoS classes; the cgroup of guaranteed pods contains the others.
    """
    all_targets: list[Target] = []
    sums: dict[str, dict[str, int]] = {}
    for pod in pods:
        protected = _protected_sums(pod.config, pod.request)
        values = _protected(pod.config, pod.request)
        for name in {GUARANTEED, pod.kube_class}:
            container_values = sums.setdefault(name, dict.fromkeys(protected, 0))
            for knob, value in protected.items():
                container_values[knob] = container_values.get(knob, 0) + value
        values |= _page_cache_limit(pod.config, pod.limit)
        all_targets += _targets(
            "pod", pod.folder, {**values, **_values_by_knob(pod.config, {**_WATERMARKS, **_KILLER})}
        )
        for container in pod.containers:
            container_values = {
                **_protected(pod.config, container.request),
                **_memory_high(pod.config, container, allocatable),
            }
            all_targets += _targets(
                "container",
                container.folder,
                {**container_values, **_values_by_knob(pod.config, {**_WATERMARKS, **_KILLER})},
            )
    for name, key in _FOLDERS.items():
        if key not in classes:
            continue
        config = classes[key] or {}
        all_targets += _targets("qos", folders[name], {**sums.get(name, {}), **_values_by_knob(config, _KILLER)})
    return all_targets


def _targets(level: str, folder: str, values: Mapping[str, int]) -> list[Target]:
    return [Target(level, folder, knob, value) for knob, value in values.items()]


def _values_by_knob(config: Config, knobs: Mapping[str, str]) -> dict[str, int]:
    return {knob: config[key] for key, knob in knobs.items() if config.get(key) is not None}


def _page_cache_limit(config: Config, limit: int) -> dict[str, int]:
    """Return the limit of a pod's page cache: a size, or a percentage of the memory limit. 0 switches the limit off.

    `pageCacheEnable` overrides only whether the limit is on.
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


def _protected_sums(config: Config, request: int) -> dict[str, int]:
    """Return `memory.min` and `memory.low` from the percentages."""
    keys = {"minLimitPercent": "memory.min", "lowLimitPercent": "memory.low"}
    return {knob: request * config[key] // 100 for key, knob in keys.items() if config.get(key) is not None}


def _protected(config: Config, request: int) -> dict[str, int]:
    """Return `memory.min` and `memory.low`. A set `memory.low` is not below `memory.min`."""
    values = _protected_sums(config, request)
    if values.get("memory.low"):
        values["memory.low"] = max(values["memory.low"], values.get("memory.min", 0))
    return values


def _memory_high(config: Config, container: QosContainer, allocatable: int | None) -> dict[str, int]:
    """Return `memory.high`: between request and limit, in whole pages, and not below `memory.min`."""
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
        raise ValueError(f"policy: unknown policy {str(policy)[:40]!r}; choose from default, auto, none")
    return of_pod(text, node, class_key)


class MemoryQos(Strategy):
    """The strategy that sets memory QoS."""

    name = NAME
    key = ANNOTATION_MEMORY

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        #: Whether values are set; None before the first round.
        self._active: bool | None = None
        #: The cgroups of pods with a page cache limit.
        self._page_cache_cgroups: frozenset[str] = frozenset()

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether memory QoS is requested or was set."""
        return self._active is not False or any(rule.get("enable") for rule in rules[MEMORY].values())

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for all pods, their containers and the Kubernetes QoS classes."""
        before, self._active = self._active, any(rule.get("enable") for rule in round_.rules[MEMORY].values())
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
            subjects |= {container.folder: pod.subject(container.name) for container in pod.containers}
            pods.append(_pod(round_, pod))
        all_targets = targets(pods, round_.rules[MEMORY], _allocatable(round_), folders)
        if before is None and not self._active and not any(_is_leftover(round_, target) for target in all_targets):
            return
        switched_folders = {target.folder for target in all_targets if target.knob == CACHE_SWITCH}
        all_targets += [
            Target("pod", target, CACHE_SWITCH, 0)
            for target in self._page_cache_cgroups - switched_folders
            if target in subjects
        ]
        self._page_cache_cgroups = frozenset(
            target.folder for target in all_targets if target.knob == CACHE_SWITCH and target.value
        )
        for target in all_targets:
            round_.set(
                subjects[target.folder],
                target.folder,
                target.knob,
                target.value,
                NAME,
                "memoryQOS of NodeSLO or of the pod",
            )


def _is_leftover(round_: Round[NodeSlo], target: Target) -> bool:
    """Return whether a knob has a value of an earlier agent."""
    kubelets = (target.level, target.knob) == ("container", "memory.oom_group")
    return not kubelets and round_.read(target.folder, target.knob) not in (None, target.value)


def _pod(round_: Round[NodeSlo], pod: Pod) -> QosPod:
    name = BATCH_MEMORY if pod_class.labelled_be(pod.labels) else "memory"
    names = (name, "memory") if from_runtime(pod.manifest) else (name,)
    containers = [
        QosContainer(
            container.folder,
            max(pod.amount(container.name, "requests", *names), 0),
            max(pod.amount(container.name, "limits", *names), 0),
        )
        for container in pod.containers
    ]
    config = POD_MEMORY.in_round(round_, pod)
    request, limit = (
        next((amount for name in names if (amount := read(pod.manifest, name))), 0)
        for read in (pod_class.request, pod_class.limit)
    )
    return QosPod(pod.folder, pod.kube_class, config, request, containers, limit)


def _allocatable(round_: Round[NodeSlo]) -> int | None:
    """Return the node's memory for pods in bytes: allocatable, or else all memory, or None if unknown."""
    status: Mapping[str, Any] = (round_.parts.store.document("Node") or {}).get("status") or {}
    try:
        return ceil(capped((status.get("allocatable") or {})["memory"]))
    except (KeyError, TypeError, ValueError):
        total = round_.sample.memory_total
    if total is None:
        round_.cannot(NAME, "no memory.high for containers without a limit", round_.sample.no_memory)
    return total


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
    tuple(OwnedKnob(level, file) for level in (Level.KUBE_QOS, Level.POD, Level.CONTAINER) for file in _FILES),
    ANNOTATION_MEMORY,
    document_keys=((SLO, "resourceQOSStrategy.{}.memoryQOS"),),
)
