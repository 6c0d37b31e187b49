"""The example runtime of the documentation, as it is, with a Python and a Go plugin at its socket."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.drivers import GoPlugin

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20.0


@pytest.fixture
def example(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    path = tmp_path / "nri.sock"
    with subprocess.Popen(
        [sys.executable, "-u", ROOT / "examples" / "runtime.py", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the example does not start"
            time.sleep(0.01)
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


def test_a_go_plugin_adjusts_its_containers(example: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = example
    script = {"events": ["CreateContainer"], "on": {"CreateContainer": {"adjust": {"annotations": {"who": "go"}}}}}
    with GoPlugin(path, **script) as plugin:
        plugin.wait_event("Synchronize")
        time.sleep(0.05)
        assert 'value: "go"' in run_one(process)


def test_a_plugins_error_refuses_the_container(example: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = example
    with GoPlugin(path, events=["StartContainer"], on={"StartContainer": {"error": "not here"}}) as plugin:
        plugin.wait_event("Synchronize")
        time.sleep(0.05)
        assert "refused: plugin 10-ref: rpc error: code = Unknown desc = not here" in run_one(process)
