"""One plugin as the runtime sees it: who it is, where it stands, how to ask it something.

`Peer` has what all kinds share: identity, the lock that makes events pass one at a time, the state. `RemotePeer` puts a
connection beneath it. The state machine is `nri.adaptation.peers.state`; this is its shell: `signal` looks up what follows
and carries it out, through the functions of the `Owner` for everything that is not the peer's own. Built-in plugins are
`nri.adaptation.peers.builtin`. Next: `nri.adaptation.registration.chain`.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from nri.adaptation.peers.breaker import Breaker
from nri.adaptation.peers.fifo_lock import FifoLock
from nri.adaptation.peers.state import Action, Signal, State, step
from nri.adaptation.peers.synchronize import exchange
from nri.api import naming
from nri.api.events import EventMask
from nri.errors import RpcError
from nri.mux import Trunk
from nri.ttrpc import Code, Endpoint, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.peers.event_request import Question
    from nri.adaptation.plugin_policy.event_policy import Plan
    from nri.api import messages as m
    from nri.api.events import EventSpec
    from nri.interfaces import Socket
    from nri.ttrpc import Interceptor
    from nri.ttrpc.collecting import Sent

__all__ = ["BUILTIN", "EXTERNAL", "LAUNCHED", "Owner", "Peer", "RemotePeer"]

#: The kinds of plugins, as they are called in logs.
BUILTIN, EXTERNAL, LAUNCHED = "builtin", "external", "pre-connected"

_SETTLED = frozenset((State.ACTIVE, State.GONE))
_sequence = itertools.count(1)


class Owner(Protocol):
    """What a peer needs of those who own it."""

    def act(self, peer: Peer, action: Action) -> None:
        """Carry out an action that is not the peer's own."""

    def register(self, peer: RemotePeer, payload: bytes) -> None:
        """Check RegisterPlugin and take over the identity; RpcError refuses it."""

    def unsolicited(self, peer: RemotePeer, request: Request) -> object:
        """Take UpdateContainers; answers later."""

    def deprecated(self, peer: RemotePeer, spec: EventSpec) -> None:
        """The plugin knows StateChange only; told once for each of its events."""


class Peer(ABC):
    """One plugin.

    Attributes:
        index, name: identity; `label` is ``NN-name``.
        kind: one of BUILTIN, EXTERNAL, LAUNCHED.
        pid: process id, 0 if there is none or it is not known.
        order: counts registrations; equal indices are called in this order.
        lock: passes events one at a time, in order of arrival.
        state: where it stands; changed by `signal` alone.
        mask: events that it subscribed to, less those that the operator does not allow.
        plans: per event number what to do, None if it is not called for it.
        declared: the failure policy that it declared, or None.
        version: the NRI version that it says it speaks, or "".
        last_error: the last thing that went wrong, as text, or "".
        cut_off: whether this side ended the connection, because of something that the plugin did or failed to do.
        latency_s: how long its last answer took, in seconds.
    """

    #: Whether it is asked in bytes, so that encoding a request early is worth it.
    takes_bytes = False

    __slots__ = (
        "_guard", "_owner", "breaker", "cut_off", "declared", "index", "kind", "label", "last_error", "latency_s",
        "lock", "mask", "name", "order", "pid", "plans", "settled", "since", "state", "version",
    )  # fmt: skip

    def __init__(self, owner: Owner, kind: str, index: str = "", name: str = "", pid: int = 0) -> None:
        self._owner = owner
        self._guard = threading.Lock()
        self.kind, self.pid = kind, pid
        self.index, self.name, self.label = index, name, f"{index}-{name}"
        self.order = next(_sequence)
        self.lock = FifoLock()
        self.state = State.CONNECTED
        self.mask = EventMask(0)
        self.plans: Sequence[Plan | None] = ()
        self.declared: m.FailurePolicy | None = None
        self.breaker = Breaker()
        self.version = ""
        self.last_error = ""
        self.cut_off = False
        self.latency_s = 0.0
        #: Set as soon as it is known whether it takes part: it is active, or gone.
        self.settled = threading.Event()
        #: When it connected, in monotonic seconds.
        self.since = monotonic()

    @property
    def qualified(self) -> str:
        """For logs: ``external:10-foo[4711]``."""
        process = f"[{self.pid}]" if self.pid else ""
        return f"{self.kind}:{self.index or '??'}-{self.name or 'plugin'}{process}"

    def identify(self, index: str, name: str) -> None:
        """Take over the identity that was registered."""
        self.index, self.name, self.label = index, name, f"{index}-{name}"
        self.order = next(_sequence)

    def signal(self, signal: Signal, why: str = "") -> tuple[Action, ...]:
        """Something happened: go to the next state and carry out what follows. Returns the actions."""
        with self._guard:
            self.state, actions = step(self.state, signal)
            if why and actions:
                self.last_error = why
            if actions and signal is Signal.FATAL:
                self.cut_off = True
        for action in actions:
            if action is Action.CLOSE:
                self.close(why or signal.value)
            self._owner.act(self, action)
        if actions and self.state in _SETTLED:
            self.settled.set()
        return actions

    @abstractmethod
    def invoke(self, question: Question, deadline: float) -> bytes:
        """Ask, and wait for the reply's bytes. RpcError, DeadlineExceeded, ConnectionClosed."""

    def begin(self, question: Question, deadline: float) -> Sent | None:  # noqa: ARG002 - for those who can
        """Ask without waiting; what is returned goes to `collect` or `abandon`. None: not possible, nothing is sent."""
        return None

    def collect(self, question: Question, sent: Sent, deadline: float) -> bytes:  # noqa: ARG002 - as `begin`
        """Wait for the reply's bytes to what `begin` has sent. Raises what `invoke` raises."""
        return self.invoke(question, deadline)

    def abandon(self, sent: Sent) -> None:  # noqa: B027 - only where `begin` does something
        """Nobody will wait for the reply to what `begin` has sent."""

    @abstractmethod
    def command(self, method: str, payload: bytes, deadline: float) -> bytes:
        """Call a method of the plugin that is not an event: Configure, Synchronize, Shutdown."""

    @abstractmethod
    def synchronize(
        self, pods: Sequence[m.PodSandbox], containers: Sequence[m.Container], timeout_s: float, *, each: bool
    ) -> list[m.ContainerUpdate]:
        """Hand over the runtime's state; returns the updates that the plugin asks for. See `synchronize.exchange`."""

    def close(self, reason: str) -> None:  # noqa: B027 - not all have one
        """End the connection, if there is one."""

    def release(self, deadline: float) -> None:  # noqa: B027 - as `close`
        """Give back what the connection holds. Only after `close`."""


class RemotePeer(Peer):
    """A plugin at the other end of a socket.

    Attributes:
        endpoint: the connection.
        uid: user id of the process, None if not known.
        config: what it is given with Configure, as text.
        relay_only: it answered Unimplemented once; its relayed events go by StateChange since.
    """

    takes_bytes = True

    __slots__ = ("_warned", "config", "endpoint", "relay_only", "uid")

    def __init__(
        self,
        owner: Owner,
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
        self.uid = uid
        self.config = ""
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
        """Answer a request of the plugin; runs in whichever thread reads, so it must not wait."""
        if request.service != naming.RUNTIME_SERVICE:
            raise RpcError(Code.UNIMPLEMENTED, f"service {request.service}")
        if request.method == "RegisterPlugin":
            self._owner.register(self, request.payload)
            return b""
        if request.method == "UpdateContainers":
            return self._owner.unsolicited(self, request)
        raise RpcError(Code.UNIMPLEMENTED, f"method {request.method}")

    def _closed(self, reason: str) -> None:
        self.signal(Signal.LOST, reason)

    def invoke(self, question: Question, deadline: float) -> bytes:
        """Ask by the event's own method, or by StateChange if the plugin knows nothing else."""
        spec = question.spec
        if not (self.relay_only and spec.relayed):
            meanwhile, question.meanwhile = question.meanwhile, None
            try:
                return self.endpoint.call(
                    naming.PLUGIN_SERVICE, spec.rpc, question.payload, deadline=deadline, meanwhile=meanwhile
                )
            except RpcError as error:
                if error.code != Code.UNIMPLEMENTED or not spec.relayed:
                    raise
        return self._relay(question, deadline)

    def _relay(self, question: Question, deadline: float) -> bytes:
        """Ask by StateChange."""
        spec = question.spec
        self.relay_only = True
        if not self._warned & spec.bit:
            self._warned |= spec.bit
            self._owner.deprecated(self, spec)
        return self.endpoint.call(naming.PLUGIN_SERVICE, "StateChange", question.state_change, deadline=deadline)

    def begin(self, question: Question, deadline: float) -> Sent | None:
        """Send the event by its own method, if that needs no waiting."""
        spec = question.spec
        if self.relay_only and spec.relayed:
            return None
        return self.endpoint.begin(naming.PLUGIN_SERVICE, spec.rpc, question.payload, deadline)

    def collect(self, question: Question, sent: Sent, deadline: float) -> bytes:
        """Wait for the reply; a plugin that does not know the method is asked by StateChange."""
        try:
            return self.endpoint.collect(sent)
        except RpcError as error:
            if error.code != Code.UNIMPLEMENTED or not question.spec.relayed:
                raise
        return self._relay(question, deadline)

    def abandon(self, sent: Sent) -> None:
        """Let go of the connection, which others wait to read."""
        self.endpoint.abandon(sent)

    def command(self, method: str, payload: bytes, deadline: float) -> bytes:
        """Call a method that is not an event."""
        return self.endpoint.call(naming.PLUGIN_SERVICE, method, payload, deadline=deadline)

    def synchronize(
        self, pods: Sequence[m.PodSandbox], containers: Sequence[m.Container], timeout_s: float, *, each: bool
    ) -> list[m.ContainerUpdate]:
        """Send the state, in parts if need be."""
        return exchange(self._synchronize, pods, containers, timeout_s, each=each)

    def _synchronize(self, payload: bytes, deadline: float) -> bytes:
        return self.command("Synchronize", payload, deadline)

    def close(self, reason: str) -> None:
        """End the connection."""
        self.endpoint.close(reason)

    def release(self, deadline: float) -> None:
        """Give back the descriptor, unless a thread is inside until the deadline."""
        self.endpoint.release(deadline)
