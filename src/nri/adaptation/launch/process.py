"""Start an installed plugin as the Go library does, and record when and how it ended.

The contract: the plugin's end of a socket pair as descriptor 3, an environment of exactly three variables, no
arguments, the runtime's working directory, stdin and stdout at /dev/null. Only stderr differs: it is a pipe whose last
lines are stored. The plugin does not inherit any of the runtime's own descriptors, even if a library of the runtime
forgot to mark them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import threading
from typing import TYPE_CHECKING

from nri.adaptation.launch.stderr_tail import StderrTail
from nri.api import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.launch.discovery import PluginFile
    from nri.adaptation.launch.trusted import TrustedFile

#: Stderr is read in pieces of this many bytes.
DRAIN_BYTES = 65536
#: At most this many pieces of stderr are read at one time.
DRAIN_READS = 8
#: A plugin that has written more to stderr is not read for this many seconds.
PAUSE_S = 0.05
#: Other threads may open at most this many descriptors while a plugin is being started.
MAX_NEW_DESCRIPTORS = 64


class Process:
    """One run of a plugin.

    Attributes:
        socket: the runtime's end of the pair.
        pid: the process id.
        status: how the process ended, as text; "" while it runs.
        failed: whether the process ended in another way than with code 0.
    """

    def __init__(self, plugin: PluginFile, file: TrustedFile | None = None) -> None:
        """Start the plugin. Raises OSError if it cannot be started.

        `file` is the checked file at the plugin's path: a program is started from the file, a script by its path.
        """
        runtime_end, plugin_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        kept_fds: list[int] = []  # descriptors that the runtime keeps
        child_fds: list[int] = []  # descriptors of the child
        self.pid = 0
        try:
            read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            kept_fds.append(read)
            child_fds.append(write)
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            kept_fds.append(self._wake)
            # Numbers above 3, because 0 to 3 are the child's descriptors.
            for fd in (plugin_end.fileno(), write):
                child_fds.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10))  # noqa: PERF401 - all are closed if one fails
            os.set_blocking(write, True)
            self.pid = os.posix_spawn(
                (file.executable if file is not None else "") or plugin.path,
                [plugin.path],
                {naming.ENV_NAME: plugin.name, naming.ENV_IDX: plugin.index, naming.ENV_SOCKET: "3"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, child_fds[2], 2),
                    (os.POSIX_SPAWN_DUP2, child_fds[1], 3),
                    *_closing_actions(-1 if file is None else file.folder),
                ],
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM],
            )
            self._end = os.pidfd_open(self.pid)
        except BaseException:
            runtime_end.close()
            for fd in kept_fds:
                os.close(fd)
            if self.pid:  # the process runs, but cannot be watched
                os.kill(self.pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self.pid, 0)
            raise
        finally:
            plugin_end.close()
            for fd in child_fds:
                os.close(fd)
        self.socket = runtime_end
        self.status = ""
        self.failed = False
        self._stderr = read
        self._stderr_ended = self._is_flooded = False
        self._closing = threading.Lock()
        self._stderr_tail = StderrTail()

    def wait(self, check: Callable[[], float]) -> None:
        """Read stderr until the process has ended, and reap it. Blocks: call it in a separate thread.

        `check` is called at once, after every `nudge`, and when the number of seconds that it returned has passed.
        """
        while True:
            ready = self._poll(check())
            if self._wake in ready:
                os.eventfd_read(self._wake)
            if self._stderr in ready:
                self._drain()
            if self._end in ready:
                break
        self._drain()
        self._reap()
        with self._closing:
            for fd in (self._end, self._stderr, self._wake):
                os.close(fd)
            self._end = self._stderr = self._wake = -1

    def _poll(self, seconds: float) -> set[int]:
        """Wait and return the ready descriptors. A plugin that floods its stderr is not read for a moment."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        if self._is_flooded:
            seconds = min(seconds, PAUSE_S)
            self._is_flooded = False
        elif not self._stderr_ended:
            poll.register(self._stderr, select.POLLIN)
        return {fd for fd, _ in poll.poll(seconds * 1000)}

    def nudge(self) -> None:
        """Make `wait` call its `check` again."""
        with self._closing:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def kill(self) -> None:
        """Kill the process. Harmless if it has ended."""
        with self._closing:
            if self._end >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._end, signal.SIGKILL)

    def _drain(self) -> None:
        """Read the pipe, but not more than a healthy plugin writes at one time."""
        for _ in range(DRAIN_READS):
            try:
                data = os.read(self._stderr, DRAIN_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._stderr_ended = True
                return
            self._stderr_tail.add(data)
        self._is_flooded = True

    def _reap(self) -> None:
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # the embedding program reaps all children
            self.status, self.failed = "ended", True
            return
        code = os.waitstatus_to_exitcode(status)
        self.failed = code != 0
        self.status = f"exit code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"

    @property
    def last_words(self) -> str:
        """The last lines that the plugin wrote to stderr, made printable (`nri.text.plain`)."""
        return self._stderr_tail.text


def _closing_actions(needed_fd: int) -> list[tuple[int, int]]:
    """The file actions that close a child's descriptors above 3, except the descriptor that it needs until `exec`.

    Only descriptors without close-on-exec matter. Another thread may be opening a descriptor at the moment. It gets the
    lowest free number, which is at most the number of descriptors.
    """
    inherited = {int(name) for name in os.listdir("/proc/self/fd")}
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = len(inherited) + MAX_NEW_DESCRIPTORS
    numbers = {fd for fd in inherited if fd >= highest and _is_inherited(fd)}
    numbers.update(range(4, highest if limit == resource.RLIM_INFINITY else min(highest, limit)))
    return [(os.POSIX_SPAWN_CLOSE, fd) for fd in sorted(numbers) if fd not in (0, 1, 2, 3, needed_fd)]


def _is_inherited(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # the descriptor with which the folder was read


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
