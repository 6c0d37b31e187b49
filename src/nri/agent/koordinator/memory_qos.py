"""CgroupReconcile: memory QoS of folders, pods and containers: what is protected, and from where on it is slowed down.

Rules: while any class or pod asks for it, all have their values, those of classes that are off included; when none does
any more they are written once again, and so go back; so they are at the start, where an agent that was killed has left
some. That a container dies as a group is no sign of one: the kubelet wants it; of a pod or a folder it is. Next:
:mod:`nri.agent.koordinator.block_io`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nri.agent.explain import Subject
from nri.agent.koordinator import pod_class
from nri.agent.koordinator.decisions.memory_qos import ANNOTATION_MEMORY, CACHE_SWITCH, Container, Pod, Target, targets
from nri.agent.koordinator.names import BATCH_MEMORY
from nri.agent.koordinator.slo import NodeSlo, rules_of
from nri.agent.loops.round import Round, StrategyPod, folder_subject
from nri.agent.loops.strategy import Strategy
from nri.agent.settings.values import AgentSettings
from nri.kube.quantity import capped, ceil
from nri.policies import paths
from nri.policies.manifest import from_runtime
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED

__all__ = ["NAME", "MemoryQos"]

NAME: Final = "CgroupReconcile"


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
        return self._active is not False or any(each.get("enable") for each in rules.memory.values())

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for all pods and the folders above them."""
        before, self._active = self._active, any(each.get("enable") for each in made.rules.memory.values())
        self._active = self._active or any(ANNOTATION_MEMORY in pod.annotations for pod in made.pods)
        if before is False and not self._active:
            return
        folders = {
            name: paths.kube_class_path(name, made.parts.driver) for name in (GUARANTEED, BURSTABLE, BEST_EFFORT)
        }
        subjects: dict[str, Subject] = {folder: folder_subject(name) for name, folder in folders.items()}
        pods = []
        for pod in made.pods:
            subjects[pod.folder] = pod.subject()
            subjects |= {each.cgroup_parent: pod.subject(each.name) for each in pod.containers}
            pods.append(_pod(made, pod))
        found = targets(pods, made.rules.memory, _allocatable(made), folders)
        if before is None and not self._active and not any(_left(made, each) for each in found):
            return
        told = {each.folder for each in found if each.knob == CACHE_SWITCH}
        found += [Target("pod", each, CACHE_SWITCH, 0) for each in self._cached - told if each in subjects]
        self._cached = frozenset(each.folder for each in found if each.knob == CACHE_SWITCH and each.value)
        for each in found:
            made.set(
                subjects[each.folder], each.folder, each.knob, each.value, NAME, "NodeSLO's memoryQOS, or the pod's"
            )


def _left(made: Round[NodeSlo], target: Target) -> bool:
    """Whether a value that is off was set."""
    kubelets = (target.level, target.knob) == ("container", "memory.oom_group")
    return not kubelets and made.read(target.folder, target.knob) not in (None, target.value)


def _pod(made: Round[NodeSlo], pod: StrategyPod) -> Pod:
    name = BATCH_MEMORY if pod_class.labelled_be(pod.labels) else "memory"
    names = (name, "memory") if from_runtime(pod.manifest) else (name,)
    containers = [
        Container(
            each.cgroup_parent,
            max(pod.amount(each.name, "requests", *names), 0),
            max(pod.amount(each.name, "limits", *names), 0),
        )
        for each in pod.containers
    ]
    config = rules_of(made, pod, NAME).memory
    request, limit = (
        next((amount for each in names if (amount := read(pod.manifest, each))), 0)
        for read in (pod_class.request, pod_class.limit)
    )
    return Pod(pod.folder, pod.kube_class, config, request, containers, limit)


def _allocatable(made: Round[NodeSlo]) -> int | None:
    """Bytes that the node has for pods, as its status tells, else all that the machine has; None is not known."""
    status: Mapping[str, Any] = (made.parts.store.document("Node") or {}).get("status") or {}
    try:
        return ceil(capped((status.get("allocatable") or {})["memory"]))
    except (KeyError, TypeError, ValueError):
        found = made.sample.memory_total
    if found is None:
        made.cannot(NAME, "no memory.high for containers without a limit", made.sample.no_memory)
    return found
