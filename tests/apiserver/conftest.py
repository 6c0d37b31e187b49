"""A real kube-apiserver with its etcd for all tests, and the real helm beside its kubectl; no node, no controllers.

Rules: what a test applies, it takes away again. Both programs are built by a stage of their own before these tests
(tools/check.py): minutes of Go the first time, after that they are in the cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kubernetes.control_plane import ControlPlane
from tests.peers.build import peer
from tests.support.commands import run
from tests.support.needs import need
from tools.runtimes.machine import MissingError

HERE = Path(__file__).parent
Helm = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to build helm."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def api() -> Iterator[ControlPlane]:
    """The API server."""
    with tempfile.TemporaryDirectory(prefix="nri-api-", dir="/tmp") as folder:
        try:
            control_plane = ControlPlane(Path(folder), print)
        except MissingError as error:
            need(False, str(error))
            raise
        with closing(control_plane):
            control_plane.start()
            yield control_plane


@pytest.fixture(autouse=True)
def left_running(api: ControlPlane) -> Iterator[None]:
    """A test that fails while the API server is killed fails no other."""
    yield
    if not api.is_up:
        api.start_apiserver()


@pytest.fixture(scope="session")
def helm(api: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Run helm on it; what it printed is returned, and a failure is an AssertionError with its words."""
    program, home = peer("helm"), tmp_path_factory.mktemp("helm")

    def call(*words: str | Path) -> str:
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(api.kubeconfig)}
        return run([program, *words], env=environment)

    return call
