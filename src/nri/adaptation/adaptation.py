"""NRI for a container runtime: `Adaptation`.

    adaptation = Adaptation("myruntime", "1.0", synchronize=state, update=apply_updates)
    adaptation.start()
    with adaptation.block_sync():
        reply = adaptation.create_container(pod, container)
        ...                                        # create it with reply.adjust, apply reply.updates
    adaptation.stop()

This module connects the components and has no logic of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.recent import Recent
from nri.adaptation.audit.reporting import Reporting
from nri.adaptation.audit.trail import AuditTrail
from nri.adaptation.containers.answer_order import OrderedUpdates
from nri.adaptation.containers.update_result import UpdateResult
from nri.adaptation.dispatch.dispatcher import Dispatcher
from nri.adaptation.dispatch.observation import invokers
from nri.adaptation.dispatch.reply import Replies
from nri.adaptation.dispatch.validation import default_validators
from nri.adaptation.events import Events
from nri.adaptation.launch.installed import InstalledPlugins
from nri.adaptation.peers.builtin import BuiltinPeer, BuiltinPlugin
from nri.adaptation.peers.health import PluginHealth, health_of
from nri.adaptation.peers.peer import EXTERNAL
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import JOINED, State
from nri.adaptation.registration.chain import Chain
from nri.adaptation.registration.deferred_updates import DeferredUpdates
from nri.adaptation.registration.handshake import Handshake, RuntimeSettings
from nri.adaptation.registration.housekeeping import Housekeeping
from nri.adaptation.registration.listener import Listener
from nri.adaptation.registration.plugin_updates import PluginUpdates
from nri.adaptation.registration.registry import Registry
from nri.adaptation.registration.update_queue import UpdateQueue
from nri.api import messages as m
from nri.api import naming
from nri.api.default_validator import ValidatorConfig
from nri.api.events import EVENTS, EventMask
from nri.errors import LocalProtocolError, NriError
from nri.plugin_policy.policy import DEFAULT_PATH, Policies
from nri.rules import Rules
from nri.unix import credentials

if TYPE_CHECKING:
    import socket

    from nri.adaptation.admin import Admin
    from nri.interfaces import Reporter
    from nri.metrics import Observer
    from nri.ttrpc import Interceptor

_RELAYED = EventMask.of(*(spec for spec in EVENTS if spec.relayed))
#: Events that report a finished operation. No plugin can prevent it, so all plugins are asked at once.
_COMPLETION_EVENTS = EventMask.of(*(spec for spec in EVENTS if spec.method.startswith("post_")))

#: How long plugins may take to answer Shutdown, and launched plugins to end, in seconds.
SHUTDOWN_S = 1.0
#: The error of events after `stop`.
_STOPPED = "the adaptation is stopped"


def _check_options(synchronize: object, update: object, compat: str, fan_out: EventMask | None) -> None:
    """Raise LocalProtocolError for invalid options."""
    for callback, kind in ((synchronize, "Sync"), (update, "Update")):
        if callback is None:
            raise LocalProtocolError(f"failed to create NRI adaptation, nil {kind}Fn")
        if not callable(callback):
            name = "synchronize" if kind == "Sync" else "update"
            raise LocalProtocolError(f"{name} must be a function, not {callback!r}")
    if compat not in ("default", "reference"):
        raise LocalProtocolError(f'compat must be "default" or "reference", not {compat!r}')
    if fan_out is not None and fan_out - _RELAYED:
        raise LocalProtocolError(
            f"fan_out must not contain {fan_out - _RELAYED}: plugins see the answers of earlier plugins to them"
        )


def _check_times(**seconds: object) -> None:
    """Raise LocalProtocolError for timeouts that are not positive numbers."""
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise LocalProtocolError(f"{name} must be a number of seconds above 0, not {value!r}")


class Parts(NamedTuple):
    """The components of an adaptation, for the tests and benchmarks of this package."""

    chain: Chain
    trail: AuditTrail
    policies: Policies
    deferred_updates: DeferredUpdates
    handshake: Handshake
    registry: Registry
    housekeeping: Housekeeping
    reporting: Reporting

    @classmethod
    def wired(
        cls,
        settings: RuntimeSettings,
        policies: Policies,
        reporting: Reporting,
        trail: AuditTrail,
        deferred_updates: DeferredUpdates,
        synchronize: Callable[[], tuple[Iterable[m.PodSandbox], Iterable[m.Container]]],
        evict: Callable[[list[m.ContainerEviction]], object] | None,
    ) -> Self:
        """Create the components that register plugins and look after them."""
        chain = Chain(settings.request_timeout_s, policies)
        updates = PluginUpdates(evict, policies, settings.rules, trail, deferred_updates, reporting)
        handshake = Handshake(settings, chain, policies, trail.inventory, synchronize, updates, reporting)
        registry = Registry(settings.rules, chain, handshake, UpdateQueue(updates), reporting)
        housekeeping = Housekeeping(registry, chain, handshake, policies, reporting)
        registry.listen(chain.note_absent)
        registry.listen(lambda: reporting.plugins_counted(chain.active))
        return cls(chain, trail, policies, deferred_updates, handshake, registry, housekeeping, reporting)


class Adaptation(Events):
    """The runtime side of NRI. `nri.adaptation.Events` documents its events, with their arguments and errors.

    Args:
        name, version: the runtime's name and version, as plugins see them.
        synchronize: returns all existing pods and containers. Called when plugins join. It must not wait for a lock
            that a caller of an event holds outside of `block_sync`.
        update: applies updates of containers that a plugin requests by itself. It returns an `UpdateResult` for each
            failed update, or None if all were applied. Several threads may call it, and not in the order in which
            plugins sent the updates: `FieldOrder` decides which of two updates is newer (docs/howto/runtime.md).
        evict: carries out evictions that a plugin requests by itself. With None, such requests get an error.
        plugin_path, plugin_config_path, socket_path: see `nri.api.naming` for the defaults.
        wasm_cache: the folder for compiled code of WebAssembly plugins; None disables the cache.
        disable_connections: only built-in and installed plugins are used.
        registration_timeout_s, request_timeout_s: how long a plugin may take to register, or to answer a request.
        builtin: the plugins inside the runtime.
        observer: see `nri.metrics`.
        reporters: get every step of every event, with its bytes; see `nri.interfaces.Reporter`.
        interceptors: see `nri.ttrpc.interceptors`; they see every call of every plugin.
        policy_path: the operator's policy file (see `nri.plugin_policy.policy`); None for no policy.
        provenance: record which plugin changed what in which container, for `nri why`. The record is bounded.
        admin_socket: the socket for `nri why`; None for no socket.
        allowed_uids: users whose processes may connect, in addition to root and the runtime's user.
        compat: "reference" reproduces the Go library where its behaviour is deterministic; see docs/deviations.md.
        default_validator: the configuration of the built-in validator; None for no validator.
        fan_out: the events that all plugins get at once, instead of one after the other. This is faster with many
            plugins, but a plugin gets the event even if an earlier plugin fails it. Only events without an answer are
            allowed. Default: the events that report a finished operation (PostCreateContainer, PostStartContainer,
            PostUpdateContainer, PostUpdatePodSandbox); no events in reference mode. `EventMask(0)` disables it.
        commits: the runtime calls `commit()` or `abort()` of every reply to CreateContainer, beginning with the first:
            updates of that container wait for this call. Without it, the first `commit()` has the same effect.
        tell_refused: if a plugin or validator fails a creation or an update, send RemoveContainer or
                PostUpdateContainer to the plugins whose answers were dropped. The Go library sends nothing to them.

    Attributes:
        rules: the active deviations from the Go library.
    """

    def __init__(  # noqa: PLR0913 - every option has a default and is given by name
        self,
        name: str,
        version: str,
        *,
        synchronize: Callable[[], tuple[Iterable[m.PodSandbox], Iterable[m.Container]]],
        update: Callable[[OrderedUpdates], Iterable[m.ContainerUpdate | UpdateResult] | None],
        evict: Callable[[list[m.ContainerEviction]], object] | None = None,
        plugin_path: str = naming.PLUGIN_DIR,
        plugin_config_path: str = naming.CONFIG_DIR,
        socket_path: str = naming.DEFAULT_SOCKET,
        wasm_cache: str | None = naming.WASM_CACHE,
        disable_connections: bool = False,
        registration_timeout_s: float = naming.REGISTRATION_TIMEOUT_S,
        request_timeout_s: float = naming.REQUEST_TIMEOUT_S,
        builtin: Sequence[BuiltinPlugin] = (),
        observer: Observer | None = None,
        reporters: Sequence[Reporter] = (),
        interceptors: Sequence[Interceptor] = (),
        policy_path: str | None = DEFAULT_PATH,
        provenance: bool = True,
        admin_socket: str | None = None,
        allowed_uids: Collection[int] = (),
        compat: Literal["default", "reference"] = "default",
        default_validator: ValidatorConfig | None = None,
        fan_out: EventMask | None = None,
        commits: bool = False,
        tell_refused: bool = False,
    ) -> None:
        _check_options(synchronize, update, compat, fan_out)
        _check_times(registration_timeout_s=registration_timeout_s, request_timeout_s=request_timeout_s)
        self.rules = Rules.REFERENCE if compat == "reference" else Rules.DEFAULT
        if fan_out is None:
            fan_out = _COMPLETION_EVENTS if self.rules.reports_at_once else EventMask(0)
        self._interceptors = interceptors
        reporting, policies = Reporting(observer, reporters), Policies(policy_path)
        settings = RuntimeSettings(name, version, registration_timeout_s, request_timeout_s, self.rules, wasm_cache)
        trail = AuditTrail(update, Provenance() if provenance else None)
        deferred_updates = DeferredUpdates(trail, evict, commits=commits)
        parts = self._parts = Parts.wired(settings, policies, reporting, trail, deferred_updates, synchronize, evict)
        replies = Replies(trail, deferred_updates, reporting)
        dispatcher = Dispatcher(
            parts.chain,
            invokers(self.rules, reporting),
            reporting,
            replies,
            self.rules,
            request_timeout_s,
            fan_out,
            tell_refused=tell_refused,
        )
        super().__init__(dispatcher, trail, parts.chain)
        # Plugins are built into the runtime, are installed, or connect to a socket.
        self._builtin = [*default_validators(default_validator, self.rules), *builtin]
        registry = parts.registry
        self._installed = InstalledPlugins(plugin_path, plugin_config_path, settings, policies, registry, interceptors)
        self._sockets: list[Listener | Admin] = []
        if not disable_connections:
            listener_options = (socket_path, registry, allowed_uids, registration_timeout_s, reporting, interceptors)
            self._sockets.append(Listener(*listener_options, replace_live=not self.rules.live_socket_kept))
        if admin_socket is not None:
            from nri.adaptation.admin import Admin  # noqa: PLC0415 - half a MiB of a server that few runtimes have

            records, begins = trail.provenance or Provenance(), trail.inventory.known.begins
            admin_parts = (records, policies, self._describe, self.rules, begins, Recent(reporting))
            self._sockets.append(Admin(admin_socket, *admin_parts, runtime=(name, version)))
        self._started = False
        self._stopping = threading.Event()
        self._end_lock = threading.RLock()  # a signal's handler may call `stop` in the middle of `start`
        registry.listen(self._installed.nudge)
        registry.notify_listeners()

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the installed plugins, wait until each is active or has failed, then listen.

        Raises ConfigError; NriError if a built-in plugin fails; OSError if the socket cannot be created;
        LocalProtocolError if it was called before, or if another thread or a signal handler calls `stop` meanwhile.
        """
        if self._started or self._stopping.is_set():
            raise LocalProtocolError(
                "start() or stop() was called before: an adaptation can be started only once; create a new one"
            )
        self._started = True
        try:
            for plugin in self._builtin:
                peer = BuiltinPeer(self._parts.registry, plugin)
                self._parts.registry.adopt(peer)
                self._parts.handshake.admit(peer)
                if peer.state not in JOINED:
                    raise NriError(f"failed to start builtin plugin {peer.label}: {peer.last_error}")
            self._installed.start()
            with self._end_lock:
                if not self._stopping.is_set():
                    self._listen()
                if self._stopping.is_set():
                    self._end_started()
                    raise LocalProtocolError("stop() was called while start() was running")
        except BaseException:
            self.stop()
            raise

    def _listen(self) -> None:
        for server in self._sockets:
            server.start()
        if not self._stopping.is_set():
            self._parts.housekeeping.start()
            self._dispatcher.open()

    def _end_started(self) -> None:
        """End what `start` created after `stop` ran in another thread or in a signal handler."""
        self._dispatcher.close(_STOPPED)
        for server in reversed(self._sockets):
            server.stop()
        self._installed.stop()
        self._installed.join(monotonic() + SHUTDOWN_S)

    def connect(self, sock: socket.socket, config: str = "") -> None:
        """Take over a connected stream socket of an external plugin, as if the plugin had connected to the socket.

        Args:
            config: the configuration that the plugin gets with Configure.
        """
        pid, uid, _ = credentials(sock)
        peer = RemotePeer(self._parts.registry, sock, EXTERNAL, pid=pid, uid=uid, interceptors=self._interceptors)
        peer.config = config or ""
        self._parts.registry.connect(peer)

    def set_request_timeout(self, seconds: float) -> None:
        """Set how long a plugin may take to answer a request, in seconds. A timeout in the policy takes precedence."""
        self._parts.handshake.set_request_timeout(seconds)
        self._parts.housekeeping.apply_policy()

    def stop(self) -> None:
        """Send Shutdown to the plugins, end connections and launched plugins. Takes a few seconds."""
        with self._end_lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
        self._dispatcher.close(_STOPPED)
        self._parts.housekeeping.stop()
        self._parts.deferred_updates.stop()
        self._parts.handshake.stop()
        for server in reversed(self._sockets):
            server.stop()
        self._installed.stop()
        if self.rules.shutdown_is_sent:
            self._parts.registry.shut_down(
                [peer for peer in self._parts.registry.peers() if peer.state in JOINED], SHUTDOWN_S
            )
        self._parts.registry.stop()
        self._installed.join(monotonic() + SHUTDOWN_S)
        self._parts.housekeeping.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- plugins ------------------------------------------------------------------------------------------------------

    @property
    def plugins(self) -> list[PluginHealth]:
        """The health of every connected, disconnected or installed plugin, by index."""
        rows = [health_of(peer) for peer in self._parts.registry.peers() if peer.label not in self._installed]
        return sorted([*rows, *self._installed.health], key=lambda row: row.plugin)

    @property
    def provenance(self) -> Provenance | None:
        """The record of changes, by container and plugin. None if `provenance` is off."""
        return self._trail.provenance

    def _describe(self) -> list[dict[str, Any]]:
        """The health and policy of every plugin, for the admin socket."""
        rows = []
        for row in self.plugins:
            index, _, name = row.plugin.partition("-")
            peer = self._parts.registry.find(row.plugin)
            declared = None if peer is None else peer.declared
            policy = self._parts.policies.for_plugin(index, name, declared, self.rules)
            rows.append({**row.to_json(), "policy": policy.to_json()})
        return rows

    def ready(self, names: Iterable[str] = (), timeout_s: float = 0.0, *, settled: bool = False) -> bool:
        """Whether these plugins (``NN-name``) are active; without names, all plugins that the policy requires.

        Waits up to `timeout_s` seconds. With `settled`, also waits until the updates in their answers to Synchronize
        are applied.
        """
        labels = tuple(names) or self._parts.policies.required_names()

        def all_active() -> bool:
            peers = [self._parts.registry.find(label) for label in labels]
            return all(peer is not None and peer.state is State.ACTIVE for peer in peers)

        deadline = monotonic() + timeout_s
        are_active = self._parts.registry.wait(all_active, deadline)
        return are_active and (not settled or self._parts.registry.settled(labels, deadline))


def parts_of(adaptation: Adaptation) -> Parts:
    """Return the components of an adaptation."""
    return adaptation._parts
