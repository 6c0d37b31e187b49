"""All plugins that are or were connected: which may register, and what follows from the signals of their states.

The registry owns every peer. It checks the name that a plugin declares, and whether the current owner of that name is
alive. Refusals are the answers to RegisterPlugin, with the Go library's texts where it has a text. The supervisor of a
launched plugin listens to the registry, and decides what follows when the plugin ends.
"""

from __future__ import annotations

import logging
import os
import threading
from time import monotonic, sleep
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

log = logging.getLogger("nri.adaptation")

#: The longest name: a plugin is also a file `NN-name`, and names of files have at most 255 characters.
MAX_NAME_LENGTH = 252
#: The version that a plugin declares is cut to this many characters.
MAX_VERSION_LENGTH = 64
#: How long `stop` waits for threads that use a connection, in seconds.
RELEASE_S = 2.0
_RELEASE_POLL_S = 0.005
#: How long another thread may take to read a plugin's last data, in seconds; then the plugin counts as alive.
_READ_S = 0.1
#: At most this many plugins are stored by name; then the plugin that left longest ago is dropped.
MAX_REMEMBERED = 256

_REFUSED = "%s: registration refused: %s"
_GONE = "plugin %s is gone: %s"
#: The states of a plugin that are reported.
_REPORTED_STATES = {
    Action.REPORT_READY: "active",
    Action.REPORT_LATE: "late",
    Action.REPORT_OPEN: "open",
    Action.REPORT_BACK: "active",
    Action.REPORT_GONE: "gone",
}
_TOO_EARLY = "updates are only accepted from plugins that are registered and configured"


class Registry:
    """The owner of all peers. Thread-safe."""

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
        self._closed_peers: list[RemotePeer] = []
        self._stopped = False
        self._by_label: dict[str, Peer] = {}
        self.monitor = Monitor("nri-monitor")
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function, without locks held, whenever a plugin has joined or left."""
        self._listeners.append(listener)

    # -- connections --------------------------------------------------------------------------------------------------

    def connect(self, peer: RemotePeer) -> None:
        """Add a new connection and watch it. A connection that cannot be watched is closed."""
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
        """Add a plugin without a connection, as registered."""
        self._claim_name(peer, peer.index, peer.name)

    def admit(self, peer: Peer) -> None:
        """Add a plugin without a connection, and run its handshake in a separate thread.

        If another plugin has the same name, the new plugin is refused and closed, as in RegisterPlugin.
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
        """The connections whose handshake is not finished, the oldest first."""
        with self._lock:
            return [peer for peer in self._connected if not peer.handshake_over.is_set()]

    def peers(self) -> list[Peer]:
        """All plugins by name, and connections without a name."""
        with self._lock:
            named = set(map(id, self._by_label.values()))
            return [*self._by_label.values(), *(peer for peer in self._connected if id(peer) not in named)]

    def find(self, label: str) -> Peer | None:
        """The plugin with this ``NN-name``, connected or gone. Returns None if it is unknown."""
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
        if Action.REFUSE_REPEAT in peer.actions_after(Signal.REGISTER) and self._rules.registers_once:
            raise RpcError(Code.ALREADY_EXISTS, f"plugin {peer.label} is registered on this connection already")
        index, name = peer.index, peer.name
        if peer.kind != LAUNCHED:
            check_identity(request)
            index, name = request.plugin_idx, request.plugin_name
        refusal = self._handshake.refusal(peer, index, name)
        if refusal:
            peer.last_error = refusal
            raise RpcError(Code.PERMISSION_DENIED, refusal)
        self._claim_name(peer, index, name)
        peer.version = plain(request.NRI_version, MAX_VERSION_LENGTH)
        peer.signal(Signal.REGISTER)

    def _claim_name(self, peer: Peer, index: str, name: str) -> None:
        """Give a plugin its name, which a disconnected plugin may have. Raises RpcError if a live plugin has it."""
        label = naming.full_name(index, name)
        while True:
            holder = self._by_label.get(label)
            if holder is not None and holder is not peer and self._rules.duplicates_refused:
                _release_name(holder, label)
            with self._lock:
                if self._by_label.get(label) is holder:  # false if another plugin has just taken the name
                    peer.identify(index, name)
                    self._by_label.pop(label, None)
                    self._by_label[label] = peer
                    self._forget_one()
                    return

    def _forget_one(self) -> None:
        if len(self._by_label) > MAX_REMEMBERED:
            gone_labels = [label for label, peer in self._by_label.items() if peer.state is State.GONE]
            for label in gone_labels[:1]:
                del self._by_label[label]

    # -- actions of signals -------------------------------------------------------------------------------------------

    def act(self, peer: Peer, action: Action) -> None:
        """Carry out an action of the state machine."""
        if action is Action.CONFIGURE:
            self._configure(peer)
        elif action is Action.LEAVE:
            self._chain.leave()
        elif action is Action.CLOSE:
            self._forget_connection(peer)
        elif action is Action.REPORT_READY:
            self._reporting.limited_log.line("plugins that join", logging.INFO, "plugin %s is active", peer.qualified)
        elif action is Action.REPORT_LATE:
            log.warning("plugin %s is late: %s", peer.qualified, peer.last_error)
        elif action is Action.REPORT_OPEN:
            log.error("plugin %s is skipped for %g s: %s", peer.qualified, peer.breaker.retry_s, peer.last_error)
        elif action is Action.REPORT_BACK:
            log.info("plugin %s answers again", peer.qualified)
        elif action is Action.REPORT_GONE:
            self._reporting.limited_log.line(
                "plugins that leave", logging.WARNING, _GONE, peer.qualified, peer.last_error
            )
        if self._reporting.recorded and action in _REPORTED_STATES:
            self._reporting.plugin_changed(peer.label, _REPORTED_STATES[action], _properties(peer))
        if action in (Action.CLOSE, Action.REPORT_READY, Action.REPORT_OPEN, Action.REPORT_BACK):
            self.notify_listeners()
            with self._lock:
                self._changed.notify_all()

    def notify_listeners(self) -> None:
        """Call all listeners, because the plugins or their policies may have changed."""
        for listener in self._listeners:
            try:
                listener()
            except Exception:  # a listener's error must not end the thread that watches all connections
                log.exception("a listener for joining and leaving plugins failed")

    def _configure(self, peer: Peer) -> None:
        """Run a plugin's handshake in a separate thread."""
        name = f"nri-join-{peer.label}"
        try:
            threading.Thread(target=self._handshake.admit, args=(peer,), name=name, daemon=True).start()
        except RuntimeError:
            peer.signal(Signal.FATAL, "the runtime cannot start a thread to configure it")

    def _forget_connection(self, peer: Peer) -> None:
        if not isinstance(peer, RemotePeer):
            return
        self.monitor.remove(peer.endpoint)
        with self._lock:
            if self._connected.pop(peer, self) is self:
                return
            self._closed_peers.append(peer)
        self.reap()

    def reap(self) -> int:
        """Close the descriptors of closed connections that no thread uses.

        Returns the number of remaining descriptors.
        """
        with self._lock:
            closed = list(self._closed_peers)
        for peer in closed:
            peer.release(0.0)
        with self._lock:  # the thread that reports an end often still uses the descriptor
            self._closed_peers = [peer for peer in self._closed_peers if peer.endpoint.fileno() >= 0]
            return len(self._closed_peers)

    def update_containers(self, peer: RemotePeer, request: Request) -> object:
        """Answer UpdateContainers."""
        if Action.APPLY_UPDATE not in peer.actions_after(Signal.UPDATE) and self._rules.updates_need_registration:
            raise RpcError(Code.FAILED_PRECONDITION, _TOO_EARLY)
        return self.update_queue.take(peer, request)

    def deprecated(self, peer: RemotePeer, spec: EventSpec) -> None:
        """Log that a plugin uses a deprecated event. Called once for each event."""
        log.warning("plugin %s knows only StateChange, which is deprecated: %s", peer.qualified, spec.rpc)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait until a condition on the plugins is true. Returns False at the deadline."""
        with self._lock:
            while not condition():
                remaining_s = deadline - monotonic()
                if remaining_s <= 0:
                    return False
                self._changed.wait(remaining_s)
            return True

    def settled(self, labels: Iterable[str], deadline: float) -> bool:
        """Wait until the updates in the plugins' answers to Synchronize are applied. Returns False at the deadline."""
        peers = [peer for label in labels if (peer := self.find(label)) is not None]
        return all(peer.settled.wait(max(deadline - monotonic(), 0.0)) for peer in peers)

    def shut_down(self, peers: Iterable[Peer], timeout_s: float) -> None:
        """Send Shutdown to all plugins at once, and wait for their answers until the timeout."""
        deadline = monotonic() + timeout_s

        def tell(peer: Peer) -> None:
            try:
                peer.command("Shutdown", b"", deadline)
            except Exception as error:  # noqa: BLE001 - the plugin is leaving anyway
                log.debug("plugin %s failed to handle Shutdown: %s", peer.qualified, error)

        threads: list[threading.Thread] = []
        for peer in peers:
            thread = threading.Thread(target=tell, args=(peer,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                break  # no thread could be started: the other plugins notice the end of their connections
            threads.append(thread)
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()) + 0.1)

    def stop(self) -> None:
        """End all connections and the update queue."""
        self._stopped = True
        self.update_queue.stop()
        for peer in self.peers():
            peer.signal(Signal.STOP, "the runtime stops")
        self.monitor.stop()
        deadline = monotonic() + RELEASE_S
        # Another thread may just be reporting the end of a connection, which it then adds to the closed ones.
        while (self.reap() or self._connected) and monotonic() < deadline:
            sleep(_RELEASE_POLL_S)


def _properties(peer: Peer) -> dict[str, str]:
    """A plugin's known properties, for reporters."""
    properties = {
        "kind": peer.kind,
        "pid": str(peer.pid or ""),
        "version": peer.version,
        "events": str(peer.mask),
        "config": peer.config,
        "reason": peer.last_error,
    }
    return {key: text for key, text in properties.items() if text}


def check_identity(request: m.RegisterPluginRequest) -> None:
    """Raise RpcError for an invalid name or index of a plugin."""
    length = len(request.plugin_name)
    try:
        if length > MAX_NAME_LENGTH:
            raise ValueError(f"{length} characters, at most {MAX_NAME_LENGTH}")
        naming.check_name(request.plugin_name)
    except ValueError as error:
        raise RpcError(Code.UNKNOWN, f"invalid plugin name: {plain(str(error))}") from None
    try:
        naming.check_index(request.plugin_idx)
    except ValueError as error:
        raise RpcError(Code.UNKNOWN, f"invalid plugin index: {plain(str(error))}") from None


def is_alive(peer: Peer) -> bool:
    """Whether a plugin's process is alive and its connection is open."""
    if isinstance(peer, RemotePeer):
        if not peer.endpoint.poll(_READ_S):  # notices a hang-up that no thread has read yet
            return False
        if peer.pid:
            try:
                os.kill(peer.pid, 0)
            except ProcessLookupError:
                return False
            except OSError:
                pass  # the process is alive and belongs to another user
    return peer.state is not State.GONE


def _release_name(holder: Peer, label: str) -> None:
    """Take a name from a disconnected plugin. Raises RpcError if the plugin is alive and keeps its name."""
    if is_alive(holder):
        process = f" (process {holder.pid})" if holder.pid else ""
        raise RpcError(Code.ALREADY_EXISTS, f"plugin {label} is connected already{process}")
    holder.signal(Signal.STOP, "replaced by a new connection")
