"""The health of plugins, for display and for readiness probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nri.adaptation.peers.state import State
from nri.text import LINE_LENGTH, plain

if TYPE_CHECKING:
    from nri.adaptation.peers.peer import Peer

_STARTING = frozenset((State.CONNECTED, State.REGISTERED, State.CONFIGURED, State.SYNCHRONIZING))


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """The health of one plugin at one moment.

    Attributes:
        plugin: ``NN-name``; ``??-plugin`` if it has not registered yet.
        kind: "builtin", "external", "pre-connected" (launched by the runtime) or "pre-connected-wasm" (loaded by the
            runtime).
        state: "starting", "active", "late", "open" (its breaker skips it), "crash loop", "not launched"
            (the program could not be started) or "gone".
        stage: the same state, with the steps of "starting" distinguished.
        pid, uid: process id and user id of the plugin's process; 0 and None if not known.
        nri_version: the NRI version that it declares.
        events: its subscription, as names joined by commas.
        latency_s: the duration of its last answer, in seconds.
        missed: requests in a row without an answer.
        restarts: how often a launched plugin was started again.
        last_error: the latest error, or "".
        last_words: the last lines that a launched plugin wrote to stderr before it ended.
    """

    plugin: str
    kind: str
    state: str
    stage: str
    pid: int = 0
    uid: int | None = None
    nri_version: str = ""
    events: str = ""
    latency_s: float = 0.0
    missed: int = 0
    restarts: int = 0
    last_error: str = ""
    last_words: str = ""

    def to_json(self) -> dict[str, Any]:
        """The health as a JSON object, by the names of the attributes."""
        return {name: getattr(self, name) for name in self.__slots__}


def health_of(peer: Peer) -> PluginHealth:
    """The current health of a plugin."""
    return PluginHealth(
        plugin=f"{peer.index or '??'}-{peer.name or 'plugin'}",
        kind=peer.kind,
        state=state_word(peer.state),
        stage=peer.state.value,
        pid=peer.pid,
        uid=peer.uid,
        nri_version=peer.version,
        events=str(peer.mask),
        latency_s=peer.latency_s,
        missed=peer.breaker.missed,
        last_error=plain(peer.last_error, 4 * LINE_LENGTH),
    )


def state_word(state: State) -> str:
    """The state in health reports. All steps of the handshake are "starting"."""
    return "starting" if state in _STARTING else state.value
