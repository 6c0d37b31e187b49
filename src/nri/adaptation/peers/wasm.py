"""A plugin in WebAssembly, loaded into this process: its functions under a `Peer`.

Requests and replies are the same bytes as on a socket, without registration or parts: the whole state is one message. A
function runs in the thread of the event, and no longer than the plugin's timeout. An interrupted function leaves its
memory in an undefined state. An interruption therefore ends the plugin, as a trap does, and its supervisor loads it
again. A caller with less time waits for the function nevertheless.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from nri.adaptation.peers.peer import WASM, Owner, Peer
from nri.adaptation.peers.state import Signal, State
from nri.adaptation.peers.synchronize import read_reply
from nri.api import messages as m
from nri.api.events import EVENTS, EventMask
from nri.errors import DeadlineExceeded, NriError, RemoteProtocolError, RpcError
from nri.ttrpc.waiters import ARRIVALS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nri.adaptation.peers.event_request import EventRequest


class Functions(Protocol):
    """The functions of a loaded plugin."""

    @property
    def names(self) -> Collection[str]:
        """The exported names."""

    def call(self, function: str, payload: bytes, deadline: float) -> bytes:
        """Run a function on a request. Raises DeadlineExceeded, ConnectionClosed, ProtocolError, RpcError."""

    def end(self, reason: str) -> None:
        """End the running function and refuse further calls."""


def function_name(method: str) -> str:
    """The exported function of a method: ``plugin_create_container`` for ``CreateContainer``."""
    return "plugin_" + "".join(f"_{char.lower()}" if char.isupper() else char for char in method).lstrip("_")


_EVENTS = {spec: function_name(spec.rpc) for spec in EVENTS}


class WasmPeer(Peer):
    """A WebAssembly plugin as a member of the chain."""

    takes_bytes = True

    __slots__ = ("_functions",)

    def __init__(self, owner: Owner, index: str, name: str, functions: Functions, config: str, uid: int) -> None:
        super().__init__(owner, WASM, index, name, state=State.REGISTERED)
        self._functions = functions
        self.config, self.uid = config, uid

    def invoke(self, request: EventRequest, deadline: float) -> bytes:
        """Run the function of an event, for at most the plugin's own timeout."""
        spec = request.spec
        now = monotonic()
        if now >= deadline:
            raise DeadlineExceeded(spec.rpc)
        policy = self.event_policies[spec.number]
        timeout_s = 0.0 if policy is None else policy.timeout_s
        return self._call(_EVENTS[spec], request.encoded(), max(deadline, now + timeout_s))

    def command(self, method: str, payload: bytes, deadline: float) -> bytes:
        """Call Configure, Synchronize or Shutdown; a missing function does nothing."""
        function = function_name(method)
        if function not in self._functions.names:
            return b""
        reply = self._call(function, payload, deadline)
        return self._subscription(reply) if method == "Configure" else reply

    def _call(self, function: str, payload: bytes, deadline: float) -> bytes:
        try:
            reply = self._functions.call(function, payload, deadline)
            self.answer = next(ARRIVALS)
            return reply
        except RpcError:
            raise
        except NriError as error:
            self.signal(Signal.FATAL, str(error))  # the memory of an unfinished function is undefined
            raise

    def _subscription(self, encoded: bytes) -> bytes:
        """The reply to Configure. The mask 0 ("all events") becomes the events that the plugin has functions for."""
        try:
            reply = m.ConfigureResponse.FromString(encoded)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise RemoteProtocolError(f"its reply is invalid: {error}") from None
        missing = [spec for spec, function in _EVENTS.items() if function not in self._functions.names]
        if missing and not reply.events:
            reply.events = EventMask.ALL - EventMask.of(*missing)
        for spec in missing:
            if reply.events & spec.bit:
                raise RemoteProtocolError(f"it subscribes to {spec.rpc}, but does not export {_EVENTS[spec]}")
        serialized: bytes = reply.SerializeToString()
        return serialized

    def synchronize(
        self,
        pods: Sequence[m.PodSandbox],
        containers: Sequence[m.Container],
        timeout_s: float,
        *,
        timeout_per_part: bool,  # noqa: ARG002 - there are no parts
        max_entries: int,
    ) -> list[m.ContainerUpdate]:
        """Hand over the state as one message."""
        request = m.SynchronizeRequest(pods=pods, containers=containers).SerializeToString()
        return list(read_reply(self.command("Synchronize", request, monotonic() + timeout_s), max_entries).update)

    def close(self, reason: str) -> None:
        """Refuse further calls, and interrupt the running function."""
        self._functions.end(reason)
