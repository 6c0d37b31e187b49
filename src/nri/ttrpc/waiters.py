"""The three kinds of calls that wait for a response: how each of them learns that its response is there.

Responses are numbered where they are read, by the thread that has the role of the reader: `ARRIVALS`. So of two words
of one peer the later one has the greater number, whatever the threads do that take them further.

`nri.ttrpc.answering` hands over the response, and `nri.ttrpc.link` the turn to read.
"""

from __future__ import annotations

import itertools
from _thread import allocate_lock

from nri.errors import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from nri.errors import ConnectionClosed, DeadlineExceeded
    from nri.ttrpc.envelope import Response

    #: A request on its way: stream id, method, deadline, who waits if not the reader, and what went wrong.
    Sent = tuple[int, str, float | None, "Waiter | None", DeadlineExceeded | ConnectionClosed | None]

__all__ = ["ARRIVALS", "Callback", "Reading", "Waiter", "payload_of"]

#: Numbers for what peers say, in the order in which this process reads it.
ARRIVALS: Final = itertools.count(1)


class Waiter:
    """One call that waits: its response, once it is there, and a lock that is released to wake it."""

    __slots__ = ("lock", "response")

    def __init__(self) -> None:
        self.response: Response | None = None
        self.lock = allocate_lock()
        self.lock.acquire()

    def wake(self) -> None:
        """Wake the thread that waits: the response is there, or the connection has ended."""
        self.nudge()

    def nudge(self) -> bool:
        """Have the thread look again: perhaps no thread is reading now. False if there is no thread to wake."""
        try:
            self.lock.release()
        except RuntimeError:
            pass  # woken already
        return True


class Reading:
    """One call whose thread is the reader from before it writes until it has its response: it need not be woken."""

    __slots__ = ("response",)

    def __init__(self) -> None:
        self.response: Response | None = None

    def wake(self) -> None:
        """Do nothing: the end of the connection ends its read."""

    def nudge(self) -> bool:
        """Say that there is no thread to wake."""
        return False


class Callback:
    """One call that no thread waits for: its outcome goes to a function, in the thread that reads it."""

    __slots__ = ("_done", "response")

    def __init__(self, done: Callable[[Response | None], None]) -> None:
        self.response: Response | None = None
        self._done = done

    def wake(self) -> None:
        """Hand over the outcome: the response, or None at the end of the connection."""
        self._done(self.response)

    def nudge(self) -> bool:
        """Say that there is no thread to wake."""
        return False


def payload_of(response: Response) -> bytes:
    """The reply's bytes. RpcError if the peer answered with a status."""
    if response.code:
        raise RpcError(response.code, response.message)
    return response.payload
