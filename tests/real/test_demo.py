"""`make demo`: shows the change, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real.conftest import HERE
from tests.support.needs import need, need_root
from tools.runtimes import MissingError, install
from tools.runtimes.leftovers import PLACES, PREFIX, cgroup_dirs, remove
from tools.runtimes.machine import ensure_packages

ROOT = HERE.parents[1]
COMMAND = [sys.executable, str(ROOT / "tools/demo/demo.py")]


@pytest.fixture(autouse=True, scope="module")
def ready() -> None:
    """The demo's parts are in the cache."""
    need_root()
    try:
        ensure_packages(print, ["runc"])
        install("1.7", print)
    except MissingError as error:
        need(False, str(error))


def leftovers() -> set[Path]:
    """Run directories on this machine."""
    return {path for place in PLACES for path in Path(place).glob(f"{PREFIX}*")}


def test_it_shows_the_container_without_and_with_the_plugin() -> None:
    before = leftovers()
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines() if line.count("│") == 2]
    table = {row[0]: row[1:] for row in rows}
    assert table["env POD_NAME"] == ["(not set)", "hello"]
    assert table["memory limit, read inside"] == ["64 MiB", "48 MiB"]
    assert table["memory limit, its cgroup"] == ["64 MiB", "48 MiB"]
    assert leftovers() <= before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_cleans_up_when_it_is_interrupted(number: signal.Signals, code: int) -> None:
    before = leftovers()
    demo = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        new: set[Path] = set()
        for _ in range(600):
            new = leftovers() - before
            if any((path / "imported").exists() for path in new):
                break
            time.sleep(0.05)
        assert new, "the demo did not start a containerd"
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.wait()
    assert (demo.returncode, errors.count("\n")) == (code, 1), errors
    assert not leftovers() & new
    assert not any(cgroup_dirs(path.name) for path in new)


def test_it_says_in_one_line_what_is_missing() -> None:
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); os.geteuid = lambda: 1000; sys.argv = ['demo'];"
        "from tools.demo.demo import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(ROOT)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: the demo cannot run here: it needs root: containers need it; run the command again with sudo\n"
    )


def test_it_leaves_a_working_runtime_when_asked_to() -> None:
    before = leftovers()
    done = subprocess.run([*COMMAND, "--keep"], capture_output=True, text=True, timeout=120, check=False)
    (run_dir,) = leftovers() - before
    try:
        assert done.returncode == 0, done.stderr
        assert str(run_dir) in done.stdout
        look = [sys.executable, "-m", "tools.runtimes", "look", str(run_dir)]
        seen = subprocess.run(look, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        assert "hello" in seen, "the plugin is at work still"
    finally:
        remove(run_dir)
    assert not run_dir.exists()
