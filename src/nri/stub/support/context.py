"""The request that the present handler works on: event, pod, container, deadline. `self.log` and the like read it.

A context variable, so that it is right in every thread and follows a coroutine into the loop's thread. Next:
`nri.stub.handler.call`, which sets it.
"""

from __future__ import annotations

from _contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Call", "current"]


class Call:
    """One request in a handler's hands.

    Attributes:
        event: name of the RPC, for people: `CreateContainer`.
        deadline: absolute `time.monotonic()` seconds, or None.
        pod, container: the messages it is about, as far as there are any.
        queued: updates that the handler asked for; they go out after the reply.
        coroutine: the handler itself, if it is an `async def` and has a loop.
        finished: the reply has been written; tasks that the handler has left behind still see this call.
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


#: The call at hand, or None outside handlers.
current: ContextVar[Call | None] = ContextVar("nri_call", default=None)
