"""A round: all that a strategy may look at, and the way in which it says which knobs are to have which values.

Rules: a strategy reads a round and adds values to it; it writes nothing itself. The values of one round go out as one
batch, in level order. Next: :mod:`nri.agent.loops.timer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

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

_MOST_CONTAINERS: Final = 256
_Rules = TypeVar("_Rules")


class KnobValue(NamedTuple):
    """One knob and the value that it is to have.

    Attributes:
        devices: the values of a knob that has them by device.
        whole: a word that values have in common which are to hold all or none; "" for none.
        passing: whether it holds for a moment only: its file is looked at and written, and no runtime hears of it.
    """

    subject: Subject
    folder: str
    knob: str
    value: str
    loop: str
    reason: str
    devices: Mapping[str, int] | Mapping[str, str] | None = None
    whole: str = ""
    passing: bool = False


class Evictions(Protocol):
    """Makes pods go, and records it."""

    def evict(self, pod: Pod, loop: str, reason: str) -> str:
        """Ask for a pod to go; return "" if that is under way, else why not."""
        ...


@dataclass(slots=True)
class Round(Generic[_Rules]):
    """One round.

    Attributes:
        parts: of the agent; strategies only read of it.
        rules: all that the document asks of strategies.
        pods: those that run.
        sample: of the machine.
        topology: its CPUs.
        values: what strategies want written.
        groups: of resctrl, as they are to be.
        switches: of the kernel for the whole machine: the strategy, the switch and its value.
        evictions: makes pods go; None where none may.
        spared: by pod and strategy why it may not be evicted, of those that would have been.
        errors: what could not be decided.
        unreadable: by pod and strategy what is wrong with its annotation, "" if nothing is.
        good: the annotations that could be read, of this round and the ones before it.
        unsupported: what this machine does not tell, and so cannot be decided on it, a line each.
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
        """The programs of the host that documents list, with folders of their own; none if they cannot be read."""
        try:
            listed = list(self.parts.profile.programs(self.parts.store.document, self.parts.driver))
        except ValueError:
            return []
        return [replace(each, folder=each.folder.strip("/")) for each in listed if each.folder]

    def read(self, folder: str, knob: str) -> Value | None:
        """The value of a knob now; None if it cannot be known."""
        try:
            found = Writer(self.parts.executor.hierarchies, refresh_s=0).read(folder, knob)
        except (OSError, ValueError):
            return None
        return None if isinstance(found, Unsupported) else found

    def usage(self, folder: str, *, processor_only: bool = False) -> CgroupUsage | None:
        """The use of a cgroup since its start, read now; None if it is not there."""
        try:
            return cgroup_usage(self.parts.executor.hierarchies, folder, processor_only=processor_only)
        except (OSError, ValueError):
            return None

    def evict(self, pod: Pod, loop: str, reason: str) -> bool:
        """Ask for a pod to go; return whether that is under way."""
        refused = "nothing evicts here" if self.evictions is None else self.evictions.evict(pod, loop, reason)
        if refused:
            self.errors.append(f"{loop}: {refused}")
        return not refused

    def cannot(self, loop: str, what: str, why: str) -> None:
        """Note what a strategy cannot do, because this machine does not tell what it takes; nothing if `why` is ""."""
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
        whole: str = "",
        passing: bool = False,
    ) -> None:
        """Have a knob set; the words are those of `KnobValue`."""
        self.values.append(KnobValue(subject, folder, knob, str(value), loop, reason, None, whole, passing))


def folder_subject(kube_class: str) -> Subject:
    """The subject of a kube-QoS folder, as decisions on it have."""
    return Subject(f"kube-qos/{kube_class}", name=kube_class)
