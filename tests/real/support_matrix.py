"""What each containerd supports of NRI: the one table, for the tests and for docs/reference/runtimes.md.

Rules: a cell says what happens, not what should; a test measures it on the real runtime, cells that say "no" included.
Next: `support_page`, which writes the page.
"""

from __future__ import annotations

from dataclasses import dataclass

from nri.conformance.fields import CASES

RUNTIMES = ("1.7", "2.1", "2.4")
APPLIED = "applied"
IGNORED = "ignored"
YES, NO = "yes", "no"


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
    "timeouts": Row("Configure has the timeouts", (NO, YES, YES)),
    "pod-ips": Row("RunPodSandbox has the pod's addresses", (NO, YES, YES)),
    "split-sync": Row(
        "Synchronize of more than 4 MiB is sent in parts",
        (NO, YES, YES),
        "1.7: the plugin gets no events; 2.1, 2.4: the same where there are fewer pods than such parts",
    ),
    "preinstalled-sync": Row("a pre-installed plugin gets Synchronize", (NO, YES, YES)),
    "preinstalled-broken": Row(
        "starts with a pre-installed plugin that cannot start",
        (NO, YES, YES),
        '1.7: containerd itself ends with "fatal"',
    ),
    "failure-policy": Row("respects a plugin's failure policy", (NO, NO, YES)),
}

UPDATES = {
    "set_memory_limit": everywhere("set_memory_limit", APPLIED),
    "set_cpu_quota": everywhere("set_cpu_quota", APPLIED),
    "set_cpu_shares": everywhere("set_cpu_shares", APPLIED),
    "set_cpuset_cpus": everywhere("set_cpuset_cpus", APPLIED),
    "set_pids_limit": everywhere("set_pids_limit", IGNORED),
    "set_memory_reservation": everywhere("set_memory_reservation", IGNORED),
}

_OLD = (IGNORED, IGNORED, APPLIED)
_SINCE_2 = (IGNORED, APPLIED, APPLIED)
_NEVER = (IGNORED, IGNORED, IGNORED)
_NO_CLASSES = "refused: no OCI BlockIO parameters for class"

# What is not listed is applied by all.
_EXCEPTIONS: dict[str, tuple[tuple[str, str, str], str]] = {
    "env-remove": (_NEVER, "only variables that another plugin added can be removed"),
    "mount-remove": (_SINCE_2, ""),
    "args": (_OLD, ""),
    "device-rule": (_OLD, ""),
    "cdi": (_SINCE_2, ""),
    "memory-reservation": (_NEVER, "the limit is the only memory setting that the reference applies at creation"),
    "hugepages": (
        _NEVER,
        "needs disable_hugetlb_controller = false in containerd's configuration; on cgroup v1 runc refuses it",
    ),
    "pids": (_SINCE_2, ""),
    "blockio": ((_NO_CLASSES,) * 3, "containerd: the creation fails until classes are configured"),
    "unified": ((APPLIED,) * 3, "on cgroup v1 runc refuses to start such a container"),
    "rdt": (_OLD, ""),
    "oom-score": (_SINCE_2, ""),
    "namespace-add": (_OLD, ""),
    "namespace-replace": (_OLD, ""),
    "namespace-remove": (_OLD, ""),
    "sysctl": (_OLD, ""),
    "seccomp": (_OLD, ""),
    "scheduler": (_OLD, "runc 1.3 applies it, runc 1.1 does not"),
    "io-priority": (_OLD, "runc 1.3 applies it, runc 1.1 does not"),
    "net-device": (_OLD, "crun 1.28 applies it, runc up to 1.3 does not"),
    "memory-policy": (_OLD, "crun 1.28 applies it, runc up to 1.3 does not"),
}
_APPLIED = ((APPLIED, APPLIED, APPLIED), "")

ADJUSTMENTS = {name: Row(case.text, *_EXCEPTIONS.get(name, _APPLIED)) for name, case in CASES.items()}
"""What becomes of each case of `nri.conformance.fields`."""


def adjustment_support(name: str) -> dict[str, str]:
    """What the runtimes do with an adjustment."""
    return dict(zip(RUNTIMES, ADJUSTMENTS[name].cells, strict=True))
