"""What our own engine supports of NRI: a column next to those of `support_matrix`, for docs/reference/runtimes.md.

Rules: with runc 1.1, as the other columns; each cell is measured: the adjustments and updates by
tests/engine/test_support_table.py, the events and what is around them by the tests that `FACTS` and `EVENTS` name.
"""

from __future__ import annotations

from tests.real.support_matrix import APPLIED, YES

#: All come: tests/engine/test_moments.py, test_plugins.py.
EVENTS = YES

#: Each with the test that measures it.
FACTS = {
    "timeouts": (YES, "tests/engine/test_support_table.py"),
    "pod-ips": (YES, "tests/engine/test_moments.py"),
    "split-sync": (YES, "tests/engine/test_support_table.py"),
    "preinstalled-sync": (YES, "tests/engine/test_plugins.py"),
    "preinstalled-broken": (YES, "tests/engine/test_support_table.py"),
    "failure-policy": (YES, "tests/engine/test_support_table.py"),
}

#: It is not done, and the log and `nri why` name it with the reason.
LEFT_OUT = "left out"

ADJUSTMENTS = {
    "hugepages": LEFT_OUT,
    "unified": LEFT_OUT,
    "blockio": "refused",
}
"""The adjustments that are not applied; all others are."""

NOTES = """*left out* means that the machine cannot apply the field; the engine's log and `nri why` give the reason.
On cgroup v2 the engine applies `add_unified` and `add_hugepage_limit`, and with configured classes also
`set_blockio_class`.
"""

UPDATES = dict.fromkeys(
    (
        "set_memory_limit",
        "set_cpu_quota",
        "set_cpu_shares",
        "set_cpuset_cpus",
        "set_pids_limit",
        "set_memory_reservation",
    ),
    APPLIED,
)
