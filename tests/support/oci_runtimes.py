"""OCI runtimes for tests, beside the machine's runc: a newer one, and crun in a form that runs here."""

from __future__ import annotations

from pathlib import Path

from tests.support.needs import need, need_tool
from tools.runtimes.machine import MissingError
from tools.runtimes.newer_runc import install_runc

__all__ = ["newer_runc", "wrapped_crun"]

#: crun does not run beside an empty cgroup v2 (real-runtimes.md 6), so it gets a view of the machine without one.
CRUN = """#!/bin/sh
[ -d /sys/fs/cgroup/unified ] || exec crun "$@"
exec unshare -m --propagation slave sh -c 'umount /sys/fs/cgroup/unified && exec crun "$@"' crun "$@"
"""


def wrapped_crun(file: Path) -> str:
    """A program in this file that is crun; the test needs crun."""
    need_tool("crun")
    file.write_text(CRUN)
    file.chmod(0o755)
    return str(file)


def newer_runc() -> str:
    """runc 1.3, which is built the first time."""
    try:
        return str(install_runc(print))
    except MissingError as error:
        need(False, str(error))
        raise
