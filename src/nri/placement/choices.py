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
    """Of partly used caches those next to an idle one are taken first.

    :Reference: Of partly used caches those of the package whose number equals a number of free CPUs come first.
    :Why: The rest of the container's CPUs lay in another package.
    """
    trials_leave_no_zone: bool = True
    """A memory zone of an unsuccessful trial is forgotten at once.

    :Reference: A memory zone that was only tried for a score goes on to count, and requests that touch it are moved or
        refused.
    :Why: A trial must not change the next decision.
    """
    pools_have_one_order: bool = True
    """The better of two pools does not depend on their order.

    :Reference: Two comparisons of pools say yes whichever pool is asked about, so the order depends on the sorting.
    :Why: The same request has the same place.
    """
    lower_pools_keep_their_shares: bool = True
    """Exclusive CPUs leave each lower pool what it has promised.

    :Reference: CPUs that may become exclusive come from the lowest pools and those between, each asked for itself, so
        a larger pool may take what a lower one, or all in one together, have promised.
    :Here: From the lowest pools, and of those in one pool together no more than it can spare.
    :Why: A promise.
    """
    next_pool_is_tried: bool = True
    """If the best pool cannot serve a container, the next one is tried.

    :Reference: The best pool is taken, and if it cannot serve the container is refused.
    :Here: The next best is tried; a refusal names each pool and what it lacks.
    :Why: Room that is there is used.
    """
    idle_containers_fit: bool = True
    """A container without a CPU request fits where all CPU is promised.

    :Reference: Where all CPU is promised, the second container that asks for none is refused.
    :Why: BestEffort asks for nothing.
    """
    idle_containers_have_a_cpu: bool = True
    """A container without a CPU request has at least one shared CPU.

    :Reference: Exclusive containers may take the last CPU of those that ask for none, which then run wherever they
        may, on exclusive CPUs, too.
    :Here: One CPU is left to them; without one a container that asks for none is refused.
    :Why: Exclusive is exclusive.
    """
    resize_can_move: bool = True
    """A resized container stays in its pool if it fits there, else moves.

    :Reference: A container that is resized stays in its pool, or is refused.
    :Why: A node of four CPUs is no reason against six.
    """
    equal_resizes_keep_shares: bool = True
    """A resize to the same requests keeps the shares; with `pinCPU: false` the original sets the first ones.

    :Reference: With `pinCPU: false` a resize to what a container of topology-aware has already sets the shares that it
        was created with.
    :Why: A resize before it has set others.
    """
    dropped_requests_count: bool = True
    """A resize that removes a request or a limit has an effect.

    :Reference: A resize that takes a request or a limit away from a container that is not Guaranteed, and sets no
        other, changes nothing.
    :Why: What is asked for no more is free for others.
    """
    failure_changes_nothing: bool = True
    """A refused change leaves everything as it was.

    :Reference: A container whose resize is refused has lost its CPUs and memory, which others then get; a refused
        creation may leave a balloon.
    :Why: A refusal is no change.
    """
    unscoped_isolation_counts: bool = True
    """`prefer-isolated-cpus` for the entire pod, without `/pod`, is read.

    :Reference: `prefer-isolated-cpus` without `/pod` or `/container.NAME` is ignored.
    :Why: Documented there, too.
    """
    preserved_memory_stays: bool = True
    """A container with `memory.preserve` is never pinned to memory, not even if its own memory is too small.

    :Reference: A container with `memory.preserve` is pinned to more nodes when its own have not enough.
    :Why: That is what it asks for.
    """
    pod_class_is_known: bool = True
    """`pod/qosclass` in expressions is the pod's QoS class.

    :Reference: `pod/qosclass` in an expression has no value: what asks for it never holds, and its opposite always.
    :Why: Documented there, too.
    """
    always_true_needs_no_key: bool = True
    """The operator `AlwaysTrue` in an affinity needs no key.

    :Reference: An affinity with the operator `AlwaysTrue` and no key, or one that is none, refuses the container.
    :Why: The operator has no use for a key.
    """
    cold_starts_need_slow_memory: bool = True
    """A cold start is ignored where there is only DRAM.

    :Reference: A container with `cold-start` that could have DRAM alone is refused: nothing is left of its memory.
    :Why: A pod comes to nodes of all kinds.
    """
    mixed_memory_in_balloons: bool = True
    """`memory-type: mixed` means all kinds in balloons, too.

    :Reference: The annotation `memory-type: mixed` is a mistake in balloons, and passed over.
    :Why: One annotation, one meaning.
    """
    balloons_keep_their_limit: bool = True
    """A container never joins a balloon that cannot grow enough.

    :Reference: `maxCPUs` is forgotten where fewer CPUs are free, or the balloon is empty, and so is that the parts of
        a composite are equal: a container goes to a balloon that cannot hold it.
    :Why: A limit.
    """
    composites_keep_their_least: bool = True
    """A composite balloon never has less than its `minCPUs`.

    :Reference: `minCPUs` of a composite balloon counts when it is made; when a container leaves it shrinks below. What
        is asked for is divided and rounded down, to no CPU for a container that asks for none; a part may have none if
        the others have enough.
    :Here: It counts always, and no part is less than what is asked for.
    :Why: A limit, as for all other types.
    """
    balloons_follow_resizes: bool = True
    """A balloon is resized with its containers, or the container moves.

    :Reference: A resize changes nothing but the shares that the kubelet set, and the same one again sets old shares.
    :Why: Resizing in place is what Kubernetes offers.
    """
    memory_follows_cpus: bool = True
    """Memory nodes of a balloon's containers shrink when its CPUs move.

    :Reference: Memory nodes of a balloon's containers only grow; members of one balloon may have different ones.
    :Why: Memory far from all CPUs helps nobody.
    """
    memory_nodes_have_memory: bool = True
    """Balloons never pin to a memory node without memory, which the kernel refuses.

    :Reference: A container of a balloon is also pinned to the memory nodes of its CPUs that have no memory, and the
        kernel refuses it.
    :Why: Slots of a node may be empty.
    """
    reserved_cpus_stay_reserved: bool = True
    """CPUs that balloons' configuration reserves by a list never go to another balloon, not even as the last ones.

    :Reference: Where `reservedResources.cpu` of balloons is a list, other balloons get these CPUs when no others are
        free, or share idle ones.
    :Why: That is what reserving is.
    """
    freed_cpus_are_shared: bool = True
    """CPUs of a deleted or only tried balloon become idle CPUs that others share.

    :Reference: The least CPUs of a balloon that goes, or was only tried, and those near a composite that grows, are
        idle and shared with nobody until something else changes.
    :Why: Idle CPUs are what is to be shared.
    """
    packages_have_their_own_cpus: bool = True
    """A package or die in balloons has only its CPUs, also where NUMA is off.

    :Reference: Where one memory node spans packages or dies, as with NUMA off, each of them has all its CPUs:
        `shareIdleCPUsInSame: package` shares those of the machine.
    :Why: A package is a package.
    """
    dies_have_their_own_hints: bool = True
    """A die's distance to a CPU hint depends on the CPUs of the die.

    :Reference: A die is as near to the CPUs of a hint as its whole package: which of the dies a device is at does not
        count.
    :Why: A die is nearer than a package.
    """
    strict_hints_bind_memory: bool = True
    """Strict hints apply to memory, too.

    :Reference: Strict hints are checked before there is memory, so it may be anywhere.
    :Why: As documented there.
    """
    movable_interrupts_will_do: bool = True
    """Of the interrupts that `irq-affinity` names the movable ones move.

    :Reference: `irq-affinity` refuses the container if any interrupt that a pattern such as `*` has may not be moved
        (`controllableInterrupts`), but not if it is named by its number.
    :Here: Those move that may; a pattern or a number that has only others refuses the container, by name.
    :Why: `mask: ["*"]` asks for as much quiet as there can be.
    """


Choices.REFERENCE = Choices(**dict.fromkeys((choice.name for choice in fields(Choices)), False))
Choices.DEFAULT = Choices()
