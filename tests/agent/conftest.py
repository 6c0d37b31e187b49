"""Fixtures: a private containerd 2.4 with a root of its own for the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.node import REQUEST_S, Node, machine
from tests.agent.pods import containerd
from tools.runtimes import Containerd
from tools.runtimes.config import DaemonSettings

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to build the runtime."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def daemon() -> Iterator[Containerd]:
    """The containerd that all tests here share; one that ends it starts it again. NRI_CONTAINERD=1.7: an older one."""
    settings = DaemonSettings(request_timeout_s=REQUEST_S)
    with containerd(os.environ.get("NRI_CONTAINERD", "2.4"), settings=settings) as created:
        yield created


@pytest.fixture(scope="session")
def root(daemon: Containerd) -> Iterator[Path]:
    """The machine as the agent sees it."""
    with machine(daemon.run_dir / "host", daemon.run_dir.name) as created:
        yield created


@pytest.fixture
def node(daemon: Containerd, root: Path, tmp_path: Path) -> Iterator[Node]:
    """A node without pods, with rules of the test's own."""
    node = Node(daemon, root, tmp_path / "agent")
    yield node
    daemon.cri.remove_all()
