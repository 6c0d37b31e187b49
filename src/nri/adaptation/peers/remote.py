"""A plugin that is connected over a socket, as a `Peer`.

A plugin is asked by the event's own method, or by `StateChange` if it knows only this method. Its RegisterPlugin and
UpdateContainers go to the owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nri.adaptation.peers.peer import Owner, Peer
from nri.adaptation.peers.state import Signal
from nri.adaptation.peers.synchronize import hand_over
from nri.api import naming
from nri.errors import RpcError
from nri.mux import Trunk
from nri.text import plain
from nri.ttrpc import Code, Endpoint, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adaptation.peers.event_request import EventRequest
    from nri.adaptation.peers.peer import Exchange
    from nri.api import messages as m
    from nri.api.events import EventSpec
    from nri.interfaces import Socket
    from nri.ttrpc import Interceptor


class RemoteOwner(Owner, Protocol):
    """The methods of the owner of peers that a remote peer needs."""

    def register(self, peer: RemotePeer, payload: bytes) -> None:
        """Check RegisterPlugin and set the identity. Raises RpcError to refuse the plugin."""

    def update_containers(self, peer: RemotePeer, request: Request) -> object:
        """Accept UpdateContainers, which is answered later."""

    def deprecated(self, peer: RemotePeer, spec: EventSpec) -> None:
        """Report that the plugin knows only StateChange. Called once for each of its events."""


class RemotePeer(Peer):
    """A plugin that is connected over a socket.

    Attributes:
        endpoint: the connection.
        relay_only: the plugin answered Unimplemented once; its relayed events have used StateChange since.
    """

    takes_bytes = True

    __slots__ = ("_remote_owner", "_warned", "endpoint", "relay_only")

    def __init__(
        self,
        owner: RemoteOwner,
        sock: Socket,
        kind: str,
        *,
        index: str = "",
        name: str = "",
        pid: int = 0,
        uid: int | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        super().__init__(owner, kind, index, name, pid)
        self._remote_owner = owner
        self.uid = uid
        self.relay_only = False
        self._warned = 0
        plugin, runtime = naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN
        self.endpoint = Endpoint(
            Trunk(sock, (plugin, runtime)),
            client_id=plugin,
            server_id=runtime,
            on_request=self._serve,
            interceptors=interceptors,
            on_close=self._closed,
        )

    def _serve(self, request: Request) -> bytes | object:
        """Answer a request of the plugin. Runs in the thread that reads, so it must not wait."""
        if request.service != naming.RUNTIME_SERVICE:
            raise RpcError(Code.UNIMPLEMENTED, f"service {plain(request.service)}")
        if request.method == "RegisterPlugin":
            self._remote_owner.register(self, request.payload)
            return b""
        if request.method == "UpdateContainers":
            return self._remote_owner.update_containers(self, request)
        raise RpcError(Code.UNIMPLEMENTED, f"method {plain(request.method)}")

    def _closed(self, reason: str) -> None:
        self.signal(Signal.LOST, reason)

    def invoke(self, request: EventRequest, deadline: float) -> bytes:
        """Ask by the event's own method, or by StateChange if the plugin knows only this method."""
        spec = request.spec
        if not (self.relay_only and spec.relayed):
            try:
                encoded = request.encoded()
                self.answer, reply = self.endpoint.call_in_order(naming.PLUGIN_SERVICE, spec.rpc, encoded, deadline)
                return reply
            except RpcError as error:
                if error.code != Code.UNIMPLEMENTED or not spec.relayed:
                    _make_plain(error)
                    raise
        return self._ask_by_state_change(request, deadline)

    def _ask_by_state_change(self, request: EventRequest, deadline: float) -> bytes:
        """Ask the plugin by StateChange instead of the event's own method."""
        spec = request.spec
        self.relay_only = True
        if not self._warned & spec.bit:
            self._warned |= spec.bit
            self._remote_owner.deprecated(self, spec)
        return self.command("StateChange", request.state_change(), deadline)

    def begin(self, request: EventRequest, deadline: float) -> Exchange | None:
        """Send the event by its own method if that needs no waiting."""
        spec = request.spec
        if self.relay_only and spec.relayed:
            return None
        return self.endpoint.begin(naming.PLUGIN_SERVICE, spec.rpc, request.encoded(), deadline)

    def collect(self, request: EventRequest, exchange: Exchange, deadline: float) -> bytes:
        """Wait for the reply. A plugin that does not know the event's method is asked by StateChange."""
        try:
            self.answer, reply = self.endpoint.collect_in_order(exchange)
            return reply
        except RpcError as error:
            if error.code != Code.UNIMPLEMENTED or not request.spec.relayed:
                _make_plain(error)
                raise
        return self._ask_by_state_change(request, deadline)

    def abandon(self, exchange: Exchange) -> None:
        """Stop waiting, so that other threads may read the connection."""
        self.endpoint.abandon(exchange)

    def command(self, method: str, payload: bytes, deadline: float) -> bytes:
        """Call a method that is not an event."""
        return self._command(method, payload, deadline)[1]

    def _command(
        self, method: str, payload: bytes, deadline: float, meanwhile: Callable[[], None] | None = None
    ) -> tuple[int, bytes]:
        try:
            return self.endpoint.call_in_order(naming.PLUGIN_SERVICE, method, payload, deadline, meanwhile=meanwhile)
        except RpcError as error:
            _make_plain(error)
            raise

    def synchronize(
        self,
        pods: Sequence[m.PodSandbox],
        containers: Sequence[m.Container],
        timeout_s: float,
        *,
        timeout_per_part: bool,
        max_entries: int,
    ) -> list[m.ContainerUpdate]:
        """Send the state, in parts if it is large."""
        return hand_over(
            self._synchronize, pods, containers, timeout_s, timeout_per_part=timeout_per_part, max_entries=max_entries
        )

    def _synchronize(self, payload: bytes, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        self.answer, reply = self._command("Synchronize", payload, deadline, meanwhile)
        return reply

    def close(self, reason: str) -> None:
        """End the connection."""
        self.endpoint.close(reason)

    def release(self, deadline: float) -> None:
        """Close the descriptor unless a thread uses it until the deadline."""
        self.endpoint.release(deadline)


def _make_plain(error: RpcError) -> None:
    """Convert the plugin's text to a short printable line, before it is logged, stored or passed on."""
    error.message = plain(error.message)
    error.args = (error.code, error.message)
