"""Deviations from the policies topology-aware and balloons of nri-plugins, one attribute each.

An attribute is True by default and False in `Choices.REFERENCE`. Code reads the attribute, never the mode. Each
attribute is a row in ``docs/deviations-plugins.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Choices:
    """Improved decisions: `Choices()` has all of them; `Choices.REFERENCE` decides like nri-plugins."""

    REFERENCE: ClassVar[Choices]
    DEFAULT: ClassVar[Choices]

    caches_beside_idle_ones: bool = True
    """Among partly used caches, a cache next to an idle cache is taken first.

    :Reference: The package whose number equals a number of free CPUs comes first.
    :Why: Otherwise the rest of the container's CPUs may lie in another package.
    """
    trials_leave_no_zone: bool = True
    """A memory zone of an unsuccessful trial is forgotten at once.

    :Reference: It still counts, and its requests are moved or refused.
    :Why: A trial must not change the next decision.
    """
    pools_have_one_order: bool = True
    """The better of two pools does not depend on their order.

    :Reference: It depends on the sorting, because two comparisons are true in both directions.
    :Why: The same request gets the same pool.
    """
    lower_pools_keep_their_shares: bool = True
    """Exclusive CPUs leave each lower pool the CPU that it has promised.

    :Reference: Each lower pool is asked alone, so a larger pool may take CPUs that lower pools have promised.
    :Here: The lowest pools give CPUs first; together they give at most what they can spare.
    :Why: A promised share must stay available.
    """
    next_pool_is_tried: bool = True
    """If the best pool cannot serve a container, the next best pool is tried.

    :Reference: The container is refused.
    :Here: If the best pool cannot serve a container, the next best pool is tried; a refusal names what each pool lacks.
    :Why: Free CPUs and memory in other pools are used.
    """
    idle_containers_fit: bool = True
    """A container without a CPU request fits in a pool whose CPU is all promised.

    :Reference: The second such container in a pool is refused.
    :Why: A BestEffort container requests no CPU.
    """
    idle_containers_have_a_cpu: bool = True
    """A container without a CPU request has at least one shared CPU.

    :Reference: Exclusive containers may take the last shared CPU. Containers without a CPU request then run on
        exclusive CPUs.
    :Here: One CPU stays shared; otherwise a container without a CPU request is refused.
    :Why: Exclusive CPUs must not be shared.
    """
    resize_can_move: bool = True
    """A resized container moves if it does not fit in its pool.

    :Reference: It stays or is refused.
    :Why: Another pool may have enough CPUs.
    """
    equal_resizes_keep_shares: bool = True
    """A resize to the same requests keeps the shares.

    :Reference: With `pinCPU: false`, topology-aware sets the shares of the creation.
    :Why: An earlier resize has set other shares.
    """
    dropped_requests_count: bool = True
    """A resize that removes a request or a limit has an effect.

    :Reference: If the container is not Guaranteed, it has no effect.
    :Why: The released resources are free for other containers.
    """
    failure_changes_nothing: bool = True
    """A refused change leaves everything as it was.

    :Reference: A refused resize loses the container's CPUs and memory; a refused creation may leave a balloon.
    :Why: A refused request must not change anything.
    """
    unscoped_isolation_counts: bool = True
    """`prefer-isolated-cpus` for the entire pod, without `/pod`, is read.

    :Reference: It is ignored without `/pod` or `/container.NAME`.
    :Why: nri-plugins documents this form, too.
    """
    preserved_memory_stays: bool = True
    """A container with `memory.preserve` is never pinned to memory, even if its own memory is too small.

    :Reference: It is pinned to more memory nodes.
    :Why: The annotation requests that memory nodes stay unchanged.
    """
    pod_class_is_known: bool = True
    """`pod/qosclass` in expressions is the pod's QoS class.

    :Reference: `pod/qosclass` has no value: expressions with it are always false, or always true.
    :Why: nri-plugins documents this key, too.
    """
    always_true_needs_no_key: bool = True
    """The operator `AlwaysTrue` in an affinity needs no key.

    :Reference: Without a valid key the container is refused.
    :Why: The operator does not use a key.
    """
    cold_starts_need_slow_memory: bool = True
    """A cold start is ignored for a container that can only have DRAM.

    :Reference: The container is refused.
    :Why: The same pod must run on nodes with and without other kinds of memory.
    """
    mixed_memory_in_balloons: bool = True
    """`memory-type: mixed` means all kinds in balloons, too.

    :Reference: It is an error there, and ignored.
    :Why: One annotation must have one meaning.
    """
    balloons_keep_their_limit: bool = True
    """A container never joins a balloon that cannot grow enough.

    :Reference: `maxCPUs` is ignored if fewer CPUs are free, the balloon is empty, or components must have equal sizes.
    :Why: `maxCPUs` is a limit.
    """
    composites_keep_their_least: bool = True
    """A composite balloon never has less than its `minCPUs`.

    :Reference: `minCPUs` is respected only at the creation. Requests are divided by the number of components and
        rounded down, even to no CPU.
    :Here: `minCPUs` is always respected, and no component has less than requested.
    :Why: `minCPUs` is a limit, as for all other types.
    """
    balloons_follow_resizes: bool = True
    """A balloon is resized with its containers, or the container moves.

    :Reference: A resize changes only CPU shares; a second equal resize sets old shares.
    :Why: Kubernetes resizes containers in place.
    """
    memory_follows_cpus: bool = True
    """Memory nodes of a balloon's containers shrink when its CPUs move.

    :Reference: Memory nodes only grow, and differ between containers of one balloon.
    :Why: Memory far from the container's CPUs is slow.
    """
    memory_nodes_have_memory: bool = True
    """Balloons never pin to a memory node without memory.

    :Reference: The kernel refuses a container that is pinned to such a node.
    :Why: The memory slots of a node may be empty.
    """
    reserved_cpus_stay_reserved: bool = True
    """CPUs that balloons reserve by a list never go to another balloon.

    :Reference: If `reservedResources.cpu` is a list, other balloons get these CPUs when no other CPU is free, or share
        them.
    :Why: Reserved CPUs belong to the reserved balloon only.
    """
    freed_cpus_are_shared: bool = True
    """CPUs of a deleted or only tried balloon are shared at once.

    :Reference: They are not shared until the next change; the same applies near a composite that grows.
    :Why: Idle CPUs are shared.
    """
    packages_have_their_own_cpus: bool = True
    """A package or die in balloons has only its CPUs, even if NUMA is off.

    :Reference: If one memory node spans several packages, each has all CPUs of the node, also for `shareIdleCPUsInSame:
        package`.
    :Why: A package must not have the CPUs of another package.
    """
    dies_have_their_own_hints: bool = True
    """A die's distance to a CPU hint depends on the CPUs of the die.

    :Reference: It is the distance of the entire package.
    :Why: The die of the device is nearer than its package.
    """
    strict_hints_bind_memory: bool = True
    """Strict hints apply to memory, too.

    :Reference: They are checked before memory is allocated.
    :Why: nri-plugins documents strict hints for memory, too.
    """
    movable_interrupts_will_do: bool = True
    """Of the interrupts that `irq-affinity` names, the movable interrupts are moved.

    :Reference: `irq-affinity` refuses the container if a pattern matches an interrupt that must not be moved, but not
        if a number does.
    :Here: The movable interrupts of `irq-affinity` are moved. A pattern or number that matches only others refuses the
        container.
    :Why: `mask: ["*"]` requests as few interrupts as possible.
    """


Choices.REFERENCE = Choices(**dict.fromkeys((choice.name for choice in fields(Choices)), False))
Choices.DEFAULT = Choices()
