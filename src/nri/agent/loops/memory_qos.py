"""CgroupReconcile: memory QoS of folders, pods and containers: what is protected, and from where on it is slowed down.

Rules: a folder's protection is the sum of its pods', because a cgroup has no more than the one above it; what was set
and is no longer asked for goes back to the kernel's own value. Next: :mod:`nri.agent.loops.block_io`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.explain import Subject
from nri.agent.loops.moment import LoopPod, Moment, folder_subject
from nri.agent.loops.strategy import Strategies
from nri.policies.koordinator import paths
from nri.policies.koordinator.formulas import UNLIMITED
from nri.policies.koordinator.loops.memory_qos import MemoryQos, container_values, pod_values
from nri.policies.koordinator.names import BATCH_MEMORY, BEST_EFFORT, BURSTABLE, GUARANTEED

__all__ = ["NAME", "MemoryQosLoop"]

NAME: Final = "CgroupReconcile"
_MEMORY = ("memory", BATCH_MEMORY)
#: What the kernel has by itself.
_OWN: Final = {
    "memory.min": 0, "memory.low": 0, "memory.high": UNLIMITED,
    "memory.wmark_ratio": 0, "memory.wmark_scale_factor": 50, "memory.wmark_min_adj": 0,
}  # fmt: skip
_SUMMED: Final = ("memory.min", "memory.low")


class MemoryQosLoop:
    """Sets memory QoS."""

    name = NAME

    def __init__(self) -> None:
        self._set: dict[tuple[str, str], Subject] = {}

    def __len__(self) -> int:
        """The number of values that are remembered as set."""
        return len(self._set)

    def wants(self, strategies: Strategies) -> bool:
        """Whether there is work: memory QoS that is asked for, or that was set."""
        return bool(self._set) or any(each.enabled for each in strategies.memory.values())

    def round(self, moment: Moment) -> None:
        """Decide for all pods and the folders above them."""
        wanted: dict[tuple[str, str], tuple[int, Subject]] = {}
        sums: dict[str, dict[str, int]] = {}
        for pod in moment.pods:
            qos = moment.of_pod(pod, NAME).memory
            values = pod_values(qos, sum(_request(pod, each.get("name", "")) for each in pod.specs))
            wanted.update({(pod.folder, knob): (value, pod.subject()) for knob, value in values.items()})
            self._containers(moment, pod, qos, wanted)
            for name in {GUARANTEED, pod.kube_class}:
                own = sums.setdefault(name, {})
                for knob in _SUMMED:
                    if knob in values:
                        own[knob] = own.get(knob, 0) + values[knob]
        for name in (GUARANTEED, BURSTABLE, BEST_EFFORT):
            folder = paths.kube_class_path(name, moment.parts.driver)
            found = {(folder, knob): (value, folder_subject(name)) for knob, value in sums.get(name, {}).items()}
            wanted.update(found)
        for (folder, knob), subject in self._set.items():
            if (folder, knob) not in wanted and moment.parts.executor.hierarchies.exists(folder):
                moment.wish(subject, folder, knob, _OWN[knob], NAME, "no memory QoS any more")
        for (folder, knob), (value, subject) in wanted.items():
            moment.wish(subject, folder, knob, value, NAME, "NodeSLO's memoryQOS, or the pod's")
        self._set = {key: subject for key, (_, subject) in wanted.items()}

    def _containers(
        self, moment: Moment, pod: LoopPod, qos: MemoryQos, wanted: dict[tuple[str, str], tuple[int, Subject]]
    ) -> None:
        for container in pod.containers:
            limit = pod.amount(container.name, "limits", *reversed(_MEMORY))
            if limit <= 0 and qos.enabled and qos.throttling_percent and moment.sample.memory_total is None:
                moment.cannot(NAME, "no memory.high for containers without a limit", moment.sample.no_memory)
            values = container_values(qos, _request(pod, container.name), limit, moment.sample.memory_total)
            for knob, value in values.items():
                wanted[container.cgroup_parent, knob] = value, pod.subject(container.name)


def _request(pod: LoopPod, name: str) -> int:
    return max(pod.amount(name, "requests", *reversed(_MEMORY)), 0)
