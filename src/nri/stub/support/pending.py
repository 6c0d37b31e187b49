"""`Pending`: the outcome of an update or eviction that a plugin has asked for.

It can be waited for, awaited, or given callbacks, anywhere but in the handler that asked: what a handler asks for is
sent after its reply. Set once, by whichever thread reads the runtime's answer. Next:
`nri.stub.support.runtime_handle` makes these.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from time import monotonic

from nri.errors import DeadlineExceeded, NriError
from nri.stub.support import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, Final

    from nri.api.builders.update import Update

__all__ = ["UPDATE_TIMEOUT_S", "Pending"]

#: How long the runtime may take for an update, and `Pending.result` waits unless told otherwise, in seconds.
UPDATE_TIMEOUT_S = 5.0
# How long a task waits for the end of the handler that began it, where the runtime has set the handler no deadline.
_PATIENCE_S: Final = 2.0
_SENT_LATER: Final = "the update is sent after this handler's reply: do not wait here; return it or add a callback"


def _in_a_handler() -> bool:
    """Whether a handler is running. Not in a task that one has left behind, though that carries its context."""
    call = context.current.get()
    return call is not None and not call.finished


def _is_handler(call: context.Call) -> bool:
    """Whether it is the handler itself that runs here, and not a task that it has begun."""
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True  # there is no loop, so there are no tasks
    return task is None or task.get_coro() is call.coroutine


class Pending:
    """The outcome of an update or eviction: the updates that failed, as a list of `nri.Update`."""

    __slots__ = ("_callbacks", "_error", "_failed", "_in_handler", "_lock", "_waiting", "done")

    def __init__(self, in_handler: bool) -> None:
        self.done = False
        self._failed: list[Update] = []
        self._error: Exception | None = None
        self._in_handler = in_handler
        self._callbacks: list[Callable[[Pending], object]] = []
        self._lock = allocate_lock()
        self._waiting = allocate_lock()
        self._waiting.acquire()

    def result(self, timeout: float | None = UPDATE_TIMEOUT_S) -> list[Update]:
        """Wait for the outcome: the updates that failed, empty if none did.

        Args:
            timeout: seconds; None waits as long as the connection lasts.

        Raises:
            RpcError: the runtime refused.
            ConnectionClosed: the connection ended first.
            DeadlineExceeded: not within `timeout`.
            NriError: called in the handler that asked: it is sent only after the handler's reply.
        """
        if not self.done:
            if self._in_handler and _in_a_handler():
                raise NriError(_SENT_LATER)
            if not self._waiting.acquire(timeout=-1 if timeout is None else timeout):
                raise DeadlineExceeded("the runtime's answer to an update")
            self._waiting.release()  # for the next one who asks
        if self._error is not None:
            raise self._error
        return self._failed

    def add_done_callback(self, function: Callable[[Pending], object]) -> None:
        """Call `function(self)` once the outcome is there, in the thread that brings it; at once if it is there."""
        with self._lock:
            if not self.done:
                self._callbacks.append(function)
                return
        function(self)

    def __await__(self) -> Generator[Any, None, list[Update]]:
        if "asyncio" not in sys.modules:
            return self.result(None)  # there is no loop, so this thread keeps nobody waiting
        import asyncio

        call = context.current.get()
        begun_by = call if call is not None and not call.finished and self._in_handler and not self.done else None
        if begun_by is not None and _is_handler(begun_by):
            raise NriError(_SENT_LATER)
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def wake() -> None:
            if not arrived.done():  # the task that waited may have been cancelled
                arrived.set_result(None)

        def finish(_: Pending) -> None:
            loop.call_soon_threadsafe(wake)

        self.add_done_callback(finish)
        if begun_by is not None:
            # A task of the handler's: it may be left behind, and then gets its answer; or the handler waits for it.
            left_s = _PATIENCE_S if begun_by.deadline is None else begun_by.deadline - monotonic()

            def look(call: context.Call) -> None:
                if not call.finished and not arrived.done():
                    arrived.set_exception(NriError(_SENT_LATER))

            loop.call_later(left_s / 2, look, begun_by)
        yield from arrived.__await__()
        return self.result(0)

    def finish(self, failed: list[Update], error: Exception | None = None) -> None:
        """Set the outcome, once. For the session."""
        with self._lock:
            if self.done:
                return
            self._failed, self._error, self.done = failed, error, True
            callbacks, self._callbacks = self._callbacks, []
        self._waiting.release()
        for function in callbacks:
            try:
                function(self)
            except Exception:  # noqa: BLE001 - the thread that brings the outcome serves the events, too: it goes on
                from nri.stub.support import logs

                logs.adapter("stub").exception("a callback of an update failed")
