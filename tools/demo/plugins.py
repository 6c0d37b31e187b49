"""The plugins of the demo: how one is started and shown, and the table of their changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.demo.screen import Screen
from tools.runtimes import MissingError
from tools.runtimes.machine import last_line

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples/demo.py"
SCRATCH = ROOT / "examples/scratch.py"
START_TIMEOUT_S = 20.0
NOT_SET = "(not set)"


def start(plugin: Path, index: str, socket: Path, run_dir: Path) -> subprocess.Popen[bytes]:
    """Start an example in the background."""
    with open(run_dir / f"{plugin.stem}.log", "wb") as output:
        return subprocess.Popen(
            [sys.executable, plugin, "--idx", index, "--socket-path", socket],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def wait_for_plugin(plugin: subprocess.Popen[bytes], is_ready: Callable[[], object], run_dir: Path) -> None:
    """Wait until the runtime has accepted a plugin. MissingError if it does not."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_ready():
        if plugin.poll() is not None or time.monotonic() > deadline:
            name = Path(str(plugin.args[1])).stem  # type: ignore[index]  # a list, see `start`
            raise MissingError("a plugin that starts", last_line((run_dir / f"{name}.log").read_text()))
        time.sleep(0.02)


def listing(screen: Screen, plugin: Path) -> None:
    """Show a plugin's text."""
    screen.listing(plugin.read_text().strip().splitlines())


def compare_rows(screen: Screen, before: Mapping[str, str], after: Mapping[str, str], whose: str) -> None:
    """Print a table of the values before and after."""
    titles = [*(title for title in after if title.startswith("env ")), *before, *after]
    screen.table(
        ("", f"without {whose}", f"with {whose}"),
        [(title, before.get(title, NOT_SET), after.get(title, NOT_SET)) for title in dict.fromkeys(titles)],
    )


def ignore_signals() -> None:
    """Ignore further interruptions during the cleanup."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
