"""Keep one installed plugin running: launch it, watch it and its configuration, restart it according to its policy.

There is a thread per plugin, which also reads its stderr. A run ends when its process ends; a process that has lost its
connection is killed, because a launched plugin cannot connect again. A failed run is followed by a wait
(`nri.backoff`). Many short runs in a row are a crash loop, in which restarts continue. Every restart is a full
handshake, so the plugin is synchronized again.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from nri.adaptation.launch.discovery import config_text
from nri.adaptation.launch.start import Starter
from nri.adaptation.launch.trusted import UntrustedError
from nri.adaptation.peers.health import PluginHealth, health_of, state_word
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Signal, State
from nri.api import naming
from nri.backoff import Backoff
from nri.config.watch import fingerprint
from nri.errors import ConfigError
from nri.plugin_policy import identity
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.launch.discovery import PluginFile
    from nri.adaptation.launch.start import Run
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.registration.handshake import RuntimeSettings
    from nri.adaptation.registration.registry import Registry
    from nri.plugin_policy.policy import Policies
    from nri.ttrpc import Interceptor

log = logging.getLogger("nri.adaptation")

#: How often the configuration file is checked, in seconds.
CHECK_INTERVAL_S = 1.0
#: The time between the end of a plugin's connection and its kill, in seconds.
GRACE_S = 1.0


class Supervisor:
    """The supervisor of an installed plugin.

    Attributes:
        peer: the present or last connection.
        last_words: the last lines of stderr before the last end of the plugin.
        restarts: how often the plugin was started again.
    """

    def __init__(
        self,
        plugin: PluginFile,
        config_folder: str,
        settings: RuntimeSettings,
        policies: Policies,
        registry: Registry,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        self.plugin = plugin
        self.peer: Peer | None = None
        self.last_words = ""
        self.restarts = 0
        #: Set as soon as the first run is active or has failed.
        self.started = threading.Event()
        self._folder = config_folder
        self._settings = settings
        self._policies = policies
        rules = settings.rules
        self._starter = Starter(
            plugin, registry, interceptors,
            trusted=rules.bad_files_skipped, all_events=not rules.wasm_events_optional, cache=settings.wasm_cache,
        )  # fmt: skip
        self._backoff = Backoff()
        self._process: Run | None = None
        self._stopping = threading.Event()
        self._fingerprint: object = None
        self._gone_since = 0.0
        self._changed = False
        self._is_refused = False  # the last launch did not start the program
        self._thread = threading.Thread(target=self._run, name=f"nri-plugin-{plugin.label}", daemon=True)

    @property
    def state(self) -> State:
        """The state of the plugin, which exists even between two connections."""
        if self._process is not None and self.peer is not None:
            return self.peer.state
        if self._is_refused:
            return State.NOT_LAUNCHED
        return State.CRASH_LOOP if self._backoff.crash_loop else State.GONE

    @property
    def health(self) -> PluginHealth:
        """The health of the plugin, whether it runs or not."""
        state, peer = self.state, self.peer
        details: Any = {"restarts": self.restarts, "last_words": self.last_words}
        if peer is not None:
            if state is State.NOT_LAUNCHED:
                details["last_error"] = self.last_words
            return replace(health_of(peer), state=state_word(state), stage=state.value, **details)
        word = state_word(state) if self.started.is_set() else "starting"
        return PluginHealth(self.plugin.label, self._starter.kind, word, word, last_error=self.last_words, **details)

    def start(self) -> None:
        """Launch the plugin in the background."""
        self._thread.start()

    def nudge(self) -> None:
        """Wake the thread, because something has changed."""
        process = self._process
        if process is not None:
            process.nudge()

    def stop(self) -> None:
        """Stop restarting the plugin, and end it soon. `join` waits for its end."""
        self._stopping.set()
        self.nudge()

    def join(self, deadline: float) -> None:
        """Wait until the plugin has ended. Kill it at the deadline."""
        self._thread.join(max(0.0, deadline - monotonic()))
        if self._thread.is_alive():
            process = self._process
            if process is not None:
                process.kill()
            self._thread.join(1.0)

    # -- its thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._backoff.started()
            try:
                failed = self._run_once()
            except Exception as error:
                log.exception("plugin %s: an error in the runtime ended its run", plain(self.plugin.label))
                failed = True
                self._end_unwatched_run(error)
            self.started.set()
            if self._stopping.is_set():
                return
            if self._changed:
                self._backoff.reset()
                log.info("configuration of plugin %s has changed: restarting it", plain(self.plugin.label))
            elif not self._wait_for_restart(failed):
                return
            self.restarts += 1

    def _wait_for_restart(self, failed: bool) -> bool:
        """Wait before the next run. Returns False if there is no next run."""
        delay_s = self._backoff.ended()
        restart = self._policies.for_plugin(self.plugin.index, self.plugin.name).restart
        if (
            not self._settings.rules.launched_plugins_restart
            or restart == "never"
            or (restart == "on-failure" and not failed)
        ):
            return False
        if self._backoff.crash_loop and not self._is_refused:
            log.error(
                "plugin %s is in a crash loop: %d short runs in a row", plain(self.plugin.label), self._backoff.failures
            )
        return not self._stopping.wait(delay_s)

    def _run_once(self) -> bool:
        """Run the plugin once, from launch to end. Returns True if it failed."""
        plugin = self.plugin
        self._changed = False
        self._fingerprint = self._config_fingerprints()
        self._gone_since = 0.0
        policy = self._policies.for_plugin(plugin.index, plugin.name)
        refusal = identity.refusal(policy, plugin.label, launched=True, uid=os.geteuid())
        try:
            if refusal:
                raise ConfigError(plugin.path, "", refusal)
            config, _ = config_text(
                self._folder, plugin.index, plugin.name, trusted=self._settings.rules.bad_files_skipped
            )
            process, peer = self._starter.start(config)
        except (ConfigError, UntrustedError, OSError) as error:
            reason = str(error) if isinstance(error, ConfigError) else f"{plugin.path}: {_reason(error)}"
            log.warning("plugin %s cannot be launched: %s", plain(plugin.label), reason)
            self.last_words = reason
            self._is_refused = True
            return True
        self._process, self.peer, self._is_refused = process, peer, False
        if self._stopping.is_set():
            process.kill()  # `stop` could not see this process yet
        self._starter.join(peer)
        process.wait(self._check)
        self._process = None
        self.last_words = process.last_words
        ended = f"its {'process' if peer.pid else 'run'} ended ({process.status})"
        peer.signal(Signal.LOST, ended)
        peer.last_error = ended + (f": {_last_line(self.last_words)}" if self.last_words else "")
        if not self._stopping.is_set():
            log.warning("plugin %s ended: %s", plain(peer.qualified), process.status)
            for line in (
                self.last_words.split("\n") if self.last_words else ()
            ):  # one by one, so that no line looks like the runtime's own
                log.warning("plugin %s wrote: %s", plain(peer.qualified), line)
        # A disconnected plugin may end without an error, because it no longer has a runtime.
        return process.failed or peer.cut_off

    def _end_unwatched_run(self, error: Exception) -> None:
        """End a run that an error of the runtime has left unwatched, so that another run can start."""
        process, peer = self._process, self.peer
        if process is not None and peer is not None:
            process.kill()
            process.wait(lambda: CHECK_INTERVAL_S)
            self._process = None
            peer.signal(Signal.LOST, "an error of the runtime")
        self.last_words = f"an error of the runtime: {plain(f'{type(error).__name__}: {error}')}"
        if peer is not None:
            peer.last_error = self.last_words

    def _check(self) -> float:
        """Check a running plugin. Returns the seconds until the next check."""
        peer, process = self.peer, self._process
        assert peer is not None
        assert process is not None
        now = monotonic()
        if peer.handshake_over.is_set():
            self.started.set()
        if peer.state is State.GONE:
            # The plugin cannot connect again. It may need a moment to save its state and to log something.
            self._gone_since = self._gone_since or now
            remaining_s = self._gone_since + GRACE_S - now
            if remaining_s <= 0:
                process.kill()
            return max(remaining_s, 0.01) if remaining_s > 0 else CHECK_INTERVAL_S
        if peer.state is State.CONNECTED and isinstance(peer, RemotePeer):
            remaining_s = peer.since + self._settings.registration_timeout_s - now
            if remaining_s <= 0:
                peer.endpoint.poll()  # the registration may have arrived, but not been read
                if peer.state is not State.CONNECTED:
                    return 0.0
                log.warning("%s: plugin registration timed out", plain(peer.qualified))
                peer.signal(Signal.FATAL, "plugin registration timed out")
                return 0.0
            return min(remaining_s + 0.01, CHECK_INTERVAL_S)
        if (
            self._settings.rules.launched_plugins_restart
            and not self._stopping.is_set()
            and self._config_fingerprints() != self._fingerprint
        ):
            self._changed = True
            peer.signal(Signal.STOP, "its configuration has changed")
            return 0.0
        return CHECK_INTERVAL_S

    def _config_fingerprints(self) -> object:
        """The fingerprints of the plugin's configuration files."""
        names = naming.config_file_names(self.plugin.index, self.plugin.name)
        return [fingerprint(os.path.join(self._folder, name)) for name in names]


def _reason(error: UntrustedError | OSError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _last_line(text: str) -> str:
    return text.rsplit("\n", 1)[-1]
