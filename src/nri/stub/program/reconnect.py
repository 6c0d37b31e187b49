"""Connect to the runtime's socket, and again after the connection is lost.

| what happens | what follows |
|---|---|
| no socket, or no listener | wait for it, with a line on stderr after 1 s; `--no-reconnect`, `nri events`: exit 3 |
| not allowed to connect | exit 3 |
| the path is too long for a socket | exit 2 |
| the connection ends | wait: 1 s doubling to 30 s, full jitter, from 1 s again after a good connection |

A connection was good if it lasted half a minute, or an event was answered on it. To be registered and synchronized is
not enough: a runtime that cannot do what `synchronize` has asked for hangs up after that, each time again.

A socket that is made again is noticed within a quarter of a second, whatever the backoff. Next:
`nri.stub.program.process` serves the connection.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from nri.stream import connect_unix

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from nri.backoff import Backoff
    from nri.signals import Stop

__all__ = ["GiveUp", "Reconnect"]

#: How often a wait looks whether the socket has changed, in seconds.
GLANCE_S = 0.25
#: How long a missing runtime goes without a word, in seconds.
PATIENCE_S = 1.0
#: A connection that lasted this long was a good one, in seconds.
GOOD_CONNECTION_S = 30.0
#: The shortest pause between two connections, in seconds: the jitter may be nothing at all.
SHORTEST_PAUSE_S = 0.05


class GiveUp(Exception):
    """Ends the program: an exit code, and a line that says why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Reconnect:
    """The connections to one socket, one after the other.

    Args:
        path: the runtime's socket.
        stop: ends every wait.
        once: try once, and give up if the runtime is not there.
        no_wait: the same for the first connection only; later ones are waited for.
        silent: wait without a word, because another connection of this process says it.
        backoff: how long the pauses are.
    """

    def __init__(
        self,
        path: str,
        stop: Stop,
        *,
        once: bool,
        no_wait: bool = False,
        silent: bool = False,
        backoff: Backoff | None = None,
    ) -> None:
        self._path = path
        self._stop = stop
        self._once = once
        self._no_wait = once or no_wait
        self._silent = silent
        self._backoff = backoff
        self._since = 0.0

    def connect(self) -> _socket.socket | None:
        """Wait for the runtime and connect; None when stopped.

        Raises:
            GiveUp: there is no sense in waiting, or no wish to.
        """
        path = self._path
        began = monotonic()
        told = self._silent
        while not self._stop:
            try:
                sock = connect_unix(path)
                self._since = monotonic()
                self._no_wait = self._once
                return sock
            except PermissionError:
                text = f"cannot connect to {path}: permission denied. Run as root, or try: nri doctor"
                raise GiveUp(3, text) from None
            except OSError as error:
                reason = error.strerror or str(error)  # a path that is too long has no errno
                if error.errno is None:
                    raise GiveUp(2, f"--socket-path {path}: {reason}") from None
            if self._no_wait:
                raise GiveUp(3, f"cannot connect to {path}: {reason}. Is NRI enabled? try: nri doctor")
            if not told and monotonic() - began >= PATIENCE_S:
                sys.stderr.write(f"waiting for {path}: {reason}. Is NRI enabled? try: nri doctor\n")
                sys.stderr.flush()
                told = True
            self._stop.wait(GLANCE_S)
        return None

    def ended(self, *, answered: bool) -> bool:
        """Judge the connection that has ended; the failures before a good one are forgotten. Returns if it was good.

        Args:
            answered: an event was answered on it.
        """
        was_good = answered or monotonic() - self._since >= GOOD_CONNECTION_S
        if was_good and self._backoff is not None:
            self._backoff.reset()
        return was_good

    def delay_s(self) -> float:
        """The pause before the next connection, in seconds; longer with every connection that was not good."""
        if self._backoff is None:
            from nri.backoff import Backoff  # now, because it loads what a start does not need

            self._backoff = Backoff()
        return max(SHORTEST_PAUSE_S, self._backoff.ended())

    def pause(self, delay_s: float) -> None:
        """Wait so many seconds; no longer than until there is another socket at the path."""
        before = _identity(self._path)
        until = monotonic() + delay_s
        while not self._stop and (left_s := until - monotonic()) > 0:
            self._stop.wait(min(left_s, GLANCE_S))
            if _identity(self._path) not in (before, None):
                return


def _identity(path: str) -> tuple[int, int] | None:
    """Read what tells one socket at the path from the next; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
