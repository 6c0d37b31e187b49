"""A moment: all that a strategy may look at in one round, and the way in which it says what it wants.

Rules: a strategy reads a moment and adds wishes to it; it writes nothing itself. Wishes of one round go out as one
batch, in level order. Next: :mod:`nri.agent.loops.cpu_suppress`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from nri.agent.explain import Subject
from nri.agent.loops.samples import Sample
from nri.agent.loops.strategy import READERS, OfPod, Strategies, of_pod
from nri.agent.parts import Parts
from nri.agent.pods.last_good import LastGood
from nri.agent.pods.running import key_of, plain_context, uid_of
from nri.host import Topology, Unsupported, Writer
from nri.host.cgroups.units import Value
from nri.kube.quantity import capped, ceil
from nri.policies.koordinator import paths
from nri.policies.koordinator.contexts import ContainerContext
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.names import BEST_EFFORT, qos_class
from nri.policies.koordinator.refresh.running import RunningPod

__all__ = ["Eviction", "LoopPod", "Moment", "Wish"]

_MOST_CONTAINERS: Final = 256


class Wish(NamedTuple):
    """One knob that is to have a value; `devices` has those of a knob whose values are by device."""

    subject: Subject
    folder: str
    knob: str
    value: str
    loop: str
    reason: str
    devices: Mapping[str, int] | None = None


class Eviction(NamedTuple):
    """A pod that is to go, and why."""

    pod: LoopPod
    loop: str
    reason: str


class LoopPod:
    """A running pod as strategies see it."""

    def __init__(self, running: RunningPod) -> None:
        self.running = running
        self.manifest = running.pod
        self.folder = running.folder
        self.uid, self.key = uid_of(running.pod), key_of(running.pod)
        context = plain_context(running)
        self.annotations, self.qos = context.annotations, qos_class(context.labels)
        self.kube_class = manifest.kube_class(running.pod)
        spec = running.pod.get("spec") or {}
        self.specs: list[Mapping[str, Any]] = list(spec.get("containers") or ())[:_MOST_CONTAINERS]
        priority = spec.get("priority")
        self.priority = priority if isinstance(priority, int) else 0

    @property
    def best_effort(self) -> bool:
        """Whether it is one of those that yield: by its class, else by that of Kubernetes."""
        return self.qos == "BE" or (not self.qos and self.kube_class == BEST_EFFORT)

    @cached_property
    def containers(self) -> list[ContainerContext]:
        """Its containers that have a folder, without the pause container; none in a virtual machine."""
        if manifest.ignored(self.manifest):
            return []
        found = (self.running.container(each.get("name", "")) for each in self.specs)
        return [each for each in found if each.cgroup_parent]

    def amount(self, container: str, part: str, *names: str) -> int:
        """Return the amount of the first resource that it asks for by one of these names, rounded up; -1 if of none.

        Args:
            container: its name.
            part: `requests` or `limits`.
            names: of resources.
        """
        for spec in self.specs:
            if spec.get("name") == container:
                asked = (spec.get("resources") or {}).get(part) or {}
                return next((ceil(capped(asked[name])) for name in names if name in asked), -1)
        return -1

    def subject(self, container: str = "") -> Subject:
        """By which it is found in `explain`."""
        namespace, _, name = self.key.partition("/")
        return Subject(self.uid, namespace, name, container)


@dataclass(slots=True)
class Moment:
    """One round.

    Attributes:
        parts: of the agent; strategies only read of it.
        strategies: what NodeSLO asks for.
        pods: those that run.
        sample: of the machine.
        topology: its CPUs.
        wishes: what strategies want written.
        evictions: whom they want gone.
        errors: what could not be decided.
        misread: by pod and strategy what is wrong with its annotation, "" if nothing is.
        good: the annotations that could be read, of this round and the ones before it.
        unsupported: what this machine does not tell, and so cannot be decided on it, a line each.
    """

    parts: Parts
    strategies: Strategies
    pods: list[LoopPod]
    sample: Sample
    topology: Topology
    wishes: list[Wish] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    misread: dict[tuple[Subject, str], str] = field(default_factory=dict)
    good: LastGood = field(default_factory=LastGood)
    unsupported: dict[str, None] = field(default_factory=dict)

    @property
    def best_effort_folder(self) -> str:
        """The folder of best-effort pods."""
        return paths.kube_class_path(BEST_EFFORT, self.parts.driver)

    def read(self, folder: str, knob: str) -> Value | None:
        """The value of a knob now; None if it cannot be known."""
        try:
            found = Writer(self.parts.executor.hierarchies, refresh_s=0).read(folder, knob)
        except (OSError, ValueError):
            return None
        return None if isinstance(found, Unsupported) else found

    def of_pod(self, pod: LoopPod, loop: str) -> OfPod:
        """Return the rules that hold for a pod.

        An annotation that `loop` cannot read is an error, and the last good one counts, or else the node's word.
        """
        wrong: dict[str, str] = {}
        found = of_pod(self.strategies, pod.qos, pod.annotations, wrong.__setitem__)
        key = next(key for key, reader in READERS.items() if reader == loop)
        self.misread[pod.subject(), loop] = wrong.get(loop, "")
        if loop not in wrong:
            self.good.keep(pod.uid, key, pod.annotations)
            return found
        self.errors.append(f"{pod.key}: {wrong[loop]}")
        instead = self.good.instead(pod.uid, key, pod.annotations)
        return found if instead is None else of_pod(self.strategies, pod.qos, instead, wrong.__setitem__)

    def cannot(self, loop: str, what: str, why: str) -> None:
        """Note what a strategy cannot do, because this machine does not tell what it takes; nothing if `why` is ""."""
        if why:
            self.unsupported[f"{loop}: {what}: unsupported here: {why}"] = None

    def wish(self, subject: Subject, folder: str, knob: str, value: object, loop: str, reason: str) -> None:
        """Add a wish."""
        self.wishes.append(Wish(subject, folder, knob, str(value), loop, reason))


def folder_subject(kube_class: str) -> Subject:
    """The subject of a kube-QoS folder, as decisions on it have."""
    return Subject(f"kube-qos/{kube_class}", name=kube_class)
