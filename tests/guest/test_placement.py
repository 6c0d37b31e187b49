"""topology-aware and balloons on two memory nodes and cgroup v2: memory nodes are applied, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.placing import ALL, CONFIGS, assert_found_as_decided, placing
from tools.runtimes import Containerd, Installed
from tools.runtimes.config import DaemonSettings
from tools.runtimes.daemon import Runtime
from tools.runtimes.engine import Engine
from tools.runtimes.machine import PATIENCE


@pytest.fixture(scope="module", params=["engine", "containerd"])
def daemon(request: pytest.FixtureRequest, installed: Installed) -> Iterator[Runtime]:
    """A runtime that waits for plugins as long as an emulated processor takes."""
    wait_s = 10 * PATIENCE
    if request.param == "engine":
        containerd: Runtime = Engine(say=lambda _: None, request_timeout_s=wait_s)
    else:
        containerd = Containerd(installed, DaemonSettings(request_timeout_s=wait_s, registration_timeout_s=wait_s))
    try:
        containerd.start()
        yield containerd
    finally:
        containerd.close()


@pytest.mark.parametrize("name", list(CONFIGS))
def test_containers_have_the_decided_cpus_and_memory_nodes(daemon: Runtime, name: str, tmp_path: Path) -> None:
    with placing(daemon, name, tmp_path) as policy_plugin:
        received = assert_found_as_decided(policy_plugin)
    assert any(mems < ALL[1] for mems in received), "nobody is near to its memory"
