"""A machine of each test's own, and an engine on it, with one image for all; what a test leaves fails the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.machine import Machine
from tests.engine.node import Node, prepared_images
from tests.support.needs import need_root, need_tool
from tests.support.pod_verbs import Verbs
from tools.runtimes.engine import Engine


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine_ = Machine()
    try:
        yield machine_
    finally:
        machine_.close()


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_images(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def node(machine: Machine, images: Path) -> Iterator[Node]:
    node_ = Node(machine, images)
    try:
        yield node_
    finally:
        node_.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """`nri engine serve` as a process of its own, for the tests of a file."""
    need_root()
    for tool in ("runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)
    engine_ = Engine(say=lambda _: None)
    try:
        engine_.start()
        yield engine_
    finally:
        engine_.close()


@pytest.fixture
def verbs(engine: Engine, tmp_path: Path) -> Iterator[Verbs]:
    """`nri pod` on the engine; its pods are gone afterwards."""
    verbs_ = Verbs(engine.cri_socket, engine.run_dir.name, tmp_path)
    try:
        yield verbs_
    finally:
        verbs_("rm", "-f", "--all", "--grace", "0")
