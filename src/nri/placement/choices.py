"""The differences from the originals, one named attribute each, in one frozen value.

Rules of this file: as those of `nri.rules`. An attribute is False in `Choices.REFERENCE` and True by default, its name
says what holds when it is True, and code asks for the attribute, never for the mode. Every one is a row of the table
"Other systems" in ``docs/deviations.md``. Next: `topology_aware`, `balloons`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

__all__ = ["Choices"]


@dataclass(frozen=True, slots=True)
class Choices:
    """Decisions made better here: `Choices()` is what users expect, `Choices.REFERENCE` the originals' way."""

    REFERENCE: ClassVar[Choices]
    DEFAULT: ClassVar[Choices]

    caches_beside_idle_ones: bool = True
    """Of partly used caches those beside the idle one are taken first; the original hits them by chance."""
    trials_leave_no_zone: bool = True
    """A memory zone that was only tried is forgotten at once; the original moves requests that touch it."""
    pools_have_one_order: bool = True
    """Of any two pools one is better, whichever is looked at first; in the original two comparisons depend on that."""
    lower_pools_keep_their_shares: bool = True
    """Exclusive CPUs leave each pool below what it has promised; in the original a larger pool may take from it."""
    next_pool_is_tried: bool = True
    """If the best pool cannot serve a container, the next one is tried; the original refuses it."""
    idle_containers_fit: bool = True
    """A container that asks for no CPU finds room where all CPU is promised; the original refuses the second one."""
    idle_containers_have_a_cpu: bool = True
    """One that was promised no CPU has at least one to share; in the original exclusive containers take the last."""
    resize_can_move: bool = True
    """A container that is resized stays in its pool if it fits there, else moves; the original refuses it."""
    equal_resizes_keep_shares: bool = True
    """A resize to what a container has leaves its shares; with `pinCPU: false` the original sets the first ones."""
    dropped_requests_count: bool = True
    """A resize that takes a request or a limit away is one; for the original it changes nothing, but for Guaranteed."""
    failure_changes_nothing: bool = True
    """A refused change leaves everything as it was; the original takes away what a resized container had."""
    unscoped_isolation_counts: bool = True
    """`prefer-isolated-cpus` for the whole pod, without `/pod`, is read; the original passes over it."""
    preserved_memory_stays: bool = True
    """A container with `memory.preserve` is pinned to no memory, not even if its own has not enough."""
    pod_class_is_known: bool = True
    """`pod/qosclass` in expressions is the pod's class of service; the original finds no value there."""
    always_true_needs_no_key: bool = True
    """The operator `AlwaysTrue` in an affinity takes no key; the original refuses the container without a right one."""
    cold_starts_need_slow_memory: bool = True
    """A cold start where there is no memory but DRAM is none; the original refuses the container."""
    mixed_memory_in_balloons: bool = True
    """`memory-type: mixed` is all kinds in balloons, too; the original takes it for a mistake, and passes over it."""
    balloons_keep_their_limit: bool = True
    """No container goes to a balloon that cannot grow to it; the original forgets `maxCPUs`, and equal parts."""
    composites_keep_their_least: bool = True
    """A composite balloon never has less than its `minCPUs`; in the original it shrinks when a container leaves it."""
    balloons_follow_resizes: bool = True
    """A balloon follows a container that is resized, or the container moves; the original does nothing."""
    memory_follows_cpus: bool = True
    """Memory nodes of a balloon's containers shrink when its CPUs move; in the original they only grow."""
    memory_nodes_have_memory: bool = True
    """Balloons pin to no memory node that has no memory: the kernel refuses it, and so the original's container."""
    reserved_cpus_stay_reserved: bool = True
    """CPUs that balloons' configuration reserves by a list go to no other balloon, not even as the last free ones."""
    freed_cpus_are_shared: bool = True
    """CPUs of a balloon that is gone, or was only tried, are idle ones that others share; the original forgets."""
    packages_have_their_own_cpus: bool = True
    """A package or die in balloons has its own CPUs, where NUMA is off, too; in the original each has all."""
    dies_have_their_own_hints: bool = True
    """A die is near to a hint of CPUs by those that it has; in the original by those of its package."""
    strict_hints_bind_memory: bool = True
    """Strict hints hold for memory, too, which the original checks before there is any."""
    movable_interrupts_will_do: bool = True
    """Interrupts that `irq-affinity` names move as far as they may; the original refuses if one of them may not."""


Choices.REFERENCE = Choices(**dict.fromkeys((each.name for each in fields(Choices)), False))
Choices.DEFAULT = Choices()
