"""Fixtures: the containerds of tests/real and the engine of tests/engine, and where these tests can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import images, machine, node
from tests.real.conftest import installed, key
from tests.support.needs import need_machine

__all__ = ["images", "installed", "key", "machine", "node"]


@pytest.fixture(scope="session", autouse=True)
def nodes_have() -> None:
    """Go on only where cgroup v2 has all controllers and memory has two nodes."""
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    total = controllers.exists() and {"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} <= set(
        controllers.read_text().split()
    )
    nodes = Path("/sys/devices/system/node/node1").exists()
    need_machine(total and nodes, "cgroup v2 with all controllers and two NUMA nodes; `make test-v2` brings its own")
