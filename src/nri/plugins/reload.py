"""`nri run --reload`: the plugin in a child process, started again whenever one of its files changes.

A process for each start, because Python cannot unload code. In it a handler that changes the message it was given fails
(`nri.stub.support.unchanged`). A changed file is loaded by another process first: while it has a mistake, which is told
once, the plugin before runs on. One that ends by itself is not started again until something changes. A file that goes
away for a while, as editors and version control have it, ends nothing: the plugin runs on until its file is back. Next:
`nri.cli.verbs.run`, whose flag it is.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from nri.api.naming import ENV_CHECK_MESSAGES
from nri.config import Watch
from nri.plugins import registry
from nri.plugins.loader import is_path
from nri.signals import Stop
from nri.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable

#: How often files are looked at, and how long a plugin may take to stop, in seconds.
POLL_INTERVAL_S = 0.3
STOP_TIMEOUT_S = 5.0
#: How long a changed file may take to be loaded, in seconds, and the program that loads it.
LOAD_TIMEOUT_S = 20.0
_LOAD_PROGRAM = """\
import sys
from nri.errors import NriError
from nri.plugins.loader import load
try:
    load(sys.argv[1])
except NriError as error:
    sys.exit(" ".join(str(error).splitlines()))
"""
#: Files that are watched at most; a plugin that lies in a huge tree is watched for its nearest files.
MAX_FILES = 500


def main_file(target: str) -> Path:
    """Return the plugin's own file, whether it is there now or not."""
    place, _, class_name = target.partition(":")
    if not is_path(place):
        entry = None if class_name else registry.find(place)
        place = _module_file(entry.module if entry else place) or place
    return Path(os.path.abspath(place))  # links stay: what they lead to may be swapped


def _module_file(name: str) -> str | None:
    """Find the file of a module in the current folder or the installed packages; None if it cannot be found."""
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
    except Exception:  # noqa: BLE001 - its package is the author's code; the child shows what is wrong with it
        return None
    finally:
        sys.path.pop(0)
    return spec.origin if spec else None


def files_of(main: Path) -> list[Path]:
    """List the plugin's own file and the Python files beside it, which it may import."""
    neighbours = [path for pattern in ("*.py", "*/*.py") for path in sorted(main.parent.glob(pattern)) if path != main]
    return [main, *neighbours][:MAX_FILES]


def child_command() -> list[str]:
    """Return this very command line, without --reload."""
    return [sys.executable, "-m", "nri", *(word for word in sys.argv[1:] if word != "--reload")]


def mistake_of(target: str, stop: Stop) -> str:
    """Load a plugin's class in a process of its own, and return what is wrong with it in one line, "" for nothing.

    Nothing is known of one that is not loaded yet when we are stopped.
    """
    command = [sys.executable, "-c", _LOAD_PROGRAM, target]
    deadline = monotonic() + LOAD_TIMEOUT_S
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0
    ) as loading:
        while not stop and monotonic() < deadline:
            try:
                output = loading.communicate(timeout=POLL_INTERVAL_S)[1]
            except subprocess.TimeoutExpired:
                continue
            lines = output.strip().splitlines() or [f"{target}: loading it ended with exit code {loading.returncode}"]
            return lines[-1] if loading.returncode else ""
        loading.kill()
    return "" if stop else f"{target}: it is not loaded within {LOAD_TIMEOUT_S:g} s"


def supervise(target: str, *, quiet: bool = False) -> int:
    """Run, watch, start again; returns the exit code once stopped. `quiet`: without a word about it."""
    log = _log if not quiet else lambda _: None
    stop = Stop()
    stop.listen()
    main = main_file(target)
    watch = Watch(*files_of(main))
    while True:
        # A group of its own: the terminal's Ctrl-C comes to us, and we pass it on once.
        child = subprocess.Popen(child_command(), env={**os.environ, ENV_CHECK_MESSAGES: "1"}, process_group=0)  # noqa: S603
        mistake = "?"
        while mistake and not stop:
            _wait_for_change(child, watch, main, stop, log)
            watch = Watch(*files_of(main))  # before it is loaded: what changes meanwhile is a change
            mistake = mistake_of(target, stop)
            if mistake and not stop:
                running = "the plugin before runs on" if child.poll() is None else "none runs"
                log(f"{mistake} ({running}; waiting for a change)")
        if not stop:
            log("a file has changed, starting again")
        code = _end(child)
        if stop:
            return code or stop.exit_code


def _wait_for_change(
    child: subprocess.Popen[bytes], watch: Watch, main: Path, stop: Stop, log: Callable[[str], None]
) -> None:
    """Wait until stopped, or until a file has changed and the plugin's own is there; the child may end meanwhile."""
    changed = away = ended = False
    while not stop and (away or not changed):
        stop.wait(POLL_INTERVAL_S)
        changed = watch.changed() or changed
        if changed and away == main.exists():
            away = not away
            if away:
                log(f"{main} is gone; waiting for it to come back")
        if not (ended or changed or stop) and child.poll() is not None:
            ended = True
            log(f"the plugin ended with exit code {child.returncode}; waiting for a change")


def _log(line: str) -> None:
    sys.stderr.write(f"nri: {escape(line)}\n")


def _end(child: subprocess.Popen[bytes]) -> int:
    """Stop the child if it still runs, gently first; returns its exit code."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return max(child.returncode, 0)
