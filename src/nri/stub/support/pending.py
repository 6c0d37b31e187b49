"""`Pending`: the outcome of an update or eviction that a plugin has asked for.

It can be waited for, awaited, or given callbacks, anywhere but in the handler that asked: what a handler asks for is
sent after its reply. Set once, by whichever thread reads the runtime's answer. A failure that no code reads is logged.
`nri.stub.support.runtime_handle` makes these.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from time import monotonic

from nri.errors import DeadlineExceeded, NriError
from nri.stub.support import context
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Any, Final

    from nri.api.builders.update import Update

__all__ = ["UPDATE_TIMEOUT_S", "Pending"]

#: How long the runtime may take for an update, and `Pending.result` waits unless told otherwise, in seconds.
UPDATE_TIMEOUT_S = 5.0
# How long a task waits for the end of the handler that began it, where the runtime has set the handler no deadline.
_PATIENCE_S: Final = 2.0
#: Containers that the log names of a failure that no code reads.
_MAX_NAMES: Final = 5
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
    """The outcome of an update or eviction: the updates that failed, as a list of `nri.Update`.

    A failure is logged as a warning if nothing has called `result`, or awaited this, by the time that it is dropped.
    """

    __slots__ = (
        "_callbacks",
        "_error",
        "_failed",
        "_in_handler",
        "_is_read",
        "_lock",
        "_waiting",
        "containers",
        "done",
    )

    def __init__(self, in_handler: bool, containers: Sequence[str] = ()) -> None:
        """`containers`: the ids of those that it is about, for the log."""
        self.done = False
        self.containers = containers
        self._is_read = False
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
        self._is_read = True
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

    def finish(self, failed: list[Update], error: Exception | None = None, *, reported: bool = False) -> None:
        """Set the outcome, once; `reported`: the log has it already. For the session."""
        with self._lock:
            if self.done:
                return
            self._is_read = reported
            self._failed, self._error, self.done = failed, error, True
            callbacks, self._callbacks = self._callbacks, []
        self._waiting.release()
        for function in callbacks:
            try:
                function(self)
            except Exception:  # noqa: BLE001 - the thread that brings the outcome serves the events, too: it goes on
                from nri.stub.support import logs

                logs.adapter("stub").exception("a callback of an update failed")

    def __del__(self) -> None:
        """Log a failure that no code has read: nothing else would ever report it."""
        if self._is_read or not self.done or not (self._failed or self._error) or sys.is_finalizing():
            return
        from nri.stub.support import logs

        ids = [update.container_id for update in self._failed] or self.containers
        more = f" and {len(ids) - _MAX_NAMES} more" if len(ids) > _MAX_NAMES else ""
        logs.adapter("stub").warning(
            "a request of the plugin for %s%s failed, and the plugin has not read its outcome: %s; call result() of"
            " what runtime.update() or evict() returns, or await it",
            ", ".join(map(plain, ids[:_MAX_NAMES])), more, self._error or "the runtime has not applied it",
        )  # fmt: skip
