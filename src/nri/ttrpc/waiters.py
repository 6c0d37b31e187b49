"""The three kinds of waiting calls, which differ in how they get their response.

The reading thread numbers responses with `ARRIVALS`. So of two messages of a peer, the later message has the greater
number, regardless of what other threads do. `nri.ttrpc.answerer` passes on the response, and `nri.ttrpc.link` the role
of the reader.
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

    #: A request that was sent: stream id, method, deadline, the waiter (None if the caller is the reader), and the
    #: failure of the write.
    Sent = tuple[int, str, float | None, "Waiter | None", DeadlineExceeded | ConnectionClosed | None]

#: The numbers of messages from peers, in the order in which this process reads them.
ARRIVALS: Final = itertools.count(1)


class Waiter:
    """A waiting call: its response, once it has arrived, and a lock that is released to wake the call."""

    __slots__ = ("lock", "response")

    def __init__(self) -> None:
        self.response: Response | None = None
        self.lock = allocate_lock()
        self.lock.acquire()

    def wake(self) -> None:
        """Wake the waiting thread: the response has arrived, or the connection has ended."""
        self.nudge()

    def nudge(self) -> bool:
        """Wake the waiting thread, which becomes the reader if there is no reader. Returns False if no thread waits."""
        try:
            self.lock.release()
        except RuntimeError:
            pass  # already woken
        return True


class Reading:
    """A call whose thread is the reader from the write to the response, so it need not be woken."""

    __slots__ = ("response",)

    def __init__(self) -> None:
        self.response: Response | None = None

    def wake(self) -> None:
        """Do nothing, because the end of the connection ends the read of this thread."""

    def nudge(self) -> bool:
        """Return False, because no thread waits."""
        return False


class Callback:
    """A call without a waiting thread: the reading thread passes its outcome to a function."""

    __slots__ = ("_callback", "response")

    def __init__(self, callback: Callable[[Response | None], None]) -> None:
        self.response: Response | None = None
        self._callback = callback

    def wake(self) -> None:
        """Call the function with the response, or with None at the end of the connection."""
        self._callback(self.response)

    def nudge(self) -> bool:
        """Return False, because no thread waits."""
        return False


def payload_of(response: Response) -> bytes:
    """The reply's bytes. Raises RpcError if the peer answered with a status."""
    if response.code:
        raise RpcError(response.code, response.message)
    return response.payload
