"""The handshake with a plugin: configure it, send it the state of the runtime, put it into the chain.

Handshakes run in parallel, each in its own thread. Only reading the runtime's state and entering the chain are
exclusive (`nri.adaptation.registration.admission`). While a plugin processes the state, its lock is held, so its events
queue up and reach it afterwards, in order. So every container is either in the state or in an event, and a slow
synchronization delays only the events of that plugin.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.audit.reporting import SERIALS
from nri.adaptation.merge import limits
from nri.adaptation.peers.peer import BUILTIN, EXTERNAL
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Signal, State
from nri.adaptation.registration.admission import Admission
from nri.adaptation.time_budget import turn_limit_s
from nri.api import messages as m
from nri.api import naming
from nri.api.events import ALL, EventMask
from nri.errors import NriError, RemoteProtocolError, describe, failure_text
from nri.plugin_policy import identity
from nri.plugin_policy.event_policy import event_policies
from nri.ttrpc.link import REPLY_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.containers.inventory import Inventory
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.registration.admission import SharedState
    from nri.adaptation.registration.chain import Chain
    from nri.adaptation.registration.plugin_updates import PluginUpdates
    from nri.plugin_policy.policy import PluginPolicy, Policies
    from nri.rules import Rules

log = logging.getLogger("nri.adaptation")

_SYNCHRONIZE = "Synchronize"


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The runtime's identity for plugins, and their timeouts.

    Attributes:
        name, version: the runtime's name and version.
        registration_timeout_s: the time between connecting and RegisterPlugin, in seconds.
        request_timeout_s: the timeout of requests without a timeout in the policy, in seconds.
        rules: the deviations from the Go library.
        wasm_cache: the folder for compiled plugins; None disables the cache.
    """

    name: str
    version: str
    registration_timeout_s: float
    request_timeout_s: float
    rules: Rules
    wasm_cache: str | None = None


class Handshake:
    """Takes plugins through Configure and Synchronize.

    Args:
        snapshot: the runtime's callback, which returns all existing pods and containers.
        updates: checks the updates in a plugin's reply to Synchronize, and applies them.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        chain: Chain,
        policies: Policies,
        inventory: Inventory,
        snapshot: Callable[[], tuple[Iterable[m.PodSandbox], Iterable[m.Container]]],
        updates: PluginUpdates,
        reporting: Reporting,
    ) -> None:
        self._settings = settings
        self._policies = policies
        self.updates = updates
        self._reporting = reporting
        self.admission = Admission(chain, inventory, snapshot, self.apply_policy)
        # If all parts of a state share one timeout, plugins that join together must not share the timeout as well.
        self._one_at_a_time = threading.Lock()

    def set_request_timeout(self, seconds: float) -> None:
        """Set the timeout of requests; it takes effect at the next `apply_policy`."""
        self._settings = replace(self._settings, request_timeout_s=seconds)

    def stop(self) -> None:
        """Let no further plugin join: the runtime stops."""
        self.admission.stop()

    def admit(self, peer: Peer) -> None:
        """Configure and synchronize a plugin. If this fails, the plugin is closed."""
        try:
            self._admit(peer)
        finally:
            peer.settled.set()

    def _admit(self, peer: Peer) -> None:
        if not self._run_step(peer, "configure", self.configure):
            return
        try:
            entry = self.admission.enter(peer)
        except Exception as error:
            reason = f"the runtime failed to list its pods and containers: {describe(error)}"
            log.exception("%s; plugin %s cannot join", reason, peer.qualified, exc_info=not isinstance(error, NriError))
            peer.signal(Signal.FATAL, reason)
            return
        if entry is None:
            peer.signal(Signal.STOP, "the runtime is stopping")
            return
        updates, number = self._hand_over(peer, entry)
        if updates:
            try:
                self.updates.apply_synchronize(peer, updates, number)
            except Exception:
                log.exception("the runtime failed to apply updates of plugin %s", peer.qualified)

    def _run_step(self, peer: Peer, what: str, step: Callable[[Peer], None]) -> bool:
        """Run a step. Returns False if it failed; the plugin is then closed."""
        try:
            step(peer)
        except NriError as error:
            if peer.state is not State.GONE:
                text = "failed to %s plugin %s: %s"
                self._reporting.refused(
                    f"failed to {what}", text, what, peer.qualified, failure_text(error, peer.label)
                )
            peer.signal(Signal.FATAL, f"failed to {what}: {failure_text(error, peer.label)}")
            return False
        except Exception as error:
            log.exception("failed to %s plugin %s", what, peer.qualified)
            peer.signal(Signal.FATAL, f"failed to {what}: {describe(error)}")
            return False
        return peer.state is not State.GONE

    def configure(self, peer: Peer) -> None:
        """Send Configure, and store the plugin's subscription and failure policy."""
        settings = self._settings
        request = m.ConfigureRequest(
            config=peer.config,
            runtime_name=settings.name,
            runtime_version=settings.version,
            registration_timeout=round(settings.registration_timeout_s * 1000),
            request_timeout=round(settings.request_timeout_s * 1000),
            NRI_version=naming.NRI_VERSION,
        )
        timeout_s = self._patience_s(self._policies.for_plugin(peer.index, peer.name))
        encoded = peer.command("Configure", request.SerializeToString(), monotonic() + timeout_s)
        try:
            reply = m.ConfigureResponse.FromString(encoded)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise RemoteProtocolError(f"its reply is invalid: {error}") from None
        mask = EventMask(reply.events & 0xFFFFFFFF) or ALL
        if mask.unknown and not settings.rules.unknown_events_masked:
            raise RemoteProtocolError(f"invalid plugin events: {mask.unknown:#x}")
        if mask.unknown:
            text = "plugin %s subscribes to unknown events (%#x), which are ignored"
            self._reporting.limited_log.line("unknown events", logging.WARNING, text, peer.qualified, mask.unknown)
            mask = mask - EventMask(mask.unknown)
        peer.mask = mask
        peer.declared = _copy(reply.failure_policy) if reply.HasField("failure_policy") else None
        self.apply_policy(peer)
        peer.signal(Signal.CONFIGURED)

    def _patience_s(self, policy: PluginPolicy) -> float:
        """Seconds that a step of the handshake may take.

        A short timeout in the policy limits the delay of requests. No request waits for a handshake, so a short timeout
        does not apply: it would keep out a plugin that starts on a busy machine. A long timeout applies.
        """
        return max(policy.timeout_s() or 0.0, self._settings.request_timeout_s)

    def refusal(self, peer: Peer, index: str, name: str) -> str:
        """The reason why the operator's policy refuses this name for a plugin, or "" if it does not."""
        if peer.kind == BUILTIN:
            return ""
        policy = self._policies.for_plugin(index, name)
        return identity.refusal(policy, naming.full_name(index, name), launched=peer.kind != EXTERNAL, uid=peer.uid)

    def apply_policy(self, peer: Peer) -> None:
        """Apply the operator's policy to a plugin, when it joins and after a change of the policy."""
        refusal = self.refusal(peer, peer.index, peer.name)
        if refusal:
            peer.signal(Signal.FATAL, refusal)
            return
        settings = self._settings
        policy = self._policies.for_plugin(peer.index, peer.name, peer.declared, settings.rules)
        peer.event_policies = event_policies(peer.mask, policy, settings.request_timeout_s)
        timeout_s = policy.timeout_s() or settings.request_timeout_s
        # A built-in plugin has no timeout, so its turns have no limit.
        peer.turn_s = turn_limit_s(timeout_s) if settings.rules.turns_bounded and peer.kind != BUILTIN else 0.0
        peer.breaker.configure(policy.breaker_misses, policy.breaker_retry_s)
        if isinstance(peer, RemotePeer):
            peer.endpoint.link.reply_timeout_s = max(REPLY_TIMEOUT_S, self._patience_s(policy))

    def _hand_over(self, peer: Peer, entry: SharedState) -> tuple[list[m.ContainerUpdate], int]:
        """Synchronize; events for the plugin wait meanwhile.

        Returns the requested updates and their sequence number.
        """
        updates: list[m.ContainerUpdate] = []
        began = monotonic()

        def synchronize(peer: Peer) -> None:
            entry.seed()  # called before the plugin gets the state: then it may request updates of these containers
            updates.extend(self._synchronize(peer, entry))

        try:
            if not self._run_step(peer, "synchronize", synchronize):
                return [], 0
            number = peer.answer
            peer.breaker.reconnected()
            peer.signal(Signal.SYNCHRONIZED)
        finally:
            peer.lock.release()
            self.admission.pause_joiners(monotonic() - began)
        return updates, number

    def _synchronize(self, peer: Peer, entry: SharedState) -> list[m.ContainerUpdate]:
        """Send the state. Returns the updates that the plugin requests and the policy allows."""
        reporting = self._reporting
        policy = self._policies.for_plugin(peer.index, peer.name)
        timeout_s = self._patience_s(policy)
        state = entry.state
        max_entries = limits.max_entries_for(len(state[1])) if self._settings.rules.other_updates_limited else 0
        if policy.filters is not None:
            state = policy.filters.select(*state)
        serial = next(SERIALS)
        began = monotonic()
        if reporting.recorded:
            request = m.SynchronizeRequest(pods=state[0], containers=state[1]).SerializeToString()
            reporting.event_begins(_SYNCHRONIZE, serial, request)
            reporting.plugin_asked(peer.label, _SYNCHRONIZE, serial, request)
        try:
            if self._settings.rules.synchronize_timeout_per_message:
                updates = peer.synchronize(*state, timeout_s, timeout_per_part=True, max_entries=max_entries)
            else:
                with self._one_at_a_time:
                    updates = peer.synchronize(*state, timeout_s, timeout_per_part=False, max_entries=max_entries)
        except NriError as error:
            duration_s = monotonic() - began
            reporting.plugin_failed(peer.label, _SYNCHRONIZE, serial, error, duration_s)
            reporting.event_ends(_SYNCHRONIZE, serial, b"", error, duration_s)
            raise
        duration_s = monotonic() - began
        reply = m.SynchronizeResponse(update=updates)
        encoded: bytes = reply.SerializeToString()
        reporting.plugin_answered(peer.label, _SYNCHRONIZE, serial, encoded, duration_s)
        refusal = None
        if updates:
            refusal = self.updates.check_synchronize(peer, updates)
        reporting.reply_merged(peer.label, _SYNCHRONIZE, serial, reply, refusal)
        reporting.event_ends(_SYNCHRONIZE, serial, b"" if refusal else encoded, refusal, duration_s)
        if refusal is not None:
            log.warning("%s: its reply to Synchronize is refused: %s", peer.qualified, refusal)
            return []
        return updates


def _copy(declared: m.FailurePolicy) -> m.FailurePolicy:
    """Copy the message, so that it does not keep the whole reply alive."""
    copy = m.FailurePolicy()
    copy.CopyFrom(declared)
    copy.DiscardUnknownFields()
    return copy
