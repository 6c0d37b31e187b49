"""The end of a program in a container by force: with all that came of it, and never of a stranger.

One job: :func:`kill_started`. Rules: a number alone may be another process by now, so the runtime that started a
program has to be above it; each process is stopped before its children are looked for, since it could start another one
in between, which would go unnoticed. Next: :mod:`nri.engine.process.stats`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from nri.host.process import children, command_line, numbers, read_stat, thread_states
from nri.host.root import MACHINE

__all__ = ["kill_started", "pid_of"]

#: How far above a program its runtime may be: a wrapper or two.
_ANCESTORS = 4
#: How long a process has to stop; one that waits for a disk, or is frozen, does not, and starts nothing either.
_STOP_S, _LOOK_S = 0.5, 0.001


def kill_started(pid_file: Path) -> None:
    """Kill the program of a pid file with all that came of it, as far as it is still its child.

    Only while the runtime that started it is above it. A runtime writes the number down after the program's start, so
    until then the runtime is killed with all that came of it.
    """
    pid = pid_of(pid_file)
    if pid:
        _kill_tree(pid, lambda: _started_with(pid, pid_file))
        return
    for runtime in _runtimes_with(pid_file):
        _kill_tree(runtime)


def pid_of(path: Path) -> int:
    """The number in a pid file; 0 if there is none."""
    try:
        return int(path.read_text() or 0)
    except (OSError, ValueError):
        return 0


def _kill_tree(pid: int, is_ours: Callable[[], bool] = lambda: True) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return  # it has ended
    try:
        if is_ours():
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            _wait_stopped(pid)
            for child in children(MACHINE, pid):  # whose numbers are theirs as long as it cannot look after them
                _kill_tree(child)
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass  # it ended meanwhile
    finally:
        os.close(descriptor)


def _wait_stopped(pid: int) -> None:
    deadline = time.monotonic() + _STOP_S
    while any(state not in "TtZX" for state in thread_states(MACHINE, pid)) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _runtimes_with(pid_file: Path) -> list[int]:
    """The processes that have this pid file on their command line."""
    return [pid for pid in numbers(MACHINE) if str(pid_file) in command_line(MACHINE, pid)]


def _started_with(pid: int, pid_file: Path) -> bool:
    """Whether one of a process's ancestors has this pid file on its command line."""
    for _ in range(_ANCESTORS):
        stat = read_stat(MACHINE, pid)
        if stat is None:
            return False
        pid = stat.parent
        if str(pid_file) in command_line(MACHINE, pid):
            return True
    return False
