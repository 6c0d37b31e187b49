"""`nri run --reload`: the plugin in a child process, started again whenever one of its files changes.

A process for each start, because Python cannot unload code. A plugin that ends by itself, or cannot be loaded, is not
started again until something changes, so that a mistake shows once and not ten times a second.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from nri.config import Watch

#: How often files are looked at, and how long a plugin may take to stop, in seconds.
GLANCE_S = 0.3
PATIENCE_S = 5.0
#: Files that are watched at most; a plugin that lies in a huge tree is watched for its nearest files.
MOST_FILES = 500


def files_of(target: str) -> list[Path]:
    """List the plugin's own file and the Python files beside it, which it may import."""
    place = target.partition(":")[0]
    if not os.path.isfile(place):
        spec = importlib.util.find_spec(place)
        place = spec.origin if spec and spec.origin else place
    main = Path(place).resolve()
    beside = [path for pattern in ("*.py", "*/*.py") for path in sorted(main.parent.glob(pattern)) if path != main]
    return [main, *beside][:MOST_FILES]


def child_command() -> list[str]:
    """Return this very command line, without --reload."""
    return [sys.executable, "-m", "nri.cli.main", *(word for word in sys.argv[1:] if word != "--reload")]


class _Stop(Exception):
    """The end that a signal asked for. Not an error: the way out of the loop."""


def _stop(number: int, _: object) -> None:
    raise _Stop(number)


def supervise(target: str) -> int:
    """Run, watch, start again; returns the exit code once stopped."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    child = None
    try:
        while True:
            watch = Watch(*files_of(target))
            # A group of its own: the terminal's Ctrl-C comes to us, and we pass it on once.
            child = subprocess.Popen(child_command(), process_group=0)
            if _wait_for_change(child, watch):
                sys.stderr.write("nri: a file has changed, starting again\n")
            _end(child)
    except _Stop as stop:
        return (_end(child) if child else 0) or (130 if stop.args[0] == signal.SIGINT else 0)


def _wait_for_change(child: subprocess.Popen[bytes], watch: Watch) -> bool:
    """Wait until a file changes, whether or not the child still runs. True: only a signal ends the wait otherwise."""
    told = False
    while not watch.changed():
        time.sleep(GLANCE_S)
        if not told and child.poll() is not None:
            told = True
            sys.stderr.write(f"nri: the plugin ended with exit code {child.returncode}; waiting for a change\n")
    return True


def _end(child: subprocess.Popen[bytes]) -> int:
    """Stop the child if it still runs, gently first; returns its exit code."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return max(child.returncode, 0)
