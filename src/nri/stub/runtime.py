"""The other side, as a plugin sees it: who the runtime is, and updates that the plugin asks for by itself.

An update goes out at once, or after the reply if a handler asks for it: old runtimes hold a lock while an event is
under way, and would wait for the handler that waits for them. The outcome is a `Pending`, which can be waited for
anywhere but in a handler.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from nri.api import messages as m
from nri.api.naming import REGISTRATION_TIMEOUT_S, REQUEST_TIMEOUT_S, RUNTIME_SERVICE
from nri.errors import ConnectionClosed, DeadlineExceeded, NriError, RpcError
from nri.stub import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from nri.api.builders.update import Update
    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.envelope import Response

__all__ = ["Pending", "RuntimeHandle"]

#: How long the runtime may take for an update, and `Pending.result` waits unless told otherwise, in seconds.
UPDATE_TIMEOUT_S = 5.0
#: Updates that may be on their way at one time.
MAX_PENDING = 256


def _in_a_handler() -> bool:
    """A task that a handler has left behind carries the handler's context, and is none any more."""
    call = context.current.get()
    return call is not None and not call.finished


class Pending:
    """The outcome of an update or eviction: the updates that failed, as a list of `m.ContainerUpdate`."""

    __slots__ = ("_callbacks", "_error", "_failed", "_in_handler", "_lock", "_waiting", "done")

    def __init__(self, in_handler: bool) -> None:
        self.done = False
        self._failed: list[m.ContainerUpdate] = []
        self._error: Exception | None = None
        self._in_handler = in_handler
        self._callbacks: list[Callable[[Pending], object]] = []
        self._lock = allocate_lock()
        self._waiting = allocate_lock()
        self._waiting.acquire()

    def result(self, timeout: float | None = UPDATE_TIMEOUT_S) -> list[m.ContainerUpdate]:
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
                raise NriError(
                    "the update is sent after this handler's reply: do not wait here; return it or add a callback"
                )
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

    def __await__(self) -> Generator[Any, None, list[m.ContainerUpdate]]:
        import asyncio

        if not self.done and self._in_handler and _in_a_handler():
            self.result()  # raises, and says why
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def wake() -> None:
            if not arrived.done():  # the task that waited may have been cancelled
                arrived.set_result(None)

        def finish(_: Pending) -> None:
            loop.call_soon_threadsafe(wake)

        self.add_done_callback(finish)
        yield from arrived.__await__()
        return self.result(0)

    def finish(self, failed: list[m.ContainerUpdate], error: Exception | None = None) -> None:
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
                from nri.stub import logs

                logs.adapter("stub").exception("a callback of an update failed")


class RuntimeHandle:
    """The runtime at the other end. Before the first connection, names are empty and updates fail.

    Attributes:
        name, version: as the runtime calls itself, such as "containerd" and "v2.2.0".
        nri_version: the NRI release that it uses, as told or inferred from its version; "" if unknown.
        registration_timeout_s, request_timeout_s: its timeouts, in seconds; the defaults if it does not tell.
        connected: whether updates can be sent now.
    """

    __slots__ = (
        "_endpoint",
        "_outstanding",
        "connected",
        "name",
        "nri_version",
        "registration_timeout_s",
        "request_timeout_s",
        "version",
    )

    def __init__(self, endpoint: Endpoint | None = None) -> None:
        self._endpoint = endpoint
        self._outstanding: set[Pending] = set()
        self.connected = False
        self.name = self.version = self.nri_version = ""
        self.registration_timeout_s = REGISTRATION_TIMEOUT_S
        self.request_timeout_s = REQUEST_TIMEOUT_S

    def update(self, *updates: Update | m.ContainerUpdate) -> Pending:
        """Ask the runtime to update containers, now. Inside a handler: after its reply.

        Raises:
            ConnectionClosed: there is no connection.
            NriError: an update names no container, or too many updates are on their way.
        """
        request = m.UpdateContainersRequest()
        for update in updates:
            message = update if isinstance(update, m.ContainerUpdate) else update.message
            if not message.container_id:
                raise NriError("an update names no container: give it the container's id")
            request.update.append(message)
        return self._ask(request)

    def evict(self, container_id: str, reason: str) -> Pending:
        """Ask the runtime to evict a container. Runtimes on the Go reference ignore it (nri has no eviction there)."""
        if not container_id:
            raise NriError("an eviction names no container: give it the container's id")
        request = m.UpdateContainersRequest()
        request.evict.add(container_id=container_id, reason=reason)
        return self._ask(request)

    def _ask(self, request: m.UpdateContainersRequest) -> Pending:
        if not self.connected:
            raise ConnectionClosed("no connection to a runtime")
        if len(self._outstanding) >= MAX_PENDING:
            raise NriError(f"{MAX_PENDING} updates wait for the runtime's answer already")
        call = context.current.get()
        in_handler = call is not None and not call.finished
        pending = Pending(in_handler)
        self._outstanding.add(pending)
        payload = request.SerializeToString()
        if call is None or not in_handler:
            self.send(pending, payload)
            return pending
        if call.queued is None:
            call.queued = []
        call.queued.append((pending, payload))
        if call.finished:  # just now, in another thread, which may have looked at the queue before we were in it
            self.send_queued(call)
        return pending

    def send_queued(self, call: context.Call) -> None:
        """Send what a handler asked for while it was at work. For the session, after the reply."""
        while call.queued:
            try:
                pending, payload = call.queued.pop(0)
            except IndexError:
                return  # another thread took the last one
            self.send(pending, payload)

    def send(self, pending: Pending, payload: bytes) -> None:
        """Put a request on the wire. For the session."""
        endpoint = self._endpoint

        def arrived(response: Response | None) -> None:
            self._outstanding.discard(pending)
            if response is None:
                pending.finish([], ConnectionClosed((endpoint and endpoint.closed) or "closed"))
            elif response.code:
                pending.finish([], RpcError(response.code, response.message))
            else:
                try:
                    pending.finish(list(m.UpdateContainersResponse.FromString(response.payload).failed))
                except Exception as error:  # noqa: BLE001 - protobuf's own error, which has no public home
                    pending.finish([], NriError(f"the runtime's answer cannot be read: {error}"))

        try:
            if endpoint is None:
                raise ConnectionClosed("no connection to a runtime")
            endpoint.start(RUNTIME_SERVICE, "UpdateContainers", payload, monotonic() + UPDATE_TIMEOUT_S, arrived)
        except NriError as error:
            self._outstanding.discard(pending)
            pending.finish([], error)
