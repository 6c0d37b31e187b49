"""A balloon: its CPUs and its containers."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from nri.placement import masks
from nri.placement.balloons.options import BalloonType
from nri.placement.balloons.retry_queue import RetryQueue, Turn
from nri.placement.balloons.tree import TreeAllocator
from nri.placement.state import BalloonState, PartState

#: More CPUs than any machine has.
_TOO_MANY_CPUS = 1 << 32


@dataclass(slots=True, eq=False)
class Balloon:
    """A balloon, which is an instance of a type.

    Attributes:
        tree: allocates its CPUs; None for a composite, which has `components`.
        loaded: the devices (cores or caches) that the balloon puts load on.
        cpus: the mask of its CPUs.
        idle: the mask of CPUs outside of all balloons that its containers may use as well.
        pods: the containers of each pod.
        count: the number of containers.
        retries: containers to pin again when memory was allocated or released.
        groups: the number of containers by value of `groupBy`.
        namespaces: the number of containers by namespace.
        requested_m: the sum of the containers' requests.
        short: whether there was not enough memory for one of the containers.
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
    retries: RetryQueue = field(default_factory=RetryQueue)
    groups: dict[str, int] = field(default_factory=dict)
    namespaces: dict[str, int] = field(default_factory=dict)
    requested_m: int = 0
    short: bool = False
    name: str = field(init=False)
    _ranks: dict[str, int] = field(init=False, default_factory=dict)
    _last_rank: int = field(init=False, default=0)
    _written_state: tuple[tuple[int, ...], BalloonState] = field(init=False, default=((), BalloonState([])))

    def __post_init__(self) -> None:
        self.name = f"{self.type.name}[{self.instance}]"

    def __str__(self) -> str:
        return self.name

    @property
    def containers(self) -> list[str]:
        """The ids of its containers, pod by pod."""
        return [name for names in self.pods.values() for name in names]

    def add(self, pod: str, name: str) -> None:
        """Add a container as the last one of its pod."""
        if pod not in self.pods:
            self._last_rank += 1
            self._ranks[pod] = self._last_rank
        self.pods[pod] = (*self.pods.get(pod, ()), name)
        self.count += 1

    def remove(self, pod: str, name: str) -> None:
        """Remove a container; the last container of the pod takes its position."""
        *earlier, last = self.pods[pod]
        self.count -= 1
        self.retries.drop(name)
        if earlier:
            self.pods[pod] = tuple(last if container == name else container for container in earlier)
            if last != name:
                self.retries.move(self.turn(pod, last))
        else:
            del self.pods[pod], self._ranks[pod]

    def turn(self, pod: str, name: str) -> Turn:
        """The position of a container in `containers`, for sorting."""
        return self._ranks[pod], self.pods[pod].index(name), name

    @property
    def size_m(self) -> int:
        """The size in thousandths of CPUs."""
        return 1000 * self.cpus.bit_count()

    def parts(self) -> list[Balloon]:
        """The balloon, its components, and their components, depth first."""
        if not self.components:
            return [self]
        parts, stack = [], [self]
        while stack:
            parts.append(stack.pop())
            stack += reversed(parts[-1].components)
        return parts

    def max_size_m(self, free: int, limited: bool = True) -> int:
        """The size in thousandths of CPUs that the balloon can reach with this number of free CPUs.

        Args:
            free: the number of free CPUs.
            limited: always respect `maxCPUs` and the equal sizes of a composite's components. nri-plugins respects
                `maxCPUs` only if there are as many free CPUs.
        """
        limit, size = self.type.maxCPUs, self.cpus.bit_count() + free
        if self.components and limited:
            size = bisect_right(range(1, size + 1), free, key=lambda count: self.missing_cpus(1000 * count))
        elif self.components:
            smallest_m = min(component.max_size_m(free, limited) for component in self.components)
            size = self.cpus.bit_count() + min(smallest_m * len(self.components) // 1000, free)
        return 1000 * (min(limit, size) if limit and (limited or limit <= free) else size)

    def missing_cpus(self, size_m: int) -> int:
        """The number of CPUs to add for this size; the components of a composite have equal sizes."""
        if self.components:
            part_m = -(-size_m // len(self.components))
            return sum(component.missing_cpus(part_m) for component in self.components)
        count = -(-size_m // 1000)
        return _TOO_MANY_CPUS if 0 < self.type.maxCPUs < count else max(0, count - self.cpus.bit_count())

    def saved(self) -> tuple[Any, ...]:
        """All values that decisions change, for `restore`."""
        lists = dict(self.pods), dict(self.groups), dict(self.namespaces), dict(self._ranks), self.retries.copy()
        return self.cpus, self.idle, self.requested_m, self.short, self.count, *lists

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Restore the values that `saved` returned."""
        self.cpus, self.idle, self.requested_m, self.short, self.count, *lists = saved
        self.pods, self.groups, self.namespaces, self._ranks, self.retries = lists

    def written(self) -> BalloonState:
        """The balloon's state for the state file. Returns the same object as long as the CPUs do not change."""
        now = (self.idle, self.cpus, *([part.cpus for part in self.parts()[1:]] if self.components else ()))
        if self._written_state[0] != now:
            parts = self.parts()
            states = [PartState(p.type.name, p.instance, masks.text(p.cpus), len(p.components)) for p in parts]
            self._written_state = now, BalloonState(states, masks.text(self.idle))
        return self._written_state[1]
