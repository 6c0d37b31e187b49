"""What each containerd supports of NRI: the one table, for the tests and for docs/reference/runtimes.md.

Rules: a cell says what happens, not what should; a test measures it on the real runtime, cells that say "no" included.
`python -m tests.real.support_matrix --write` renews the page from the table.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.real.adjustments import CASES

RUNTIMES = ("1.7", "2.1", "2.4")
APPLIED = "applied"
IGNORED = "ignored"
YES, NO = "yes", "no"

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/runtimes.md"


@dataclass(frozen=True, slots=True)
class Row:
    """A cell for each runtime, in the order of `RUNTIMES`, and a word of explanation."""

    name: str
    cells: tuple[str, str, str]
    note: str = ""

    def __getitem__(self, key: str) -> str:
        return self.cells[RUNTIMES.index(key)]


def everywhere(name: str, cell: str, note: str = "") -> Row:
    """A row with the same cell for all."""
    return Row(name, (cell, cell, cell), note)


EVENTS = (
    everywhere("RunPodSandbox", YES),
    everywhere("CreateContainer", YES),
    Row("ValidateContainerAdjustment", (NO, NO, YES)),
    everywhere("PostCreateContainer", YES),
    everywhere("StartContainer", YES),
    everywhere("PostStartContainer", YES),
    everywhere("UpdateContainer", YES),
    everywhere("PostUpdateContainer", YES),
    Row("UpdatePodSandbox", (NO, NO, YES)),
    Row("PostUpdatePodSandbox", (NO, NO, YES)),
    everywhere("StopContainer", YES),
    everywhere("RemoveContainer", YES),
    everywhere("StopPodSandbox", YES),
    everywhere("RemovePodSandbox", YES),
)
"""All events of a pod with one container, in the order in which they come."""

FACTS = {
    "timeouts": Row("Configure tells the timeouts", (NO, YES, YES)),
    "nri-version": Row("Configure tells the NRI version", (NO, NO, YES)),
    "pod-ips": Row("RunPodSandbox has the pod's addresses", (NO, YES, YES)),
    "failure-policy": Row("heeds a plugin's failure policy", (NO, NO, YES)),
}

UPDATES = {
    "set_memory_limit": everywhere("set_memory_limit", APPLIED),
    "set_cpu_quota": everywhere("set_cpu_quota", APPLIED),
    "set_cpu_shares": everywhere("set_cpu_shares", APPLIED),
    "set_cpuset_cpus": everywhere("set_cpuset_cpus", APPLIED),
    "set_pids_limit": everywhere("set_pids_limit", IGNORED),
    "set_memory_reservation": everywhere("set_memory_reservation", IGNORED),
}

ADJUSTMENTS = {row.name: row for row in (everywhere(name, APPLIED) for name in CASES)}


def adjustment_support(name: str) -> dict[str, str]:
    """What the runtimes do with an adjustment."""
    return dict(zip(RUNTIMES, ADJUSTMENTS[name].cells, strict=True))
