"""One balloon: its CPUs, and the containers in it. Pure. Next: `policy`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri.policies.placement.balloons.options import BalloonType
from nri.policies.placement.balloons.tree import TreeAllocator

__all__ = ["Balloon"]


@dataclass(slots=True, eq=False)
class Balloon:
    """An instance of a type.

    Attributes:
        cpus: its own; `idle` those of nobody, which its containers may use, too.
        pods: the containers of each pod.
        groups: how many containers have which value of `groupBy`.
        loaded: the devices that it puts load on.
        tree: where it takes CPUs; None for a composite, which has `components`.
    """

    type: BalloonType
    instance: int
    tree: TreeAllocator | None = None
    components: list[Balloon] = field(default_factory=list)
    loaded: frozenset[str] = frozenset()
    cpus: int = 0
    idle: int = 0
    pods: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.type.name}[{self.instance}]"

    @property
    def containers(self) -> list[str]:
        """Its containers."""
        return [name for names in self.pods.values() for name in names]

    @property
    def size_m(self) -> int:
        """Its CPUs in thousandths."""
        return 1000 * self.cpus.bit_count()

    def parts(self) -> Iterator[Balloon]:
        """Itself and all its components, and theirs."""
        waiting = [self]
        while waiting:
            balloon = waiting.pop()
            yield balloon
            waiting += reversed(balloon.components)

    def most_m(self, free: int, limited: bool = True) -> int:
        """Its size in thousandths of CPUs if it were to take all that it may of so many free ones.

        Without `limited` its limit counts only if there are as many free CPUs, as in the original.
        """
        if self.components:
            least = min(component.most_m(free, limited) for component in self.components)
            free = min(least * len(self.components) // 1000, free)
        limit, most = self.type.maxCPUs, self.cpus.bit_count() + free
        return 1000 * (min(limit, most) if limit and (limited or limit <= free) else most)

    def saved(self) -> tuple[int, int, dict[str, list[str]], dict[str, int]]:
        """The part that changes while it lives."""
        return self.cpus, self.idle, {pod: list(names) for pod, names in self.pods.items()}, dict(self.groups)

    def restore(self, saved: tuple[int, int, dict[str, list[str]], dict[str, int]]) -> None:
        """Be as it was."""
        self.cpus, self.idle, self.pods, self.groups = saved
