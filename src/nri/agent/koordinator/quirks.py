"""The differences from Koordinator: a frozen object with one attribute for each difference.

An attribute is False in `Quirks.REFERENCE` and True by default. Code reads the attribute, never the mode. Each
attribute is a row in ``docs/deviations-agent.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Quirks:
    """Differences from surprising behaviour of Koordinator. `Quirks.REFERENCE` behaves exactly like Koordinator."""

    REFERENCE: ClassVar[Quirks]
    DEFAULT: ClassVar[Quirks]

    failed_hook_changes_nothing: bool = True
    """The changes of a failed hook are discarded.

    :Reference: A failed hook's changes until the failure are applied: half of a container's RDMA devices, a GPU without
        its limit.
    :Here: The changes are discarded; other hooks continue.
    :Why: A part of a decision is not what anybody configured.
    """
    empty_batch_spec_ignored: bool = True
    """A batch annotation without containers does not set the pod's memory limit to 0.

    :Reference: A batch pod with an annotation without containers gets a memory limit of 0.
    :Why: The kernel kills the first process of the pod.
    """
    bad_batch_spec_told: bool = True
    """An unreadable batch annotation is an error with the name of the annotation.

    :Reference: A batch pod with an unreadable annotation requests nothing, and nothing is logged.
    :Here: The hook fails with the annotation's name; applied values stay.
    :Why: A typing error removed the limits of a pod without any message.
    """
    scaled_quota_is_possible: bool = True
    """A quota that is scaled to faster CPUs is not below the kernel's minimum.

    :Reference: A limit of 10m becomes a quota below 1 ms on faster CPUs.
    :Why: The kernel refuses a quota below 1 ms, and so the container.
    """
    resctrl_class_needs_group: bool = True
    """A container gets an RDT class only if the pod's annotation is readable: otherwise the group does not exist.

    :Reference: A container of a pod with an unreadable resctrl annotation gets the RDT class of a group that does not
        exist.
    :Why: The runtime refuses the container.
    """
    oom_score_at_creation: bool = True
    """The OOM score of a container is set before its first process runs, if the transport can express it.

    :Reference: The OOM score is written by a timer, after the processes have started.
    :Why: Until then the kernel selects processes by the wrong score.
    """
    absent_classes_are_off: bool = True
    """A class that is absent in NodeSLO is switched off.

    :Reference: koordlet panics if a class is absent in NodeSLO.
    :Why: A missing key stopped the agent of the node.
    """
    absent_bandwidth_is_none: bool = True
    """An annotation may limit a pod's traffic in one direction only.

    :Reference: A pod with only one of `ingressLimit` and `egressLimit` in its annotation is left out of terway's file.
    :Why: It is common to limit only one direction.
    """
    negative_bandwidth_refused: bool = True
    """A negative bandwidth is an error.

    :Reference: A negative bandwidth becomes a bandwidth of nearly 2^64.
    :Why: No network has such a bandwidth.
    """
    bandwidth_shares_in_bytes: bool = True
    """terway gets shares of the node's bandwidth in bytes.

    :Reference: terway gets 50 % of a node's 100 Mbit/s as 50 MB/s, four times the node's bandwidth; 200M has the
        effect of 100M.
    :Why: The unit of the file is bytes per second.
    """
    bad_share_pool_refused: bool = True
    """A share pool with unreadable CPUs makes the topology rule invalid, and the last good rule stays in force.

    :Reference: A share pool with unreadable CPUs is written to every container.
    :Why: The kernel refuses such CPUs for each container.
    """
    moved_processes_forgotten: bool = True
    """A process that moves to another core scheduling group is removed from the old group.

    :Reference: A process that moved to another core scheduling group and back keeps the cookie of the other group.
    :Why: The process shared a core with processes from which it should be separated.
    """
    groups_of_labels_apart: bool = True
    """A label cannot name the core scheduling group of an exclusive pod, or of a class that expels others.

    :Reference: The group of an exclusive pod is its uid. The group of an expelling class is the value of the label with
        `-expeller`. The label of another pod may have the same value.
    :Why: Every user can write labels, and a shared core leaks data.
    """
    best_effort_cpus_left: bool = True
    """CPUs in the best-effort cgroup have one writer: BECPUSuppress, whatever the label of a pod is. Where batch pods
    have share pools, the hook writes the CPUs of pods with assigned memory nodes.

    :Reference: CPUSetAllocator gives share pools to containers in the best-effort cgroup if their pod's label is LS,
        the system's CPUs if it is SYSTEM, and batch pools to batch pods; BECPUSuppress then sets the cgroup's CPUs.
    :Why: A container alternated between two CPU sets every second.
    """
    disabled_stages_honoured: bool = True
    """Disabled stages are disabled in every mode.

    :Reference: Disabled stages are disabled in proxy mode only.
    :Why: The option does not mention a mode.
    """


Quirks.REFERENCE = Quirks(**dict.fromkeys((field.name for field in fields(Quirks)), False))
Quirks.DEFAULT = Quirks()
