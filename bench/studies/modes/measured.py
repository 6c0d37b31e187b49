"""Measurements: the life of one container, a batch of pods, an agent at rest, and all of one mode.

Moments are nanoseconds since 1970 by this machine's clock. The policy of a container is in force from the first moment
when all its values are in its cgroup, whoever wrote them. A container runs without policy from the first instruction
of its process until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Life(NamedTuple):
    """One container.

    Attributes:
        kind: BE or LS.
        made_ns: when the request for its pod was sent to the API.
        first_ns: the first instruction of its process.
        right: whether that found all values in force.
        force_ns: when they were; None if they never were.
        lasting: whether they still were at the end.
    """

    kind: str
    made_ns: int
    first_ns: int
    right: bool
    force_ns: int | None
    lasting: bool

    @property
    def start_ms(self) -> float:
        """From the request to the first instruction."""
        return (self.first_ns - self.made_ns) / 1e6

    @property
    def force_ms(self) -> float | None:
        """From the request to the policy in force."""
        return None if self.force_ns is None else (self.force_ns - self.made_ns) / 1e6

    @property
    def window_ms(self) -> float | None:
        """How long it ran without policy: 0 if never, None if to its end."""
        if self.right:
            return 0.0
        return None if self.force_ns is None else max(0.0, (self.force_ns - self.first_ns) / 1e6)


class Batch(NamedTuple):
    """All containers of a batch, and what it cost.

    Attributes:
        cri_ms: what kubelet has waited for the runtime to make a pod and its container, for each pod.
        cpu_ms: the agent's processor time for each pod.
        calls: of the API, by the agent, in all.
    """

    lives: list[Life]
    cri_ms: float
    cpu_ms: float
    calls: Counter[str]


class Rest(NamedTuple):
    """What an agent uses when nothing happens: processor milliseconds and calls in a second, and memory in MiB."""

    pods: int
    cpu_ms: float
    calls: float
    rss_mib: float
    pss_mib: float


@dataclass
class Mode:
    """Everything that was measured in one mode; lists have an entry for each round.

    Attributes:
        batches: by number of pods made at once.
        start_ms: processor time until the agent was ready.
        start_calls: calls of the API until then.
        rests: the agent at rest.
        failure: the reason why it could not be measured to the end, or "".
    """

    batches: dict[int, list[Batch]] = field(default_factory=dict)
    start_ms: list[float] = field(default_factory=list)
    start_calls: list[Counter[str]] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    failure: str = ""


def together(batches: Sequence[Batch]) -> Batch:
    """Batches of a round as one."""
    lives = [life for batch in batches for life in batch.lives]
    calls = sum((batch.calls for batch in batches), Counter[str]())
    pods = len(lives)
    cri = sum(batch.cri_ms * len(batch.lives) for batch in batches) / pods
    cpu = sum(batch.cpu_ms * len(batch.lives) for batch in batches) / pods
    return Batch(lives, cri, cpu, calls)


def in_force(changes: Sequence[tuple[int, str, str]], policy: Mapping[str, str]) -> tuple[int | None, bool]:
    """The first moment at which all values were the wanted ones, and whether they are at the end.

    Args:
        changes: moment, file and value.
        policy: values by file.
    """
    now: dict[str, str] = {}
    since: int | None = None
    for moment, name, value in sorted(changes):
        now[name] = value
        if since is None and all(now.get(file) == text for file, text in policy.items()):
            since = moment
    return since, since is not None and all(now[file] == text for file, text in policy.items())
