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

    :Reference: Its changes until the failure are applied: half of a container's RDMA devices, a GPU without its limit.
    :Here: A failed hook's changes are discarded; other hooks continue.
    :Why: A part of a decision is not what anybody configured.
    """
    empty_batch_spec_ignored: bool = True
    """A batch annotation without containers does not set the pod's memory limit to 0.

    :Reference: The pod gets a memory limit of 0.
    :Why: The kernel kills the first process of the pod.
    """
    bad_batch_spec_told: bool = True
    """An unreadable batch annotation is an error with the name of the annotation.

    :Reference: The pod requests nothing, and nothing is logged.
    :Here: An unreadable batch annotation fails the hook and is named; applied values stay.
    :Why: A typing error removed the limits of a pod without any message.
    """
    scaled_quota_is_possible: bool = True
    """A quota that is scaled to faster CPUs is not below the kernel's minimum.

    :Reference: A limit of 10m becomes a quota below 1 ms.
    :Why: The kernel refuses a quota below 1 ms, and so the container.
    """
    resctrl_class_needs_group: bool = True
    """A container gets an RDT class only if the pod's annotation is readable.

    :Reference: With an unreadable annotation, the container gets the RDT class of a missing group.
    :Why: The runtime refuses the container.
    """
    oom_score_at_creation: bool = True
    """A container's OOM score is set before its first process runs, if the transport can express it.

    :Reference: It is written by a timer after the start.
    :Why: Until then the kernel selects processes by the wrong score.
    """
    absent_classes_are_off: bool = True
    """A class that is absent in NodeSLO is switched off.

    :Reference: koordlet panics.
    :Why: A missing key stopped the agent of the node.
    """
    absent_bandwidth_is_none: bool = True
    """An annotation may limit a pod's traffic in one direction only.

    :Reference: A pod with only one of `ingressLimit` and `egressLimit` is left out of terway's file.
    :Why: It is common to limit only one direction.
    """
    negative_bandwidth_refused: bool = True
    """A negative bandwidth is an error.

    :Reference: It becomes nearly 2^64.
    :Why: No network has such a bandwidth.
    """
    bandwidth_shares_in_bytes: bool = True
    """terway gets shares of the node's bandwidth in bytes.

    :Reference: 50 % of 100 Mbit/s becomes 50 MB/s; 200M has the effect of 100M.
    :Why: The unit of the file is bytes per second.
    """
    bad_share_pool_refused: bool = True
    """A share pool with unreadable CPUs invalidates the topology rule, and the last valid rule stays.

    :Reference: It is written to every container.
    :Why: The kernel refuses such CPUs for each container.
    """
    moved_processes_forgotten: bool = True
    """A process that moves to another core scheduling group leaves the old group.

    :Reference: A process that moves to another group and back keeps the cookie of the other group.
    :Why: The process shared a core with processes from which it should be separated.
    """
    groups_of_labels_apart: bool = True
    """A label cannot name the core scheduling group of an exclusive pod, or of a class that expels others.

    :Reference: Such a group is named by the pod's uid, or by the label of the class with `-expeller`, which another
        pod's label may equal.
    :Why: Every user can write labels, and a shared core leaks data.
    """
    best_effort_cpus_left: bool = True
    """BECPUSuppress is the only writer of CPUs in the best-effort cgroup.

    :Reference: CPUSetAllocator also writes CPUs of the best-effort cgroup: share pools for LS, the system's CPUs for
        SYSTEM, batch pools for batch pods.
    :Here: Only BECPUSuppress writes CPUs in the best-effort cgroup, except for pods with assigned memory nodes where
        batch pods have share pools.
    :Why: A container alternated between two CPU sets every second.
    """
    disabled_stages_honoured: bool = True
    """Disabled stages are disabled in every mode.

    :Reference: Only in proxy mode.
    :Why: The option does not mention a mode.
    """


Quirks.REFERENCE = Quirks(**dict.fromkeys((field.name for field in fields(Quirks)), False))
Quirks.DEFAULT = Quirks()
