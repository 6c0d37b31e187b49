"""All plugins that are connected or were: who may register, and what follows from the signals of their state machine.

The owner of every peer. The name that a plugin gives itself is checked here, and whether the plugin that has that name
still lives; refusals are the answers to RegisterPlugin, with the reference's texts where it has one. The supervisor of
a launched plugin listens here and decides how to go on when the plugin ends. Next:
`nri.adaptation.registration.listener` for external plugins, `nri.adaptation.launch.supervisor` for launched ones.
"""

from __future__ import annotations

import logging
import os
import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.peers.peer import LAUNCHED
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Action, Signal, State
from nri.api import messages as m
from nri.api import naming
from nri.errors import RpcError
from nri.text import plain
from nri.ttrpc import Code, Monitor, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.registration.chain import Chain
    from nri.adaptation.registration.handshake import Handshake
    from nri.adaptation.registration.update_queue import UpdateQueue
    from nri.api.events import EventSpec
    from nri.rules import Rules

__all__ = ["Registry", "check_identity", "is_alive"]

log = logging.getLogger("nri.adaptation")

#: Longest name: a plugin is `NN-name` in a folder as well, and files have 255 characters. Names are kept and logged.
NAME_LENGTH = 252
#: How much is kept of the version that a plugin says it speaks.
VERSION_LENGTH = 64
#: How long the end waits for threads that are still inside a connection, in seconds.
RELEASE_S = 2.0
#: How long another thread may take to read what a plugin has left, in seconds, before it counts as alive.
_READ_S = 0.1
#: Plugins that are remembered by name; beyond that, who went longest ago is forgotten.
REMEMBERED = 256

_REFUSED = "%s: registration refused: %s"
_GONE = "plugin %s is gone: %s"
#: The states of a plugin that reporters hear of.
_CHANGES = {
    Action.REPORT_READY: "active",
    Action.REPORT_LATE: "late",
    Action.REPORT_OPEN: "open",
    Action.REPORT_BACK: "active",
    Action.REPORT_GONE: "gone",
}
_TOO_EARLY = "updates are only taken from plugins that are registered and configured"


class Registry:
    """Keeps the peers. Thread-safe."""

    def __init__(
        self, rules: Rules, chain: Chain, handshake: Handshake, update_queue: UpdateQueue, reporting: Reporting
    ) -> None:
        self._rules = rules
        self._reporting = reporting
        self._chain = chain
        self._handshake = handshake
        self.update_queue = update_queue
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._connected: dict[RemotePeer, Registry | None] = {}
        self._closed: list[RemotePeer] = []
        self._stopped = False
        self._by_label: dict[str, Peer] = {}
        self.monitor = Monitor("nri-monitor")
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called, without locks held, whenever a plugin joined or left."""
        self._listeners.append(listener)

    # -- connections --------------------------------------------------------------------------------------------------

    def connect(self, peer: RemotePeer) -> None:
        """Take a new connection and watch it from now on. One that cannot be watched is closed."""
        with self._lock:
            self._connected[peer] = None
        try:
            self.monitor.add(peer.endpoint)
        except (OSError, ValueError) as error:
            log.warning("%s: the connection cannot be watched: %s", peer.qualified, error)
            peer.signal(Signal.FATAL, f"its connection cannot be watched: {error}")
        if self._stopped:
            peer.signal(Signal.STOP, "the runtime stops")

    def adopt(self, peer: Peer) -> None:
        """Take a plugin without a connection of its own: it counts as registered."""
        self._claim(peer, peer.index, peer.name)

    def admit(self, peer: Peer) -> None:
        """Take a plugin without a connection, and take it through the handshake in a thread of its own.

        One whose name another plugin has is refused, as RegisterPlugin would be: it is gone then.
        """
        try:
            self.adopt(peer)
        except RpcError as error:
            self._reporting.refused("registration refused", _REFUSED, peer.qualified, plain(error.message))
            peer.signal(Signal.FATAL, error.message)
            return
        if self._stopped:
            peer.signal(Signal.STOP, "the runtime stops")
        else:
            self._configure(peer)

    def unsettled(self) -> list[RemotePeer]:
        """Connections that do not take part yet, oldest first."""
        with self._lock:
            return [peer for peer in self._connected if not peer.handshake_over.is_set()]

    def peers(self) -> list[Peer]:
        """All plugins by name, and those that have not given one."""
        with self._lock:
            named = set(map(id, self._by_label.values()))
            return [*self._by_label.values(), *(peer for peer in self._connected if id(peer) not in named)]

    def find(self, label: str) -> Peer | None:
        """The plugin of this ``NN-name``, connected or gone."""
        return self._by_label.get(label)

    # -- registration -------------------------------------------------------------------------------------------------

    def register(self, peer: RemotePeer, payload: bytes) -> None:
        """Answer RegisterPlugin."""
        try:
            self._register(peer, payload)
        except RpcError as error:
            self._reporting.refused("registration refused", _REFUSED, peer.qualified, plain(error.message))
            raise

    def _register(self, peer: RemotePeer, payload: bytes) -> None:
        try:
            request = m.RegisterPluginRequest.FromString(payload)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise RpcError(Code.INTERNAL, f"ttrpc: error unmarshalling payload: {error}") from None
        if Action.REFUSE_REPEAT in peer.would(Signal.REGISTER) and self._rules.registers_once:
            raise RpcError(Code.ALREADY_EXISTS, f"plugin {peer.label} is registered on this connection already")
        index, name = peer.index, peer.name
        if peer.kind != LAUNCHED:
            check_identity(request)
            index, name = request.plugin_idx, request.plugin_name
        refusal = self._handshake.refusal(peer, index, name)
        if refusal:
            peer.last_error = refusal
            raise RpcError(Code.PERMISSION_DENIED, refusal)
        self._claim(peer, index, name)
        peer.version = plain(request.NRI_version, VERSION_LENGTH)
        peer.signal(Signal.REGISTER)

    def _claim(self, peer: Peer, index: str, name: str) -> None:
        """Give a plugin its name, if need be from one that is gone. RpcError: the one that bears it lives."""
        label = naming.full_name(index, name)
        while True:
            holder = self._by_label.get(label)
            if holder is not None and holder is not peer and self._rules.duplicates_refused:
                _take_from(holder, label)
            with self._lock:
                if self._by_label.get(label) is holder:  # else another one has taken it just now
                    peer.identify(index, name)
                    self._by_label.pop(label, None)
                    self._by_label[label] = peer
                    self._forget_one()
                    return

    def _forget_one(self) -> None:
        if len(self._by_label) > REMEMBERED:
            gone = [label for label, known in self._by_label.items() if known.state is State.GONE]
            for label in gone[:1]:
                del self._by_label[label]

    # -- what follows from signals ------------------------------------------------------------------------------------

    def act(self, peer: Peer, action: Action) -> None:
        """Carry out what the state machine asks for."""
        if action is Action.CONFIGURE:
            self._configure(peer)
        elif action is Action.LEAVE:
            self._chain.leave()
        elif action is Action.CLOSE:
            self._forget(peer)
        elif action is Action.REPORT_READY:
            self._reporting.lines.line("plugins that join", logging.INFO, "plugin %s is active", peer.qualified)
        elif action is Action.REPORT_LATE:
            log.warning("plugin %s is late: %s", peer.qualified, peer.last_error)
        elif action is Action.REPORT_OPEN:
            log.error("plugin %s is left out for %g s: %s", peer.qualified, peer.breaker.retry_s, peer.last_error)
        elif action is Action.REPORT_BACK:
            log.info("plugin %s answers again", peer.qualified)
        elif action is Action.REPORT_GONE:
            self._reporting.lines.line("plugins that leave", logging.WARNING, _GONE, peer.qualified, peer.last_error)
        if self._reporting.recorded and action in _CHANGES:
            self._reporting.plugin_changed(peer.label, _CHANGES[action], _about(peer))
        if action in (Action.CLOSE, Action.REPORT_READY, Action.REPORT_OPEN, Action.REPORT_BACK):
            self.tell_listeners()
            with self._lock:
                self._changed.notify_all()

    def tell_listeners(self) -> None:
        """Tell all listeners that the plugins, or what the policy says of them, may have changed."""
        for listener in self._listeners:
            try:
                listener()
            except Exception:  # a listener's fault must not end the thread that watches all connections
                log.exception("a listener for joining and leaving plugins failed")

    def _configure(self, peer: Peer) -> None:
        """Take a plugin through the handshake, in a thread of its own."""
        name = f"nri-join-{peer.label}"
        try:
            threading.Thread(target=self._handshake.admit, args=(peer,), name=name, daemon=True).start()
        except RuntimeError:
            peer.signal(Signal.FATAL, "the runtime has no thread left to configure it")

    def _forget(self, peer: Peer) -> None:
        if not isinstance(peer, RemotePeer):
            return
        self.monitor.remove(peer.endpoint)
        with self._lock:
            if self._connected.pop(peer, self) is self:
                return
            self._closed.append(peer)
        self.reap()

    def reap(self) -> int:
        """Give back the descriptors of closed connections that no thread uses any more. Returns how many are left."""
        with self._lock:
            closed, self._closed = self._closed, []
        busy = []
        for peer in closed:
            peer.release(0.0)
            if peer.endpoint.fileno() >= 0:
                busy.append(peer)  # the thread that reports the end is often inside the connection
        with self._lock:
            self._closed += busy
            return len(self._closed)

    def update_containers(self, peer: RemotePeer, request: Request) -> object:
        """Answer UpdateContainers."""
        if Action.APPLY_UPDATE not in peer.would(Signal.UPDATE) and self._rules.updates_need_registration:
            raise RpcError(Code.FAILED_PRECONDITION, _TOO_EARLY)
        return self.update_queue.take(peer, request)

    def deprecated(self, peer: RemotePeer, spec: EventSpec) -> None:
        """Tell what an old plugin should do; called once for each of its events."""
        log.warning("plugin %s knows only StateChange, which is deprecated: %s", peer.qualified, spec.rpc)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait until a condition on the plugins holds; False if it does not by the deadline."""
        with self._lock:
            while not condition():
                left_s = deadline - monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
            return True

    def settled(self, labels: Iterable[str], deadline: float) -> bool:
        """Wait until what plugins answered to Synchronize is applied; False if it is not by the deadline."""
        found = [peer for label in labels if (peer := self.find(label)) is not None]
        return all(peer.settled.wait(max(deadline - monotonic(), 0.0)) for peer in found)

    def shut_down(self, peers: Iterable[Peer], timeout_s: float) -> None:
        """Tell plugins that the runtime stops, all at once; those that do not answer in time are not waited for."""
        deadline = monotonic() + timeout_s

        def tell(peer: Peer) -> None:
            try:
                peer.command("Shutdown", b"", deadline)
            except Exception as error:  # noqa: BLE001 - it is leaving anyway
                log.debug("plugin %s did not take Shutdown: %s", peer.qualified, error)

        threads: list[threading.Thread] = []
        for peer in peers:
            thread = threading.Thread(target=tell, args=(peer,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                break  # no threads are left: the end of their connections tells the others
            threads.append(thread)
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()) + 0.1)

    def stop(self) -> None:
        """End all connections, and what plugins have asked for by themselves."""
        self._stopped = True
        self.update_queue.stop()
        for peer in self.peers():
            peer.signal(Signal.STOP, "the runtime stops")
        self.monitor.stop()
        deadline = monotonic() + RELEASE_S
        with self._lock:
            closed, self._closed = self._closed, []
        for each in closed:
            each.release(deadline)


def _about(peer: Peer) -> dict[str, str]:
    """A plugin's properties for reporters, those that are known."""
    about = {
        "kind": peer.kind,
        "pid": str(peer.pid or ""),
        "version": peer.version,
        "events": str(peer.mask),
        "config": peer.config,
        "reason": peer.last_error,
    }
    return {key: text for key, text in about.items() if text}


def check_identity(request: m.RegisterPluginRequest) -> None:
    """Raise RpcError if this cannot be a plugin's name or index."""
    length = len(request.plugin_name)
    try:
        if length > NAME_LENGTH:
            raise ValueError(f"{length} characters, at most {NAME_LENGTH}")
        naming.check_name(request.plugin_name)
    except ValueError as error:
        raise RpcError(Code.UNKNOWN, f"invalid plugin name: {plain(str(error))}") from None
    try:
        naming.check_index(request.plugin_idx)
    except ValueError as error:
        raise RpcError(Code.UNKNOWN, f"invalid plugin index: {plain(str(error))}") from None


def is_alive(peer: Peer) -> bool:
    """Whether a plugin's process lives and its connection is open."""
    if isinstance(peer, RemotePeer):
        if not peer.endpoint.poll(_READ_S):  # takes note of a hang-up that no thread has read yet
            return False
        if peer.pid:
            try:
                os.kill(peer.pid, 0)
            except ProcessLookupError:
                return False
            except OSError:
                pass  # it lives, and is another user's
    return peer.state is not State.GONE


def _take_from(holder: Peer, label: str) -> None:
    """Take a name from a plugin that is gone. RpcError: it lives, and keeps its name."""
    if is_alive(holder):
        process = f" (process {holder.pid})" if holder.pid else ""
        raise RpcError(Code.ALREADY_EXISTS, f"plugin {label} is connected already{process}")
    holder.signal(Signal.STOP, "replaced by a new connection")
