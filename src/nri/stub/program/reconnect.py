"""Connect to the runtime's socket, and reconnect after the connection is lost.

| event | reaction |
|---|---|
| no socket, or no listener | wait, with a line on stderr after 1 s; with `--no-reconnect`, or `nri events`: exit 3 |
| permission denied | exit 3 |
| the path is too long for a socket | exit 2 |
| the connection ends | pause 1 s, doubling to 30 s, full jitter; a good connection resets it; a new socket ends it |
"""

from __future__ import annotations

import os
import stat
import sys
from time import monotonic

from nri.stream import connect_unix

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from nri.backoff import Backoff
    from nri.signals import Stop

#: While waiting, the socket is checked for a change this often, in seconds.
CHECK_INTERVAL_S = 0.25
#: A missing runtime is reported after this time, in seconds.
SILENT_WAIT_S = 1.0
#: A connection was good if it lasted this long, in seconds, or if an event was answered on it. Being synchronized is
#: not enough: a runtime that cannot apply the updates of `synchronize` disconnects right after it, every time.
GOOD_CONNECTION_S = 30.0
#: The shortest pause between two connections, in seconds; the jitter alone may be 0.
MIN_PAUSE_S = 0.05


class GiveUp(Exception):
    """The program has to end, with an exit code and an error line."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Reconnect:
    """The connections to a socket, one after the other.

    Args:
        path: the runtime's socket.
        stop: ends every wait.
        no_reconnect: give up at once if the runtime does not answer.
        no_wait: like `no_reconnect`, but only for the first connection.
        silent: wait without a message, because another connection of this process prints it.
        backoff: the length of the pauses.
    """

    def __init__(
        self,
        path: str,
        stop: Stop,
        *,
        no_reconnect: bool,
        no_wait: bool = False,
        silent: bool = False,
        backoff: Backoff | None = None,
    ) -> None:
        self._path = path
        self._stop = stop
        self._no_reconnect = no_reconnect
        self._no_wait = no_reconnect or no_wait
        self._is_silent = silent
        self._backoff = backoff
        self._connected_at = 0.0

    def connect(self) -> _socket.socket | None:
        """Wait for the runtime and connect. Returns None when stopped.

        Raises:
            GiveUp: waiting is useless, or not permitted by the options.
        """
        path = self._path
        began = monotonic()
        reported = self._is_silent
        while not self._stop:
            try:
                sock = connect_unix(path)
                self._connected_at = monotonic()
                self._no_wait = self._no_reconnect
                return sock
            except PermissionError:
                text = f"cannot connect to {path}: permission denied. Run as root, or try: nri doctor"
                raise GiveUp(3, text) from None
            except OSError as error:
                reason = error.strerror or str(error)  # a path that is too long has no errno
                if error.errno is None:
                    raise GiveUp(2, f"--socket-path {path}: {reason}") from None
                if isinstance(error, ConnectionRefusedError) and not _is_socket(path):
                    reason = "not a socket"
            if self._no_wait:
                raise GiveUp(3, f"cannot connect to {path}: {reason}. Is NRI on? try: nri doctor")
            if not reported and monotonic() - began >= SILENT_WAIT_S:
                sys.stderr.write(f"waiting for {path}: {reason}. Is NRI on? try: nri doctor\n")
                sys.stderr.flush()
                reported = True
            self._stop.wait(CHECK_INTERVAL_S)
        return None

    def ended(self, *, answered: bool) -> bool:
        """Record the end of a connection. A good connection resets the backoff. Returns whether it was good.

        Args:
            answered: an event was answered on the connection.
        """
        was_good = answered or monotonic() - self._connected_at >= GOOD_CONNECTION_S
        if was_good and self._backoff is not None:
            self._backoff.reset()
        return was_good

    def delay_s(self) -> float:
        """The pause before the next connection, in seconds. It grows with every connection that was not good."""
        if self._backoff is None:
            from nri.backoff import Backoff  # imported here, because a start does not need it

            self._backoff = Backoff()
        return max(MIN_PAUSE_S, self._backoff.ended())

    def pause(self, delay_s: float) -> None:
        """Wait for `delay_s`, or until there is another socket at the path."""
        before = _identity(self._path)
        deadline = monotonic() + delay_s
        while not self._stop and (left_s := deadline - monotonic()) > 0:
            self._stop.wait(min(left_s, CHECK_INTERVAL_S))
            if _identity(self._path) not in (before, None):
                return


def _identity(path: str) -> tuple[int, int] | None:
    """The device and inode of the socket, which distinguish successive sockets at the path. None without a socket."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return True  # it was removed meanwhile
