"""One plugin as the runtime sees it: `Peer`, the base of all kinds of plugins.

A peer has the plugin's identity, the lock that passes events one at a time, and the state. `signal` looks up the
transition in `nri.adaptation.peers.state` and carries out its actions. The `Owner` carries out actions that concern
more than the peer.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from nri.adaptation.peers.breaker import Breaker
from nri.adaptation.peers.state import Action, Signal, State, step
from nri.adaptation.peers.turns import FifoLock
from nri.api.events import EventMask
from nri.text import LINE_LENGTH, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.peers.event_request import EventRequest
    from nri.api import messages as m
    from nri.plugin_policy.event_policy import EventPolicy
    from nri.ttrpc.waiters import Sent

    #: A request that was sent, as the connection knows it.
    Exchange = Sent

#: The kinds of plugins, by their names in logs.
BUILTIN, EXTERNAL, LAUNCHED = "builtin", "external", "pre-connected"
WASM = "pre-connected-wasm"

_HANDSHAKE_ENDED = frozenset((State.ACTIVE, State.GONE))
_sequence = itertools.count(1)


class Owner(Protocol):
    """The methods of the owner of peers that a peer needs."""

    def act(self, peer: Peer, action: Action) -> None:
        """Carry out an action that concerns more than the peer."""


class Peer(ABC):
    """A plugin.

    Attributes:
        index, name: the identity; `label` is ``NN-name``.
        kind: BUILTIN, EXTERNAL, LAUNCHED or WASM.
        pid: the process id, 0 if there is no process or its id is not known.
        uid: the user id of its process, None if not known.
        config: the configuration that the plugin gets with Configure.
        order: the number of its registration; plugins with the same index are called in this order.
        lock: passes events one at a time, in order of arrival.
        state: the state; only `signal` changes it.
        mask: the subscription, without the events that the operator does not allow.
        event_policies: the operator's policy by number of the event; None: the plugin does not get the event.
        declared: the failure policy that the plugin declared, or None.
        version: the NRI version that the plugin declares, or "".
        cut_off: whether the runtime ended the connection because of the plugin's behaviour.
        turn_s: how long an event waits for its turn at this plugin, in seconds; 0 for no limit.
        latency_s: the duration of the last answer, in seconds.
        answer: the number of the last answer, among all messages that were read from plugins
            (`nri.ttrpc.waiters.ARRIVALS`): of two answers of a plugin, the answer with the greater number is the later
            one. Read it under the lock.
    """

    #: Whether the plugin gets bytes, so that encoding a request early saves time.
    takes_bytes = False

    __slots__ = (
        "_guard",
        "_last_error",
        "_owner",
        "answer",
        "breaker",
        "config",
        "cut_off",
        "declared",
        "event_policies",
        "handshake_over",
        "index",
        "kind",
        "label",
        "latency_s",
        "lock",
        "mask",
        "name",
        "order",
        "pid",
        "settled",
        "since",
        "state",
        "turn_s",
        "uid",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        owner: Owner,
        kind: str,
        index: str = "",
        name: str = "",
        pid: int = 0,
        state: State = State.CONNECTED,
    ) -> None:
        self._owner = owner
        self._guard = threading.Lock()
        self.kind, self.pid = kind, pid
        self.uid: int | None = None
        self.config = ""
        self.index, self.name, self.label = index, name, f"{index}-{name}"
        self.order = next(_sequence)
        self.lock = FifoLock()
        self.state = state
        self.mask = EventMask(0)
        self.event_policies: Sequence[EventPolicy | None] = ()
        self.declared: m.FailurePolicy | None = None
        self.breaker = Breaker()
        self.version = ""
        self._last_error = ""
        self.cut_off = False
        self.turn_s = 0.0
        self.latency_s = 0.0
        self.answer = 0
        #: Set as soon as the plugin is active or gone.
        self.handshake_over = threading.Event()
        #: Set as soon as the updates in its answer to Synchronize are applied, or the plugin is gone.
        self.settled = threading.Event()
        #: When the plugin connected, in monotonic seconds.
        self.since = monotonic()

    @property
    def last_error(self) -> str:
        """The latest error as text, or "". It is stored longer than the plugin lives, so long texts are cut."""
        return self._last_error

    @last_error.setter
    def last_error(self, text: str) -> None:
        self._last_error = plain(text, 4 * LINE_LENGTH)

    @property
    def qualified(self) -> str:
        """The name for logs: ``external:10-foo[4711]``."""
        process = f"[{self.pid}]" if self.pid else ""
        return f"{self.kind}:{self.index or '??'}-{self.name or 'plugin'}{process}"

    def identify(self, index: str, name: str) -> None:
        """Set the registered identity."""
        self.index, self.name, self.label = index, name, f"{index}-{name}"
        self.order = next(_sequence)

    def actions_after(self, signal: Signal) -> tuple[Action, ...]:
        """Return the actions that a signal would cause in the current state."""
        return step(self.state, signal)[1]

    def signal(self, signal: Signal, why: str = "") -> tuple[Action, ...]:
        """Process a signal: enter the next state and carry out the actions, which are returned."""
        with self._guard:
            self.state, actions = step(self.state, signal)
            if why and actions:
                self.last_error = why
            if actions and signal is Signal.FATAL:
                self.cut_off = True
        if actions and self.state in _HANDSHAKE_ENDED:
            self.handshake_over.set()  # set before anything is reported, because listeners read it
        for action in actions:
            if action is Action.CLOSE:
                self.close(why or signal.value)
            self._owner.act(self, action)
        return actions

    @abstractmethod
    def invoke(self, request: EventRequest, deadline: float) -> bytes:
        """Ask the plugin, and wait for the reply's bytes. Raises RpcError, DeadlineExceeded, ConnectionClosed."""

    def begin(self, request: EventRequest, deadline: float) -> Exchange | None:  # noqa: ARG002 - only some kinds use it
        """Send the request without waiting. None: nothing was sent. Pass the result to `collect` or `abandon`."""
        return None

    def collect(self, request: EventRequest, exchange: Exchange, deadline: float) -> bytes:  # noqa: ARG002 - as `begin`
        """Wait for the bytes of the reply to the request that `begin` sent. Raises the errors of `invoke`."""
        return self.invoke(request, deadline)

    def abandon(self, exchange: Exchange) -> None:  # noqa: B027 - only for kinds that override `begin`
        """Drop the reply to the request that `begin` sent."""

    @abstractmethod
    def command(self, method: str, payload: bytes, deadline: float) -> bytes:
        """Call a method of the plugin that is not an event: Configure, Synchronize, Shutdown."""

    @abstractmethod
    def synchronize(
        self,
        pods: Sequence[m.PodSandbox],
        containers: Sequence[m.Container],
        timeout_s: float,
        *,
        timeout_per_part: bool,
        max_entries: int,
    ) -> list[m.ContainerUpdate]:
        """Hand over the runtime's state, as `nri.adaptation.peers.synchronize` does. Returns the requested updates."""

    def close(self, reason: str) -> None:  # noqa: B027 - not all kinds have a connection
        """End the connection if there is one."""

    def release(self, deadline: float) -> None:  # noqa: B027 - as `close`
        """Free the resources of the connection. Only after `close`."""
