"""The other side, as a plugin sees it: who the runtime is, and updates that the plugin asks for by itself.

An update goes out at once, or after the reply if a handler asks for it: old runtimes hold a lock while an event is
under way, and would wait for the handler that waits for them. The outcome is a `nri.stub.support.pending.Pending`.
"""

from __future__ import annotations

from time import monotonic

from nri import versions
from nri.api import messages as m
from nri.api import naming
from nri.api.builders.update import Update
from nri.errors import ConnectionClosed, NriError, RpcError
from nri.stub.support import context
from nri.stub.support.pending import UPDATE_TIMEOUT_S, Pending
from nri.text import plain
from nri.ttrpc.codes import Code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.envelope import Response

    AnUpdate: TypeAlias = Update | m.ContainerUpdate

__all__ = ["RuntimeHandle"]

#: Runtimes that read evictions, say nothing, and do nothing: those on the Go library.
DEAF_TO_EVICTIONS = ("containerd", "cri-o")
#: Updates that may be on their way at one time.
MAX_PENDING = 256
# The answer to an update has those of it that failed: it is read if it is no longer than that, with some room.
_ANSWERED, _ROOM_BYTES = 2, 16_384


def _message(update: Any) -> m.ContainerUpdate:
    """The message of an update that a plugin asks for; the error for something else says what to write."""
    message = getattr(update, "message", update)
    if not isinstance(message, m.ContainerUpdate):
        hint = ""
        if isinstance(update, str):
            hint = f": write nri.Update({update!r}).set_cpu_shares(512)"
        elif isinstance(message, m.ContainerEviction):
            hint = ": ask for it with runtime.evict()"
        raise TypeError(f"runtime.update() takes nri.Update objects, not {type(update).__name__}{hint}")
    if not message.container_id:
        raise NriError("an update names no container: give it the container's id")
    return message


class RuntimeHandle:
    """The runtime at the other end. Before the first connection, names are empty and updates fail.

    Attributes:
        name, version: as the runtime calls itself, such as "containerd" and "v2.2.0".
        nri_version: the NRI release that it uses, as told or inferred from its version; "" if unknown.
        registration_timeout_s, request_timeout_s: its timeouts, in seconds; the defaults if it does not tell.
        connected: whether updates can be sent now.
        held: for the session: looks at what is asked for (`nri.stub.support.declared`); None if nobody does.
    """

    __slots__ = (
        "_endpoint",
        "_outstanding",
        "_warned",
        "connected",
        "held",
        "name",
        "nri_version",
        "registration_timeout_s",
        "request_timeout_s",
        "version",
    )

    def __init__(self, endpoint: Endpoint | None = None, held: Any = None) -> None:
        self._endpoint, self.held = endpoint, held
        self._outstanding: set[Pending] = set()
        self._warned = False
        self.connected = False
        self.name = self.version = self.nri_version = ""
        self.registration_timeout_s = naming.REGISTRATION_TIMEOUT_S
        self.request_timeout_s = naming.REQUEST_TIMEOUT_S

    @property
    def outstanding(self) -> int:
        """The number of updates and evictions that wait to be answered, or to be sent after a handler's reply."""
        return len(self._outstanding)

    def introduce(self, request: m.ConfigureRequest) -> None:
        """Take over what the runtime says of itself when it configures us. For the session."""
        self.name, self.version = plain(request.runtime_name, 128), plain(request.runtime_version, 128)
        self.nri_version = versions.infer_nri_version(self.name, self.version, request.NRI_version)
        if request.registration_timeout:
            self.registration_timeout_s = request.registration_timeout / 1000
        if request.request_timeout:
            self.request_timeout_s = request.request_timeout / 1000
        self.connected = True

    def update(self, *updates: AnUpdate | Iterable[AnUpdate]) -> Pending:
        """Ask the runtime to update containers, now: one, several, or a list. Inside a handler: after its reply.

        Raises:
            ConnectionClosed: there is no connection.
            NriError: an update names no container, or too many updates are on their way.
            TypeError: something else than an update is among them.
        """
        request = m.UpdateContainersRequest()
        for given in updates:
            items: Any = given if hasattr(given, "__iter__") and not isinstance(given, str) else (given,)
            request.update.extend([_message(update) for update in items])
        if not request.update:
            pending = Pending(False)
            pending.finish([])
            return pending
        return self._ask(request)

    def evict(self, container: str | m.Container, reason: str = "") -> Pending:
        """Ask the runtime to evict a container, given by its id or itself, for a reason that people read.

        Where the runtime is known to ignore it, as containerd and CRI-O do, the outcome is an RpcError that says
        "unsupported", with a warning in the log, once.

        Raises:
            ConnectionClosed: there is no connection.
            NriError: no container is named, or too many updates are on their way.
            TypeError: `container` is neither an id nor a container, or the reason is not text.
        """
        container_id = container.id if isinstance(container, m.Container) else container
        if not isinstance(container_id, str):
            given = type(container).__name__
            raise TypeError(f"runtime.evict() takes a container or its id, not {given}: write evict(container, reason)")
        if not isinstance(reason, str):
            raise TypeError(f"runtime.evict() takes the reason as text, not {type(reason).__name__}")
        if not container_id:
            raise NriError("an eviction names no container: give it the container's id")
        if self.connected and self.ignores_evictions():
            pending = Pending(False)
            pending.finish([], RpcError(Code.UNIMPLEMENTED, self._unsupported()), reported=True)
            return pending
        request = m.UpdateContainersRequest()
        request.evict.add(container_id=container_id, reason=reason)
        return self._ask(request)

    def ignores_evictions(self) -> bool:
        """Whether the runtime is known to do nothing for an eviction; the first time it is a warning in the log."""
        ignores = self.name in DEAF_TO_EVICTIONS
        if ignores and not self._warned:
            self._warned = True
            from nri.stub.support import logs

            logs.adapter("stub").warning("%s: the container runs on", self._unsupported())
        return ignores

    def _unsupported(self) -> str:
        return f"an eviction is unsupported: {self.name} {self.version} ignores it"

    def _ask(self, request: m.UpdateContainersRequest) -> Pending:
        if not self.connected:
            raise ConnectionClosed("no connection to a runtime")
        if len(self._outstanding) >= MAX_PENDING:
            raise NriError(f"{MAX_PENDING} updates wait for the runtime's answer already")
        if self.held is not None:
            self.held.request(request)
        call = context.current.get()
        in_handler = call is not None and not call.finished
        containers = [update.container_id for update in request.update]
        pending = Pending(in_handler, containers or [eviction.container_id for eviction in request.evict])
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
                pending.finish([], RpcError(response.code, plain(response.message)))
            elif len(response.payload) > _ANSWERED * len(payload) + _ROOM_BYTES:
                pending.finish([], NriError(f"the runtime's answer is too long: {len(response.payload)} bytes"))
            else:
                try:
                    failed = m.UpdateContainersResponse.FromString(response.payload).failed
                    pending.finish([Update.of(update) for update in failed])
                except Exception as error:  # noqa: BLE001 - protobuf's own error, which has no public home
                    pending.finish([], NriError(f"the runtime's answer cannot be read: {error}"))

        try:
            if endpoint is None:
                raise ConnectionClosed("no connection to a runtime")
            endpoint.start(naming.RUNTIME_SERVICE, "UpdateContainers", payload, monotonic() + UPDATE_TIMEOUT_S, arrived)
        except NriError as error:
            self._outstanding.discard(pending)
            pending.finish([], error)
