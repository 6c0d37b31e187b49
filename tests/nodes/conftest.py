"""Where these tests can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.needs import need_machine


@pytest.fixture(scope="session", autouse=True)
def systemd_node() -> None:
    """Run only on cgroup v2 with systemd as process 1."""
    has_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    has_systemd = Path("/run/systemd/system").exists() and Path("/proc/1/comm").read_text() == "systemd\n"
    need_machine(has_v2 and has_systemd, "cgroup v2 under systemd; `make test-nodes` brings its own")
