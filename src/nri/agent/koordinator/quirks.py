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
    """Of a hook that failed nothing is applied."""
    empty_batch_spec_ignored: bool = True
    """A batch annotation that names no containers leaves the pod as it is, and does not set its memory limit to 0."""
    bad_batch_spec_told: bool = True
    """A batch annotation that cannot be read is an error that names it; to the original such a pod asks for nothing."""
    scaled_quota_is_possible: bool = True
    """A quota that is scaled to faster CPUs stays one that the kernel takes."""
    resctrl_class_needs_group: bool = True
    """A container gets an RDT class only if the pod's annotation can be read, for only then is there a group."""
    oom_score_at_creation: bool = True
    """The oom score of a container is set before its first process runs, where the transport can say it."""
    absent_classes_are_off: bool = True
    """A NodeSLO that does not mention a class has it switched off; the original panics."""
    absent_bandwidth_is_none: bool = True
    """A pod whose annotation limits its traffic one way is not limited the other way."""
    negative_bandwidth_refused: bool = True
    """A negative bandwidth is an error; the original takes it for a huge one."""
    bandwidth_shares_in_bytes: bool = True
    """terway takes shares of the node's bandwidth in bytes; the original of its bits, eight times that."""
    bad_share_pool_refused: bool = True
    """A share pool whose CPUs cannot be read makes the topology rule invalid, and the last good one stays."""
    moved_processes_forgotten: bool = True
    """A process that moves to another core-scheduling group is no longer known as one of the old group."""
    groups_of_labels_apart: bool = True
    """No label can name the core-scheduling group of an exclusive pod, or of a class that expels others."""
    best_effort_cpus_left: bool = True
    """CPUs in the best-effort folder have one writer: BECPUSuppress, whatever a pod's label says; where batch pods have
    share pools, the hook for those that the scheduler gave some."""
    disabled_stages_honoured: bool = True
    """Stages that are switched off are so in every mode."""


Quirks.REFERENCE = Quirks(**dict.fromkeys((field.name for field in fields(Quirks)), False))
Quirks.DEFAULT = Quirks()
