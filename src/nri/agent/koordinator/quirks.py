"""The differences from Koordinator, one named attribute each, in one frozen value.

An attribute is False in `Quirks.REFERENCE` and True by default. Code reads the attribute, never the mode. Each
attribute is a row of the table "Other systems" in ``docs/deviations.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

__all__ = ["Quirks"]


@dataclass(frozen=True, slots=True)
class Quirks:
    """The choices where the original surprises its users: `Quirks()` is what they expect, `Quirks.REFERENCE` exact."""

    REFERENCE: ClassVar[Quirks]
    DEFAULT: ClassVar[Quirks]

    failed_hook_changes_nothing: bool = True
    """Of a hook that failed nothing is applied.

    :Reference: A hook that fails has set what it decided until then: half of a container's RDMA devices, a GPU without
        its limit.
    :Here: Nothing of it is applied; the others go on.
    :Why: Half a decision was decided by nobody.
    """
    empty_batch_spec_ignored: bool = True
    """A batch annotation that names no containers leaves the pod as it is, and does not set its memory limit to 0.

    :Reference: A batch pod whose annotation names no containers gets a memory limit of 0.
    :Why: Its first process is killed.
    """
    bad_batch_spec_told: bool = True
    """A batch annotation that cannot be read is an error that names it.

    :Reference: A batch pod whose annotation cannot be read asks for nothing, and nothing is logged.
    :Here: The hook fails with the annotation's name; what was applied stays.
    :Why: A typing error took the limits from a pod, and nothing showed it.
    """
    scaled_quota_is_possible: bool = True
    """A quota that is scaled to faster CPUs stays one that the kernel takes.

    :Reference: A quota of less than 1 ms is what a limit of 10m becomes on faster CPUs.
    :Why: The kernel refuses less, and with it the container.
    """
    resctrl_class_needs_group: bool = True
    """A container gets an RDT class only if the pod's annotation can be read, for only then is there a group.

    :Reference: A container of a pod whose resctrl annotation cannot be read gets the RDT class of a group that was
        never made.
    :Why: The runtime refuses the container.
    """
    oom_score_at_creation: bool = True
    """The oom score of a container is set before its first process runs, where the transport can say it.

    :Reference: The oom score is written by a timer, after the processes have started.
    :Why: Until then the kernel kills by the wrong score.
    """
    absent_classes_are_off: bool = True
    """A NodeSLO that does not mention a class has it switched off.

    :Reference: A NodeSLO without one of its classes panics.
    :Why: One missing key stopped the agent of the node.
    """
    absent_bandwidth_is_none: bool = True
    """A pod whose annotation limits its traffic one way is not limited the other way.

    :Reference: A pod whose annotation has only one of `ingressLimit` and `egressLimit` is left out of terway's file.
    :Why: To limit one way is common.
    """
    negative_bandwidth_refused: bool = True
    """A negative bandwidth is an error.

    :Reference: A negative bandwidth is one of nearly 2^64.
    :Why: Nobody has as much.
    """
    bandwidth_shares_in_bytes: bool = True
    """terway takes shares of the node's bandwidth in bytes.

    :Reference: terway gets 50 % of a node's 100 Mbit/s as 50 MB/s, four times the node; 200M is no more than 100M.
    :Why: The file is in bytes per second.
    """
    bad_share_pool_refused: bool = True
    """A share pool whose CPUs cannot be read makes the topology rule invalid, and the last good one stays.

    :Reference: A share pool whose CPUs cannot be read is taken as it is, and written to every container.
    :Why: The kernel refuses such CPUs one container after the other.
    """
    moved_processes_forgotten: bool = True
    """A process that moves to another core-scheduling group is no longer known as one of the old group.

    :Reference: A process that moved from one core-scheduling group to another and back keeps the other one's cookie.
    :Why: It shared a core's threads with those that it was to be kept from.
    """
    groups_of_labels_apart: bool = True
    """No label can name the core-scheduling group of an exclusive pod, or of a class that expels others.

    :Reference: The group of an exclusive pod is its uid, that of an expelling class the label's value with
        `-expeller`; another pod's label may say just that.
    :Why: Anybody can write labels, and a shared core leaks.
    """
    best_effort_cpus_left: bool = True
    """CPUs in the best-effort folder have one writer: BECPUSuppress, whatever a pod's label says; where batch pods
    have share pools, the hook for those that the scheduler gave some.

    :Reference: CPUSetAllocator gives containers of the best-effort folder share pools if their pod's label says LS,
        the system's CPUs if it says SYSTEM, and batch pods theirs; BECPUSuppress then gives them the folder's.
    :Why: A container had two CPU sets in turn, each for a second.
    """
    disabled_stages_honoured: bool = True
    """Stages that are switched off are so in every mode.

    :Reference: Stages that are switched off are so in proxy mode only.
    :Why: That is what the option says.
    """


Quirks.REFERENCE = Quirks(**dict.fromkeys((field.name for field in fields(Quirks)), False))
Quirks.DEFAULT = Quirks()
