"""Run a plugin in a child process and restart it when one of its files changes: `nri run --reload`.

Each start has its own process, because Python cannot unload code.
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

#: Check files this often.
POLL_INTERVAL_S = 0.3
#: A plugin must stop within this time.
STOP_TIMEOUT_S = 5.0
#: A changed file must be imported within this time.
LOAD_TIMEOUT_S = 20.0
#: The program that imports a changed file.
_LOAD_PROGRAM = """\
import sys
from nri.errors import NriError
from nri.plugins.loader import load
try:
    load(sys.argv[1])
except NriError as error:
    sys.exit(" ".join(str(error).splitlines()))
"""
#: Watch at most this many files, the files closest to the plugin first.
MAX_FILES = 500


def main_file(target: str) -> Path:
    """Return the path of the plugin's file, which may be missing."""
    place, _, class_name = target.partition(":")
    if not is_path(place):
        entry = None if class_name else registry.find(place)
        place = _module_file(entry.module if entry else place) or place
    return Path(os.path.abspath(place))  # links are not resolved: their target may change


def _module_file(name: str) -> str | None:
    """Find the file of a module in the current folder or the installed packages. Returns None if there is no file."""
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
    except Exception:  # noqa: BLE001 - the package is the author's code; the child process reports the error
        return None
    finally:
        sys.path.pop(0)
    return spec.origin if spec else None


def files_of(main: Path) -> list[Path]:
    """List the plugin's file and the Python files next to it, which it may import."""
    neighbours = [path for pattern in ("*.py", "*/*.py") for path in sorted(main.parent.glob(pattern)) if path != main]
    return [main, *neighbours][:MAX_FILES]


def child_command() -> list[str]:
    """Return the command line of this process without --reload."""
    return [sys.executable, "-m", "nri", *(word for word in sys.argv[1:] if word != "--reload")]


def mistake_of(target: str, stop: Stop) -> str:
    """Import a plugin's class in a separate process, and return its mistake in one line.

    Returns "" if the class has no mistake, or if `stop` is set first.
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
            lines = output.strip().splitlines() or [f"{target}: the import ended with exit code {loading.returncode}"]
            return lines[-1] if loading.returncode else ""
        loading.kill()
    return "" if stop else f"{target}: not imported within {LOAD_TIMEOUT_S:g} s"


def supervise(target: str, *, quiet: bool = False) -> int:
    """Run a plugin and restart it after changes until stopped. Returns the exit code. `quiet` omits messages."""
    log = _log if not quiet else lambda _: None
    stop = Stop()
    stop.listen()
    main = main_file(target)
    watch = Watch(*files_of(main))
    while True:
        # A separate process group, so that Ctrl-C reaches only this process, which passes the signal on once.
        child = subprocess.Popen(child_command(), env={**os.environ, ENV_CHECK_MESSAGES: "1"}, process_group=0)  # noqa: S603
        mistake = "?"
        while mistake and not stop:
            _wait_for_change(child, watch, main, stop, log)
            watch = Watch(*files_of(main))  # read before the import, to notice changes during the import
            mistake = mistake_of(target, stop)
            if mistake and not stop:
                running = "the previous plugin still runs" if child.poll() is None else "no plugin runs"
                log(f"{mistake} ({running}; waiting for a change)")
        if not stop:
            log("a file has changed; restarting the plugin")
        code = _end_child(child)
        if stop:
            return code or stop.exit_code


def _wait_for_change(
    child: subprocess.Popen[bytes], watch: Watch, main: Path, stop: Stop, log: Callable[[str], None]
) -> None:
    """Wait until stopped, or until a file has changed and the plugin's file exists."""
    changed = away = ended = False
    while not stop and (away or not changed):
        stop.wait(POLL_INTERVAL_S)
        changed = watch.changed() or changed
        if changed and away == main.exists():
            away = not away
            if away:
                log(f"{main} does not exist; waiting for it")
        if not (ended or changed or stop) and child.poll() is not None:
            ended = True
            log(f"the plugin ended with exit code {child.returncode}; waiting for a change")


def _log(line: str) -> None:
    sys.stderr.write(f"nri: {escape(line)}\n")


def _end_child(child: subprocess.Popen[bytes]) -> int:
    """Stop the child, by SIGKILL if it does not end in time. Returns its exit code."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return max(child.returncode, 0)
