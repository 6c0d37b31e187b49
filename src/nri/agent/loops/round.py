"""A round of strategies: their inputs, and the values that they request.

Strategies add values to the round instead of writing them. All values are written as one batch, parents first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import BEST_EFFORT
from nri.agent.last_good import LastGoodAnnotations
from nri.agent.loops.samples import Sample
from nri.agent.model import HostApplication, Pod, Resctrl, Subject
from nri.agent.parts import Parts
from nri.host import Topology, Unsupported, Writer, cgroup_usage
from nri.host.cgroups.units import Value
from nri.host.usage import CgroupUsage

__all__ = ["Evictions", "KnobValue", "Pod", "Round", "folder_subject"]

_Rules = TypeVar("_Rules")


class KnobValue(NamedTuple):
    """A value that a strategy requests for a knob.

    Attributes:
        devices: the values by device, for a knob with a value for each device.
        group: the name of a group of values that are applied together or not at all; "" means no group.
        passing: whether the value lasts for one round only; it is then written without notifying the runtime.
    """

    subject: Subject
    folder: str
    knob: str
    value: str
    loop: str
    reason: str
    devices: Mapping[str, int] | Mapping[str, str] | None = None
    group: str = ""
    passing: bool = False


class Evictions(Protocol):
    """An object that evicts pods and records the evictions."""

    def evict(self, pod: Pod, loop: str, reason: str) -> str:
        """Request the eviction of a pod; return "" if it was accepted, or else the reason."""
        ...


@dataclass(slots=True)
class Round(Generic[_Rules]):
    """The inputs and results of one round.

    Attributes:
        parts: the shared parts of the agent; strategies only read them.
        rules: the rules for strategies, from their document.
        pods: the running pods.
        sample: the sample of the machine.
        topology: the CPUs of the machine.
        values: the values to write.
        groups: the resctrl groups to write.
        switches: the sysctls to set: strategy, sysctl and value.
        evictions: the object that evicts pods; None if evictions are not possible.
        spared: the reasons why candidates must not be evicted, by pod and strategy.
        errors: a line for each failed decision.
        unreadable: the errors of annotations, by pod and strategy; "" means that the annotation is valid.
        good: the last readable annotations of this and earlier rounds.
        unsupported: a line for each decision that needs data which this machine does not have.
    """

    parts: Parts
    rules: _Rules
    pods: list[Pod]
    sample: Sample
    topology: Topology
    values: list[KnobValue] = field(default_factory=list)
    groups: list[Resctrl] = field(default_factory=list)
    switches: list[tuple[str, str, int]] = field(default_factory=list)
    evictions: Evictions | None = None
    spared: dict[tuple[Subject, str], str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    unreadable: dict[tuple[Subject, str], str] = field(default_factory=dict)
    good: LastGoodAnnotations = field(default_factory=LastGoodAnnotations)
    unsupported: dict[str, None] = field(default_factory=dict)

    @property
    def best_effort_folder(self) -> str:
        """The cgroup of best-effort pods."""
        return paths.kube_class_path(BEST_EFFORT, self.parts.driver)

    @property
    def programs(self) -> list[HostApplication]:
        """The host programs with cgroups that documents list. Empty if the documents cannot be read."""
        try:
            listed = list(self.parts.profile.programs(self.parts.store.document, self.parts.driver))
        except ValueError:
            return []
        return [replace(program, folder=program.folder.strip("/")) for program in listed if program.folder]

    def read(self, folder: str, knob: str) -> Value | None:
        """Return the current value of a knob, or None if it is unknown."""
        try:
            current = Writer(self.parts.executor.hierarchies, refresh_s=0).read(folder, knob)
        except (OSError, ValueError):
            return None
        return None if isinstance(current, Unsupported) else current

    def usage(self, folder: str, *, processor_only: bool = False) -> CgroupUsage | None:
        """Return the usage of a cgroup since its creation, or None if the cgroup does not exist."""
        try:
            return cgroup_usage(self.parts.executor.hierarchies, folder, processor_only=processor_only)
        except (OSError, ValueError):
            return None

    def evict(self, pod: Pod, loop: str, reason: str) -> bool:
        """Request the eviction of a pod, and return whether the request was accepted."""
        refused = "this agent cannot evict" if self.evictions is None else self.evictions.evict(pod, loop, reason)
        if refused:
            self.errors.append(f"{loop}: {refused}")
        return not refused

    def cannot(self, loop: str, what: str, why: str) -> None:
        """Record an action that a strategy cannot do without data of this machine. No effect if `why` is ""."""
        if why:
            self.unsupported[f"{loop}: {what}: unsupported here: {why}"] = None

    def set(
        self,
        subject: Subject,
        folder: str,
        knob: str,
        value: object,
        loop: str,
        reason: str,
        *,
        group: str = "",
        passing: bool = False,
    ) -> None:
        """Add a value to write. `KnobValue` explains the parameters."""
        self.values.append(KnobValue(subject, folder, knob, str(value), loop, reason, None, group, passing))


def folder_subject(kube_class: str) -> Subject:
    """Return the subject for records about the cgroup of a Kubernetes QoS class."""
    return Subject(f"kube-qos/{kube_class}", name=kube_class)
