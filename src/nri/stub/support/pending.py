"""`Pending`: the outcome of an update or eviction that a plugin has requested.

Callers can wait for the outcome, await it, or add callbacks. A handler can only add callbacks to its own requests,
because such a request is sent after the handler's reply.
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

#: The time limit for the runtime's answer to an update, and the default timeout of `Pending.result`, in seconds.
UPDATE_TIMEOUT_S = 5.0
#: The assumed rest of a handler's time if the runtime has set no deadline, in seconds.
_DEFAULT_HANDLER_S: Final = 2.0
#: A warning about a failed request lists at most this many containers.
_MAX_NAMES: Final = 5
_SENT_LATER: Final = (
    "the request is sent after this handler's reply, so do not wait for its outcome in the handler: call"
    " add_done_callback(), or return the Update instead"
)


def _in_a_handler() -> bool:
    """Whether a handler call is in progress. Tasks keep the context of their handler's call, also after its end."""
    call = context.current.get()
    return call is not None and not call.finished


def _is_handler(call: context.Call) -> bool:
    """Whether the caller is the handler itself, and not a task that it has started."""
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True  # without a loop there are no tasks
    return task is None or task.get_coro() is call.coroutine


class Pending:
    """The outcome of an update or eviction: the updates that failed, as a list of `nri.Update`.

    A failure is logged as a warning when this object is garbage-collected, if no code has read the outcome.
    """

    __slots__ = (
        "_callbacks",
        "_error",
        "_failed",
        "_in_handler",
        "_is_read",
        "_lock",
        "_outcome_lock",
        "containers",
        "done",
    )

    def __init__(self, in_handler: bool, containers: Sequence[str] = ()) -> None:
        """`containers` are the ids of the updated containers, for the log."""
        self.done = False
        self.containers = containers
        self._is_read = False
        self._failed: list[Update] = []
        self._error: Exception | None = None
        self._in_handler = in_handler
        self._callbacks: list[Callable[[Pending], object]] = []
        self._lock = allocate_lock()
        self._outcome_lock = allocate_lock()
        self._outcome_lock.acquire()

    def result(self, timeout: float | None = UPDATE_TIMEOUT_S) -> list[Update]:
        """Wait for the outcome. Returns the updates that failed.

        Args:
            timeout: seconds; None waits as long as the connection lasts.

        Raises:
            RpcError: the runtime refused.
            ConnectionClosed: the connection ended first.
            DeadlineExceeded: there was no outcome within `timeout`.
            NriError: called in the handler that made the request. The request is sent only after the handler's reply.
        """
        if not self.done:
            if self._in_handler and _in_a_handler():
                raise NriError(_SENT_LATER)
            if not self._outcome_lock.acquire(timeout=-1 if timeout is None else timeout):
                raise DeadlineExceeded("the runtime's answer to an update")
            self._outcome_lock.release()  # for the next waiting thread
        self._is_read = True
        if self._error is not None:
            raise self._error
        return self._failed

    def add_done_callback(self, function: Callable[[Pending], object]) -> None:
        """Call `function(self)` when the outcome arrives, in the receiving thread, or at once if it has arrived."""
        with self._lock:
            if not self.done:
                self._callbacks.append(function)
                return
        function(self)

    def __await__(self) -> Generator[Any, None, list[Update]]:
        if "asyncio" not in sys.modules:
            return self.result(None)  # without a loop, blocking this thread delays no other task
        import asyncio

        call = context.current.get()
        handler_call = call if call is not None and not call.finished and self._in_handler and not self.done else None
        if handler_call is not None and _is_handler(handler_call):
            raise NriError(_SENT_LATER)
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def wake() -> None:
            if not arrived.done():  # the waiting task may have been cancelled
                arrived.set_result(None)

        def finish(_: Pending) -> None:
            loop.call_soon_threadsafe(wake)

        self.add_done_callback(finish)
        if handler_call is not None:
            # The outcome arrives only after the handler's reply. If the handler waits for this task, there will be no
            # reply, so the task gets an error after half of the handler's remaining time.
            remaining_s = _DEFAULT_HANDLER_S if handler_call.deadline is None else handler_call.deadline - monotonic()

            def refuse_if_handler_waits(call: context.Call) -> None:
                if not call.finished and not arrived.done():
                    arrived.set_exception(NriError(_SENT_LATER))

            loop.call_later(remaining_s / 2, refuse_if_handler_waits, handler_call)
        yield from arrived.__await__()
        return self.result(0)

    def finish(self, failed: list[Update], error: Exception | None = None, *, reported: bool = False) -> None:
        """Set the outcome; later calls have no effect. Only the session calls this.

        Args:
            failed: the updates that failed.
            error: the error of the whole request.
            reported: whether the failure was already logged.
        """
        with self._lock:
            if self.done:
                return
            self._is_read = reported
            self._failed, self._error, self.done = failed, error, True
            callbacks, self._callbacks = self._callbacks, []
        self._outcome_lock.release()
        for function in callbacks:
            try:
                function(self)
            except Exception:  # noqa: BLE001 - this thread also serves the events, and must continue
                from nri.stub.support import logs

                logs.adapter("stub").exception("a callback of an update failed")

    def __del__(self) -> None:
        """Log a failure that no code has read."""
        if self._is_read or not self.done or not (self._failed or self._error) or sys.is_finalizing():
            return
        from nri.stub.support import logs

        ids = [update.container_id for update in self._failed] or self.containers
        more = f" and {len(ids) - _MAX_NAMES} more" if len(ids) > _MAX_NAMES else ""
        logs.adapter("stub").warning(
            "a request of the plugin for %s%s failed, and the plugin has not read the outcome: %s; to read the outcome,"
            " await the object that runtime.update() or evict() returns, or call its result()",
            ", ".join(map(plain, ids[:_MAX_NAMES])), more, self._error or "the runtime did not apply it",
        )  # fmt: skip
