"""Fixtures: a private containerd 2.4 with a root of its own for the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.node import CGROUPS, Node, machine
from tests.support.needs import need, need_machine, need_root
from tools.runtimes import Containerd, MissingError, install
from tools.runtimes.leftovers import sweep
from tools.runtimes.machine import ensure_packages

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to build the runtime."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def daemon() -> Iterator[Containerd]:
    """The containerd that all tests here share; one that ends it starts it again. NRI_CONTAINERD=1.7: an older one."""
    need_root()
    need_machine((CGROUPS / "cpu").is_dir(), "cgroup v1: the values that are looked at are in its files")
    try:
        ensure_packages(print)
        sweep()
        installed = install(os.environ.get("NRI_CONTAINERD", "2.4"), print)
    except MissingError as error:
        need(False, str(error))
        raise
    with Containerd(installed) as made:
        yield made


@pytest.fixture(scope="session")
def root(daemon: Containerd) -> Iterator[Path]:
    """The machine as the agent sees it."""
    with machine(daemon.run_dir / "host", daemon.run_dir.name) as made:
        yield made


@pytest.fixture
def node(daemon: Containerd, root: Path, tmp_path: Path) -> Iterator[Node]:
    """A node without pods, with rules of the test's own."""
    made = Node(daemon, root, tmp_path / "agent")
    yield made
    daemon.cri.remove_all()
