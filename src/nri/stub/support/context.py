"""The current request of a handler: event, pod, container, deadline.

It is a context variable, so that every thread has its own, and coroutines keep it in the loop's thread.
"""

from __future__ import annotations

from _contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Call:
    """A request that a handler is serving.

    Attributes:
        event: the RPC name, for example `CreateContainer`.
        deadline: absolute `time.monotonic()` seconds, or None.
        pod, container: the messages of the request, or None.
        queued: updates that the handler requested; they are sent after the reply.
        coroutine: the handler's coroutine, if it is an `async def` that runs in the loop.
        finished: the reply has been written; tasks that the handler has started may still use this call.
    """

    __slots__ = ("container", "coroutine", "deadline", "event", "finished", "pod", "queued")

    def __init__(self, event: str, deadline: float | None) -> None:
        self.event = event
        self.deadline = deadline
        self.pod: Any = None
        self.container: Any = None
        self.queued: list[Any] | None = None
        self.coroutine: Any = None
        self.finished = False


#: The current call, or None outside handlers.
current: ContextVar[Call | None] = ContextVar("nri_call", default=None)
