"""The parts that rubik's services share: the row of a service, how the file switches one on, and the node's rules.

What a service has set is reset in the round after it was switched off. So is what its hook gave a container whose
creation had begun before, and what a killed agent has left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nri.agent.hooks import Hook
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.loops.strategy import Strategy
from nri.agent.model import Pod
from nri.agent.ownership import Owns
from nri.agent.settings.values import AgentSettings
from nri.config.complaint import Problem
from nri.errors import ConfigError

__all__ = ["Node", "Service", "ServiceRow", "Services", "Ticks", "nanoseconds", "readable", "share", "ticks"]

_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Node:
    """The rules of a node and the abilities of its machine, for hooks and services.

    Attributes:
        services: the services that the file switches on, each with its block; None for a service without a block.
        lacks: returns why the kernel does not have a cgroup file; "" if it has it.
        disk: returns the numbers of the block device at a path of the machine, for example `8:0`; "" without one.
        cpus: returns the number of processors.
        command_line: returns the kernel's command line.
        in_force: by service the values that its last round has given to all offline pods, by cgroup file.
        switched_on: the hooks that the settings switch on.
        stages_off: the stages at which no hook decides.
        fail: whether the first hook that fails fails the request.
    """

    services: Mapping[str, Any] = field(default_factory=dict)
    lacks: Callable[[str], str] = lambda _knob: "there is no machine"
    disk: Callable[[str], str] = lambda _path: ""
    cpus: Callable[[], int] = lambda: 0
    command_line: Callable[[], str] = lambda: ""
    in_force: dict[str, Mapping[str, int]] = field(default_factory=dict)
    switched_on: frozenset[str] = frozenset()
    stages_off: frozenset[str] = frozenset()
    fail: bool = False

    def has(self, knob: str) -> bool:
        """Whether the kernel has a cgroup file."""
        return not self.lacks(knob)

    @property
    def gates(self) -> frozenset[str]:
        """The services that are on."""
        return self.switched_on & self.services.keys()

    @property
    def keeps_partial(self) -> bool:
        """Whether the changes that a hook made before it failed are applied: never."""
        return False


class Services:
    """The services that the file switches on, for the rounds.

    Args:
        kind: the kind of the document.
        parse: returns the block of each service that a document switches on, by name. Raises ConfigError.

    Attributes:
        blocks: by the service's name; None for a service without a block.
        known: whether a document was ever read.
        errors: what is wrong with the last document, whose blocks are not used then.
    """

    def __init__(self, kind: str, parse: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self.kind, self._parse = kind, parse
        self.has_document = False
        self.blocks: Mapping[str, Any] = {}
        self.errors: list[str] = []
        self._document: Mapping[str, Any] | None = None

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read the file; None switches everything off."""
        if document is self._document and document is not None:
            return
        self._document = document
        if document is None:
            self.blocks = {}
            return
        self.has_document = True
        try:
            self.blocks, self.errors = self._parse(document), []
        except ConfigError as error:  # the store has refused it before
            self.errors = [str(error)]


class Service(Strategy):
    """One service with its rounds.

    Attributes:
        name: its name in `agent.enabledFeatures`.
        interval_s: the pause between two rounds in seconds, by the file.
        transient: whether its values are reset when the agent ends.
        block: its block of the file; None if it has no block, or is off.
        on: whether the file switches it on.
    """

    name: str

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.interval_s = 0.0
        self.block: Any = None
        self.on = False
        #: The containers of pods with the annotation in the last round without the service; None if it was never on.
        self._containers_without: frozenset[str] | None = None

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on."""
        self.on = self.name in rules.blocks
        block = rules.blocks.get(self.name)
        if block != self.block:
            self.block = block
            self.changed()
        if self.on:
            self.interval_s = self.pause_s()
            self._containers_without = frozenset()
        return self.on

    def pause_s(self) -> float:
        """Return the pause between two rounds, in seconds; 0 for that of the settings."""
        return 0.0

    def changed(self) -> None:
        """Apply another block."""

    @property
    def was_on(self) -> bool:
        """Whether the file has switched it on at any time, so that containers may have values of its hook."""
        return self._containers_without is not None

    def leftovers(self, round_: Round[Services], key: str) -> frozenset[str]:
        """Return the cgroups that a round without the service sees for the first time, of pods with an annotation.

        They may have been created while it was on: its hook gives a container values before any round sees it. If it
        was never on, a killed agent may have left them: then all are checked in the only round.
        """
        if self.on:
            return frozenset()
        cgroups = frozenset(c.folder for pod in round_.pods if key in pod.annotations for c in pod.containers)
        new = cgroups - (self._containers_without or frozenset())
        if self._containers_without is not None:
            self._containers_without = cgroups
        return new

    @abstractmethod
    def round(self, round_: Round[Services]) -> None:
        """Decide about a round; a service that is off resets what it has set."""


def _no_problems(_block: Any) -> Iterable[Problem]:
    return ()


class ServiceRow(NamedTuple):
    """One service, for the profile.

    Attributes:
        service: the class with its rounds.
        what: what it does, for people.
        block: the type of its block in the file; None for a service without a block.
        owns: the cgroup files that it sets.
        annotation: the annotation by which a pod asks for it; "" if there is no such annotation.
        is_switch: whether this annotation is either true or false.
        check: raises ValueError for annotations of a pod that the service cannot read; None if it reads any text.
        hook: what new pods and containers get before they run; None for nothing.
        problems: yields what is wrong with a block of the right type; paths begin at the block.
    """

    service: type[Service]
    what: str
    block: Any = None
    owns: tuple[Owns, ...] = ()
    annotation: str = ""
    is_switch: bool = False
    check: Callable[[Mapping[str, str]], object] | None = None
    hook: Hook | None = None
    problems: Callable[[Any], Iterable[Problem]] = _no_problems

    @property
    def name(self) -> str:
        """Its name in `agent.enabledFeatures`, and the key of its block."""
        return self.service.name


def readable(
    round_: Round[Services],
    pod: Pod,
    service: str,
    key: str,
    read: Callable[[Mapping[str, str]], object],
) -> Mapping[str, str]:
    """Return a pod's annotations, with the last valid value of a service's annotation if it cannot be read now.

    Args:
        round_: the round, which collects what is wrong.
        pod: the pod with the annotations.
        service: the name of the service.
        key: its annotation.
        read: raises ValueError for annotations that cannot be read.
    """
    try:
        read(pod.annotations)
    except ValueError as error:
        round_.errors.append(f"{service}: {pod.key}: {error}")
        round_.unreadable[pod.subject(), service] = str(error)
        return round_.good.instead(pod.uid, key, pod.annotations) or {}
    round_.unreadable[pod.subject(), service] = ""
    round_.good.keep(pod.uid, key, pod.annotations)
    return pod.annotations


class Ticks(NamedTuple):
    """Ticks of all processors since the start: in use, which includes waiting for I/O here, and all."""

    busy: int
    total: int


def share(before: Ticks, now: Ticks) -> float:
    """Return the percent of time in use between two readings."""
    busy, total = now.busy - before.busy, now.total - before.total
    if busy <= 0:
        return 0.0
    return 100.0 if total <= 0 else min(100.0 * busy / total, 100.0)


def ticks(sample: Sample) -> Ticks | None:
    """Return the processors' time as rubik counts it: waiting for I/O is in use. None if it is unknown."""
    times = sample.times
    return None if times is None else Ticks(times.busy + times.io_wait, times.busy + times.idle)


def nanoseconds(sample: Sample) -> int:
    """Return the time of a sample."""
    return round(sample.at * _NS_PER_S)
