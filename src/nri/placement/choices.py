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

    :Reference: Among partly used caches, the caches of the package whose number equals a number of free CPUs come
        first.
    :Why: Otherwise the rest of the container's CPUs may lie in another package.
    """
    trials_leave_no_zone: bool = True
    """A memory zone of an unsuccessful trial is forgotten at once.

    :Reference: A memory zone that was only tried for a score still counts, and requests in this zone are moved or
        refused.
    :Why: A trial must not change the next decision.
    """
    pools_have_one_order: bool = True
    """The better of two pools does not depend on their order.

    :Reference: Two comparisons of pools return true for either order of the pools, so the result depends on the
        sorting.
    :Why: The same request gets the same pool.
    """
    lower_pools_keep_their_shares: bool = True
    """Exclusive CPUs leave each lower pool the CPU that it has promised.

    :Reference: Each lower pool is asked alone for CPUs that may become exclusive, so a larger pool may take CPUs that
        one lower pool, or all lower pools together, have promised.
    :Here: The lowest pools give CPUs first, and the pools below one pool together give at most what they can spare.
    :Why: A promised share must stay available.
    """
    next_pool_is_tried: bool = True
    """If the best pool cannot serve a container, the next best pool is tried.

    :Reference: If the best pool cannot serve the container, the container is refused.
    :Here: The next best pool is tried; a refusal names each pool and what the pool lacks.
    :Why: Free CPUs and memory in other pools are used.
    """
    idle_containers_fit: bool = True
    """A container without a CPU request fits in a pool whose CPU is all promised.

    :Reference: In a pool whose CPU is all promised, the second container without a CPU request is refused.
    :Why: A BestEffort container requests no CPU.
    """
    idle_containers_have_a_cpu: bool = True
    """A container without a CPU request has at least one shared CPU.

    :Reference: Exclusive containers may take the last shared CPU. Containers without a CPU request then run on any CPU,
        including exclusive CPUs.
    :Here: One CPU stays shared; if no CPU can stay shared, a container without a CPU request is refused.
    :Why: Exclusive CPUs must not be shared.
    """
    resize_can_move: bool = True
    """A resized container stays in its pool if it fits there; otherwise it moves.

    :Reference: A resized container stays in its pool, or is refused.
    :Why: Another pool may have enough CPUs.
    """
    equal_resizes_keep_shares: bool = True
    """A resize to the same requests keeps the shares, with `pinCPU: false`, too.

    :Reference: With `pinCPU: false`, a resize of a container of topology-aware to its current requests sets the shares
        that it was created with.
    :Why: An earlier resize has set other shares.
    """
    dropped_requests_count: bool = True
    """A resize that removes a request or a limit has an effect.

    :Reference: A resize that removes a request or a limit of a container that is not Guaranteed, and sets no other, has
        no effect.
    :Why: The released resources are free for other containers.
    """
    failure_changes_nothing: bool = True
    """A refused change leaves everything as it was.

    :Reference: A container whose resize is refused loses its CPUs and memory, which other containers may get; a refused
        creation may leave a balloon.
    :Why: A refused request must not change anything.
    """
    unscoped_isolation_counts: bool = True
    """`prefer-isolated-cpus` for the entire pod, without `/pod`, is read.

    :Reference: `prefer-isolated-cpus` without `/pod` or `/container.NAME` is ignored.
    :Why: nri-plugins documents this form, too.
    """
    preserved_memory_stays: bool = True
    """A container with `memory.preserve` is never pinned to memory, even if its own memory is too small.

    :Reference: A container with `memory.preserve` is pinned to more memory nodes if its own nodes have too little
        memory.
    :Why: The annotation requests that memory nodes stay unchanged.
    """
    pod_class_is_known: bool = True
    """`pod/qosclass` in expressions is the pod's QoS class.

    :Reference: `pod/qosclass` in an expression has no value: an expression with it is always false, and the opposite
        expression always true.
    :Why: nri-plugins documents this key, too.
    """
    always_true_needs_no_key: bool = True
    """The operator `AlwaysTrue` in an affinity needs no key.

    :Reference: An affinity with the operator `AlwaysTrue` and without a valid key refuses the container.
    :Why: The operator does not use a key.
    """
    cold_starts_need_slow_memory: bool = True
    """A cold start is ignored for a container that can only have DRAM.

    :Reference: A container with `cold-start` that can only have DRAM is refused, because without DRAM it has no memory.
    :Why: The same pod must run on nodes with and without other kinds of memory.
    """
    mixed_memory_in_balloons: bool = True
    """`memory-type: mixed` means all kinds in balloons, too.

    :Reference: In balloons the annotation `memory-type: mixed` is an error and is ignored.
    :Why: One annotation must have one meaning.
    """
    balloons_keep_their_limit: bool = True
    """A container never joins a balloon that cannot grow enough.

    :Reference: `maxCPUs` is ignored if fewer CPUs are free or the balloon is empty, and the equal sizes of a
        composite's components are ignored, too. A container may join a balloon that cannot hold it.
    :Why: `maxCPUs` is a limit.
    """
    composites_keep_their_least: bool = True
    """A composite balloon never has less than its `minCPUs`.

    :Reference: `minCPUs` of a composite balloon is respected only at its creation; when a container leaves, the balloon
        shrinks below. Requests are divided by the number of components and rounded down, to no CPU for a container
        without a request; a component may have no CPUs if the others have enough.
    :Here: `minCPUs` is always respected, and no component has less than requested.
    :Why: `minCPUs` is a limit, as for all other types.
    """
    balloons_follow_resizes: bool = True
    """A balloon is resized with its containers, or the container moves.

    :Reference: A resize changes only the shares that the kubelet set, and a second equal resize sets old shares.
    :Why: Kubernetes resizes containers in place.
    """
    memory_follows_cpus: bool = True
    """Memory nodes of a balloon's containers shrink when its CPUs move.

    :Reference: Memory nodes of a balloon's containers only grow; containers of one balloon may have different memory
        nodes.
    :Why: Memory far from the container's CPUs is slow.
    """
    memory_nodes_have_memory: bool = True
    """Balloons never pin to a memory node without memory, which the kernel refuses.

    :Reference: A container of a balloon is also pinned to memory nodes without memory, and the kernel refuses the
        container.
    :Why: The memory slots of a node may be empty.
    """
    reserved_cpus_stay_reserved: bool = True
    """CPUs that balloons' configuration reserves by a list never go to another balloon, not even as the last free CPUs.

    :Reference: If `reservedResources.cpu` of balloons is a list, other balloons get these CPUs when no other CPU is
        free, or share them as idle CPUs.
    :Why: Reserved CPUs belong to the reserved balloon only.
    """
    freed_cpus_are_shared: bool = True
    """CPUs of a deleted or only tried balloon become idle CPUs that others share.

    :Reference: The minimum CPUs of a deleted or only tried balloon, and CPUs near a composite that grows, are idle but
        not shared until the next change.
    :Why: Idle CPUs are shared.
    """
    packages_have_their_own_cpus: bool = True
    """A package or die in balloons has only its CPUs, even if NUMA is off.

    :Reference: If one memory node spans several packages or dies, as with NUMA off, each package and die has all CPUs
        of the node: `shareIdleCPUsInSame: package` shares the CPUs of the whole machine.
    :Why: A package must not have the CPUs of another package.
    """
    dies_have_their_own_hints: bool = True
    """A die's distance to a CPU hint depends on the CPUs of the die.

    :Reference: The distance of a die to the CPUs of a hint is the distance of its entire package, whichever die the
        device is at.
    :Why: The die of the device is nearer than its package.
    """
    strict_hints_bind_memory: bool = True
    """Strict hints apply to memory, too.

    :Reference: Strict hints are checked before memory is allocated, so the memory may be anywhere.
    :Why: nri-plugins documents strict hints for memory, too.
    """
    movable_interrupts_will_do: bool = True
    """Of the interrupts that `irq-affinity` names, the movable interrupts are moved.

    :Reference: `irq-affinity` refuses the container if a pattern, for example `*`, matches an interrupt that must not
        be moved (`controllableInterrupts`), but not if a number does.
    :Here: Movable interrupts are moved; a pattern or a number that matches only other interrupts refuses the container,
        and the message names it.
    :Why: `mask: ["*"]` requests as few interrupts as possible.
    """


Choices.REFERENCE = Choices(**dict.fromkeys((choice.name for choice in fields(Choices)), False))
Choices.DEFAULT = Choices()
