"""The plugin that docs/protocol builds from scratch, under the reference's runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.drivers import GoRuntime

EXAMPLE = Path(__file__).parents[2] / "examples/raw_plugin.py"
CONTAINER = {"id": "ctr0", "pod_sandbox_id": "pod0", "name": "c0"}


@pytest.fixture(params=["", "061"], ids=["newest", "0.6.1"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GoRuntime]:
    with GoRuntime(request.param) as runtime:
        runtime.start(tmp_path / "nri.sock")
        with subprocess.Popen([sys.executable, EXAMPLE, tmp_path / "nri.sock"]) as plugin:
            try:
                runtime.wait_plugins(1, timeout_s=60)
                yield runtime
            finally:
                plugin.kill()


def create(runtime: GoRuntime, name: str) -> object:
    pod = {"id": "pod0", "name": name, "uid": "u0", "namespace": "default"}
    return runtime.event("CreateContainer", pod, CONTAINER)["adjust"]["env"]


def test_the_plugin_adjusts_containers(runtime: GoRuntime) -> None:
    assert create(runtime, "web") == [{"key": "POD_NAME", "value": "web"}]
    assert create(runtime, "db") == [{"key": "POD_NAME", "value": "db"}]


def test_messages_over_4096_bytes_pass_in_both_directions(runtime: GoRuntime) -> None:
    name = "x" * 10_000
    assert create(runtime, name) == [{"key": "POD_NAME", "value": name}]
    assert create(runtime, "web") == [{"key": "POD_NAME", "value": "web"}], "the connection must still be good"
