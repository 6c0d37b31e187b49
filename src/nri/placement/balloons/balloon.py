"""One balloon: its CPUs, and the containers in it. Pure. Next: `policy`."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from nri.placement import masks
from nri.placement.balloons.options import BalloonType
from nri.placement.balloons.tree import TreeAllocator
from nri.placement.balloons.waiting import Turn, Waiting
from nri.placement.state import BalloonState, PartState

__all__ = ["Balloon"]

#: CPUs of no machine.
_BEYOND = 1 << 32


@dataclass(slots=True, eq=False)
class Balloon:
    """An instance of a type.

    Attributes:
        cpus: its own; `idle` those of nobody, which its containers may use, too.
        pods: the containers of each pod; `requested_m` what all of them ask for together, `count` how many they are.
        waiting: those of them that are tried again when memory was given or taken.
        groups: how many containers have which value of `groupBy`; `namespaces` are of which namespace.
        loaded: the devices that it puts load on.
        short: whether there is not enough memory for one of them.
        tree: where it takes CPUs; None for a composite, which has `components`.
    """

    type: BalloonType
    instance: int
    tree: TreeAllocator | None = None
    components: list[Balloon] = field(default_factory=list)
    loaded: frozenset[str] = frozenset()
    cpus: int = 0
    idle: int = 0
    pods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    count: int = 0
    waiting: Waiting = field(default_factory=Waiting)
    groups: dict[str, int] = field(default_factory=dict)
    namespaces: dict[str, int] = field(default_factory=dict)
    requested_m: int = 0
    short: bool = False
    name: str = field(init=False)
    _ranks: dict[str, int] = field(init=False, default_factory=dict)
    _last: int = field(init=False, default=0)
    _written: tuple[tuple[int, ...], BalloonState] = field(init=False, default=((), BalloonState([])))

    def __post_init__(self) -> None:
        self.name = f"{self.type.name}[{self.instance}]"

    def __str__(self) -> str:
        return self.name

    @property
    def containers(self) -> list[str]:
        """Its containers."""
        return [name for names in self.pods.values() for name in names]

    def add(self, pod: str, name: str) -> None:
        """Take in a container, the last one of its pod."""
        if pod not in self.pods:
            self._rank(pod)
        self.pods[pod] = (*self.pods.get(pod, ()), name)
        self.count += 1

    def remove(self, pod: str, name: str) -> None:
        """Let a container go; of its pod's others the last one takes its place."""
        *others, last = self.pods[pod]
        self.count -= 1
        self.waiting.drop(name)
        if others:
            self.pods[pod] = tuple(last if each == name else each for each in others)
            if last != name:
                self.waiting.move(self.turn(pod, last))
        else:
            del self.pods[pod], self._ranks[pod]

    def _rank(self, pod: str) -> None:
        self._last += 1
        self._ranks[pod] = self._last

    def turn(self, pod: str, name: str) -> Turn:
        """The place of a container in `containers`."""
        return self._ranks[pod], self.pods[pod].index(name), name

    @property
    def size_m(self) -> int:
        """Its CPUs in thousandths."""
        return 1000 * self.cpus.bit_count()

    def parts(self) -> list[Balloon]:
        """Itself and all its components, and theirs."""
        if not self.components:
            return [self]
        found, waiting = [], [self]
        while waiting:
            found.append(waiting.pop())
            waiting += reversed(found[-1].components)
        return found

    def most_m(self, free: int, limited: bool = True) -> int:
        """Its size in thousandths of CPUs if it were to take all that it may of so many free ones.

        Without `limited` its limit counts only if there are as many free CPUs, as in the original, and no more does
        that the parts of a composite are equal.
        """
        limit, most = self.type.maxCPUs, self.cpus.bit_count() + free
        if self.components and limited:
            most = bisect_right(range(1, most + 1), free, key=lambda count: self.lacks(1000 * count))
        elif self.components:
            least = min(component.most_m(free, limited) for component in self.components)
            most = self.cpus.bit_count() + min(least * len(self.components) // 1000, free)
        return 1000 * (min(limit, most) if limit and (limited or limit <= free) else most)

    def lacks(self, size_m: int) -> int:
        """How many CPUs its parts lack to be of that size together, each with the same part of it."""
        if self.components:
            return sum(component.lacks(-(-size_m // len(self.components))) for component in self.components)
        count = -(-size_m // 1000)
        return _BEYOND if 0 < self.type.maxCPUs < count else max(0, count - self.cpus.bit_count())

    def saved(self) -> tuple[Any, ...]:
        """The part that changes while it lives."""
        lists = dict(self.pods), dict(self.groups), dict(self.namespaces), dict(self._ranks), self.waiting.copy()
        return self.cpus, self.idle, self.requested_m, self.short, self.count, *lists

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Be as it was."""
        self.cpus, self.idle, self.requested_m, self.short, self.count, *lists = saved
        self.pods, self.groups, self.namespaces, self._ranks, self.waiting = lists

    def written(self) -> BalloonState:
        """Its CPUs, the same value while they are the same."""
        now = (self.idle, self.cpus, *([part.cpus for part in self.parts()[1:]] if self.components else ()))
        if self._written[0] != now:
            parts = self.parts()
            states = [PartState(p.type.name, p.instance, masks.text(p.cpus), len(p.components)) for p in parts]
            self._written = now, BalloonState(states, masks.text(self.idle))
        return self._written[1]
