"""What only newer OCI runtimes do, beside the cases of `nri conformance runtime`, which the tests try as well.

What each runtime makes of a case is in support_matrix.py.
"""

from __future__ import annotations

import os
import subprocess

from nri.conformance.fields import PROCESS, A, Case, View, namespace


def _scheduler(view: View) -> str:
    return f"{os.sched_getscheduler(view.pid)} {os.getpriority(os.PRIO_PROCESS, view.pid)}"


def _io_priority(view: View) -> str:
    command = ["ionice", "-p", str(view.pid)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


#: What only a newer runc does; runc 1.1 and crun 1.8 pass over the first two.
NEWER = {
    "scheduler": Case("", PROCESS, lambda _: A().set_scheduler("BATCH", nice=5), _scheduler, f"{os.SCHED_BATCH} 5"),
    "io-priority": Case("", PROCESS, lambda _: A().set_io_priority("BE", 6), _io_priority, "best-effort: prio 6"),
    "time": Case("", PROCESS, lambda _: A().set_namespace("time"), lambda v: namespace(v, "time"), "own"),
}
