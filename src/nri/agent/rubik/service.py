"""The common code of rubik's services: the row of a service, the base class of services, and the node's rules.

Values of a service are reset in the round after it was switched off. That includes values that its hook gave to
containers during that time, and values of an earlier agent.
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
from nri.agent.ownership import OwnedKnob
from nri.agent.settings.values import AgentSettings
from nri.config.complaint import Problem
from nri.errors import ConfigError

_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Node:
    """The rules of a node and the abilities of its machine, for hooks and services.

    Attributes:
        services: the services that the file switches on, each with its block; None for a service without a block.
        lacks: returns why the kernel lacks a cgroup file; "" if the file exists.
        disk: returns the device number of a block device, for example `8:0`; "" if the path is not a block device.
        cpus: returns the number of processors.
        command_line: returns the kernel's command line.
        in_force: the values of all offline pods from the last round, by service and cgroup file.
        switched_on: the hooks that the settings enable.
        stages_off: the stages at which no hook decides.
        fail: whether the first failing hook fails the request.
    """

    services: Mapping[str, Any] = field(default_factory=dict)
    missing_reason: Callable[[str], str] = lambda _knob: "the machine is unknown"
    disk: Callable[[str], str] = lambda _path: ""
    cpus: Callable[[], int] = lambda: 0
    command_line: Callable[[], str] = lambda: ""
    in_force: dict[str, Mapping[str, int]] = field(default_factory=dict)
    switched_on: frozenset[str] = frozenset()
    stages_off: frozenset[str] = frozenset()
    fail: bool = False

    def has(self, knob: str) -> bool:
        """Return whether the kernel has a cgroup file."""
        return not self.missing_reason(knob)

    @property
    def gates(self) -> frozenset[str]:
        """The enabled services."""
        return self.switched_on & self.services.keys()

    @property
    def keeps_partial(self) -> bool:
        """Whether the changes of a failed hook are applied: never."""
        return False


class Services:
    """The services that the file switches on, for the rounds.

    Args:
        kind: the kind of the document.
        parse: returns the blocks of the services that a document switches on, by name, or raises ConfigError.

    Attributes:
        blocks: the blocks by the name of the service; None for a service without a block.
        has_document: whether a document was ever read.
        errors: the mistakes in the last document; its blocks are not used then.
    """

    def __init__(self, kind: str, parse: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self.kind, self._parse = kind, parse
        self.has_document = False
        self.blocks: Mapping[str, Any] = {}
        self.errors: list[str] = []
        self._document: Mapping[str, Any] | None = None

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read the document. None switches all services off."""
        if document is self._document and document is not None:
            return
        self._document = document
        if document is None:
            self.blocks = {}
            return
        self.has_document = True
        try:
            self.blocks, self.errors = self._parse(document), []
        except ConfigError as error:  # the store has already refused the document
            self.errors = [str(error)]


class Service(Strategy):
    """The base class of services.

    Attributes:
        name: the name in `agent.enabledFeatures`.
        interval_s: the pause between two rounds in seconds, from the file.
        transient: whether its values are reset when the agent ends.
        block: the block in the file; None if the service has no block or is off.
        on: whether the file switches the service on.
    """

    name: str

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.interval_s = 0.0
        self.block: Any = None
        self.on = False
        #: Containers of pods with the annotation in the last round with the service off; None if it was never on.
        self._containers_without: frozenset[str] | None = None

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on."""
        self.on = self.name in rules.blocks
        block = rules.blocks.get(self.name)
        if block != self.block:
            self.block = block
            self.block_changed()
        if self.on:
            self.interval_s = self.pause_s()
            self._containers_without = frozenset()
        return self.on

    def pause_s(self) -> float:
        """Return the pause between two rounds in seconds; 0 means the pause in the settings."""
        return 0.0

    def block_changed(self) -> None:
        """Apply a new block."""

    @property
    def was_on(self) -> bool:
        """Whether the service was ever on, so that containers may have values of its hook."""
        return self._containers_without is not None

    def leftovers(self, round_: Round[Services], key: str) -> frozenset[str]:
        """Return the cgroups of annotated pods that a round with the service off sees for the first time.

        They may have been created while the service was on: the hook sets values before a round sees the container. If
            the
        service was never on, an earlier agent may have left values: then all cgroups are returned in the only round.
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
        """Decide in a round. A service that is off resets its values."""


def _no_problems(_block: Any) -> Iterable[Problem]:
    return ()


class ServiceRow(NamedTuple):
    """The row of a service in the profile.

    Attributes:
        service: the class of the service.
        what: a short description.
        block: the type of the block in the file; None if the service has no block.
        owns: the cgroup files that the service sets.
        annotation: the annotation that requests the service for a pod; "" if there is no such annotation.
        is_switch: whether the annotation must be "true" or "false".
        check: raises ValueError if annotations are unreadable; None if every value is readable.
        hook: the hook for new pods and containers; None if there is no hook.
        problems: yields the mistakes in a block of the right type; paths begin at the block.
    """

    service: type[Service]
    what: str
    block: Any = None
    owns: tuple[OwnedKnob, ...] = ()
    annotation: str = ""
    is_switch: bool = False
    check: Callable[[Mapping[str, str]], object] | None = None
    hook: Hook | None = None
    problems: Callable[[Any], Iterable[Problem]] = _no_problems

    @property
    def name(self) -> str:
        """The name in `agent.enabledFeatures`, and the key of the block."""
        return self.service.name


def readable(
    round_: Round[Services],
    pod: Pod,
    service: str,
    key: str,
    read: Callable[[Mapping[str, str]], object],
) -> Mapping[str, str]:
    """Return a pod's annotations, with the last valid value of a service's annotation if it is now unreadable.

    Args:
        round_: the round, which collects errors.
        pod: the pod with the annotations.
        service: the name of the service.
        key: the annotation of the service.
        read: raises ValueError if the annotation is unreadable.
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
    """Ticks of all processors since the boot: busy ticks, which include waiting for I/O, and all ticks."""

    busy: int
    total: int


def share(before: Ticks, now: Ticks) -> float:
    """Return the percentage of busy time between two readings."""
    busy, total = now.busy - before.busy, now.total - before.total
    if busy <= 0:
        return 0.0
    return 100.0 if total <= 0 else min(100.0 * busy / total, 100.0)


def ticks(sample: Sample) -> Ticks | None:
    """Return the processors' time as rubik counts it (waiting for I/O is busy), or None if it is unknown."""
    times = sample.times
    return None if times is None else Ticks(times.busy + times.io_wait, times.busy + times.idle)


def nanoseconds(sample: Sample) -> int:
    """Return the time of a sample in nanoseconds."""
    return round(sample.at * _NS_PER_S)
