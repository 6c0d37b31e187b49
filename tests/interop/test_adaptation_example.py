"""The example runtime of the documentation, unchanged, with a Python and a Go plugin."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.drivers import GoPlugin
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


def start(path: Path) -> subprocess.Popen[str]:
    """The example, listening."""
    old = path.stat().st_ctime_ns if path.exists() else None
    process = subprocess.Popen(
        [sys.executable, "-u", ROOT / "examples" / "runtime.py", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or path.stat().st_ctime_ns == old:
        assert process.poll() is None, "the example has ended"
        assert time.monotonic() < deadline, "the example does not start"
        time.sleep(0.01)
    return process


@pytest.fixture
def example(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    path = tmp_path / "nri.sock"
    with start(path) as process:
        yield process, path
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0, "the example must end well"


def run_one(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if not line.strip() or line.startswith("refused"):
            break
    return "\n".join(lines)


def test_a_go_plugin_adjusts_a_container(example: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = example
    script = {"events": ["CreateContainer"], "on": {"CreateContainer": {"adjust": {"annotations": {"who": "go"}}}}}
    with GoPlugin(path, **script) as plugin:
        plugin.wait_event("Synchronize")
        time.sleep(0.05)
        assert '+ annotations: {"who": "go"}' in run_one(process)


def test_a_plugins_error_refuses_the_container(example: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = example
    with GoPlugin(path, events=["StartContainer"], on={"StartContainer": {"error": "not here"}}) as plugin:
        plugin.wait_event("Synchronize")
        time.sleep(0.05)
        assert "refused: plugin 10-ref: not here" in run_one(process)


def test_a_killed_and_restarted_runtime_reuses_its_socket_and_its_plugins_reconnect(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    script = {"events": ["CreateContainer"], "on": {"CreateContainer": {"adjust": {"annotations": {"who": "go"}}}}}
    with start(path) as first, GoPlugin(path, reconnect=True, reconnect_delay_ms=50, **script) as plugin:
        plugin.wait_event("Synchronize")
        first.kill()
        first.wait(PATIENCE_S)
        assert path.exists(), "nobody removed the socket"
        with start(path) as second:
            plugin.wait_event("Synchronize", 2)
            time.sleep(0.05)
            assert '+ annotations: {"who": "go"}' in run_one(second)
            second.kill()
