"""A round of strategies: what they read, and the values that they want to be set.

Strategies add values to the round and write nothing themselves; all values go out as one batch, in level order.
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
    """A value that a strategy wants a knob to have.

    Attributes:
        devices: the values of a knob that has them by device.
        group: a name shared by values that are applied together or not at all; "" for none.
        passing: whether it lasts for one round only: the file is compared and written, and no runtime is notified.
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
    """Evicts pods and records it."""

    def evict(self, pod: Pod, loop: str, reason: str) -> str:
        """Request the eviction of a pod; return "" if it was accepted, else the reason."""
        ...


@dataclass(slots=True)
class Round(Generic[_Rules]):
    """The inputs and results of one round.

    Attributes:
        parts: of the agent; strategies only read them.
        rules: what the document requests of strategies.
        pods: the running pods.
        sample: of the machine.
        topology: its CPUs.
        values: the values to write.
        groups: the resctrl groups to write.
        switches: sysctls to set: the strategy, the switch and its value.
        evictions: evicts pods; None if that is not possible.
        spared: candidates that may not be evicted, by pod and strategy, with the reason.
        errors: what could not be decided, a line each.
        unreadable: the error of an annotation by pod and strategy, "" if it is valid.
        good: the readable annotations of this round and earlier ones.
        unsupported: decisions that lack data on this machine, a line each.
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
        """The folder of best-effort pods."""
        return paths.kube_class_path(BEST_EFFORT, self.parts.driver)

    @property
    def programs(self) -> list[HostApplication]:
        """The host programs with cgroups that documents list; none if they cannot be read."""
        try:
            listed = list(self.parts.profile.programs(self.parts.store.document, self.parts.driver))
        except ValueError:
            return []
        return [replace(program, folder=program.folder.strip("/")) for program in listed if program.folder]

    def read(self, folder: str, knob: str) -> Value | None:
        """The current value of a knob; None if unknown."""
        try:
            current = Writer(self.parts.executor.hierarchies, refresh_s=0).read(folder, knob)
        except (OSError, ValueError):
            return None
        return None if isinstance(current, Unsupported) else current

    def usage(self, folder: str, *, processor_only: bool = False) -> CgroupUsage | None:
        """The use of a cgroup since its creation; None if it does not exist."""
        try:
            return cgroup_usage(self.parts.executor.hierarchies, folder, processor_only=processor_only)
        except (OSError, ValueError):
            return None

    def evict(self, pod: Pod, loop: str, reason: str) -> bool:
        """Request the eviction of a pod; return whether it was accepted."""
        refused = "this agent cannot evict" if self.evictions is None else self.evictions.evict(pod, loop, reason)
        if refused:
            self.errors.append(f"{loop}: {refused}")
        return not refused

    def cannot(self, loop: str, what: str, why: str) -> None:
        """Record what a strategy cannot do without data of this machine; no effect if `why` is ""."""
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
        """Add a value to write; for the parameters see `KnobValue`."""
        self.values.append(KnobValue(subject, folder, knob, str(value), loop, reason, None, group, passing))


def folder_subject(kube_class: str) -> Subject:
    """The subject of a kube-QoS folder."""
    return Subject(f"kube-qos/{kube_class}", name=kube_class)
