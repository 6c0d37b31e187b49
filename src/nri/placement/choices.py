"""Differences from the original policies, one named attribute each.

An attribute is True by default and False in `Choices.REFERENCE`. Code reads the attribute, never the mode. Each one is
a row of the table "Other systems" in ``docs/deviations.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Choices:
    """Improved decisions: `Choices()` has all of them, `Choices.REFERENCE` none, as the originals."""

    REFERENCE: ClassVar[Choices]
    DEFAULT: ClassVar[Choices]

    caches_beside_idle_ones: bool = True
    """Of partly used caches those next to an idle one are taken first; the original takes them only by chance."""
    trials_leave_no_zone: bool = True
    """A memory zone of an unsuccessful trial is forgotten at once; the original moves requests that touch it."""
    pools_have_one_order: bool = True
    """The better of two pools does not depend on their order; in the original two comparisons do."""
    lower_pools_keep_their_shares: bool = True
    """Exclusive CPUs leave each lower pool what it has promised; in the original a larger pool may take it."""
    next_pool_is_tried: bool = True
    """If the best pool cannot serve a container, the next one is tried; the original refuses it."""
    idle_containers_fit: bool = True
    """A container without a CPU request fits where all CPU is promised; the original refuses the second one."""
    idle_containers_have_a_cpu: bool = True
    """A container without a CPU request has at least one shared CPU; in the original exclusive containers take it."""
    resize_can_move: bool = True
    """A resized container stays in its pool if it fits there, else moves; the original refuses the resize."""
    equal_resizes_keep_shares: bool = True
    """A resize to the same requests keeps the shares; with `pinCPU: false` the original sets the first ones."""
    dropped_requests_count: bool = True
    """A resize that removes a request or a limit has an effect; in the original only for Guaranteed containers."""
    failure_changes_nothing: bool = True
    """A refused change leaves everything as it was; the original releases what a resized container had."""
    unscoped_isolation_counts: bool = True
    """`prefer-isolated-cpus` for the entire pod, without `/pod`, is read; the original ignores it."""
    preserved_memory_stays: bool = True
    """A container with `memory.preserve` is never pinned to memory, not even if its own memory is too small."""
    pod_class_is_known: bool = True
    """`pod/qosclass` in expressions is the pod's QoS class; the original has no value for it."""
    always_true_needs_no_key: bool = True
    """The operator `AlwaysTrue` in an affinity needs no key; the original refuses the container without a valid one."""
    cold_starts_need_slow_memory: bool = True
    """A cold start is ignored where there is only DRAM; the original refuses the container."""
    mixed_memory_in_balloons: bool = True
    """`memory-type: mixed` means all kinds in balloons, too; the original ignores it as a mistake."""
    balloons_keep_their_limit: bool = True
    """A container never joins a balloon that cannot grow enough; the original ignores `maxCPUs` and equal parts."""
    composites_keep_their_least: bool = True
    """A composite balloon never has less than its `minCPUs`; in the original it shrinks when a container leaves it."""
    balloons_follow_resizes: bool = True
    """A balloon is resized with its containers, or the container moves; the original does nothing."""
    memory_follows_cpus: bool = True
    """Memory nodes of a balloon's containers shrink when its CPUs move; in the original they only grow."""
    memory_nodes_have_memory: bool = True
    """Balloons never pin to a memory node without memory, which the kernel refuses; the original's containers fail."""
    reserved_cpus_stay_reserved: bool = True
    """CPUs that balloons' configuration reserves by a list never go to another balloon, not even as the last ones."""
    freed_cpus_are_shared: bool = True
    """CPUs of a deleted or only tried balloon become idle CPUs that others share; in the original they do not."""
    packages_have_their_own_cpus: bool = True
    """A package or die in balloons has only its CPUs, also where NUMA is off; in the original it has all CPUs."""
    dies_have_their_own_hints: bool = True
    """A die's distance to a CPU hint depends on the CPUs of the die; in the original on those of its package."""
    strict_hints_bind_memory: bool = True
    """Strict hints apply to memory, too; the original checks them before memory is chosen."""
    movable_interrupts_will_do: bool = True
    """Of the interrupts that `irq-affinity` names the movable ones move; the original requires all to be movable."""


Choices.REFERENCE = Choices(**dict.fromkeys((choice.name for choice in fields(Choices)), False))
Choices.DEFAULT = Choices()
