"""Mode "nri": the agent as a plugin of the container runtime, in this process, on threads of its own.

| what happens | what follows |
|---|---|
| no socket yet, or the runtime goes away | it is waited for; a socket that appears later is noticed |
| the connection ends | again, after a pause that doubles up to its cap, with jitter, from the start after a good one |
| refused: the name is taken, the configuration is bad | that is the transport's health; again, after such a pause |
| another process, or part of this one, has this index and name at the socket | refused by name, without connecting |
| a rule changes | what runs is decided again, by a thread of its own |

The agent lives on whatever happens here. Next: `nri.agent.transports.hook_plugin` answers the events.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Final

from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.agent.transports.hook_plugin import HookPlugin
from nri.agent.transports.registration import Registration, TakenError
from nri.api import naming
from nri.backoff import Backoff
from nri.errors import ConfigError
from nri.stub.program.options import Options
from nri.stub.program.process import Program
from nri.stub.program.reconnect import GiveUp
from nri.text import plain

__all__ = ["NriTransport"]

_log = logging.getLogger(__name__)
#: How often the folder of the socket is looked for, in seconds.
_GLANCE_S: Final = 0.25
_JOIN_S: Final = 10.0


class NriTransport:
    """The agent's connection to a runtime's NRI.

    Args:
        settings: the agent's.
        parts: the agent's.

    Attributes:
        name: "nri".
        values: sets what strategies decide.
        plugin: what is registered.
    """

    def __init__(self, settings: AgentSettings, parts: Parts) -> None:
        self.name = "nri"
        own = settings.nri
        self._settings, self._observer = own, parts.observer
        self.label = naming.full_name(own.index, own.name)
        self.plugin = HookPlugin(parts, self.name, fail=settings.failure_policy == "Fail")
        self.plugin._log_name = self.label
        self.values = self.plugin.updates
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._program: Program | None = None
        self._problem = ""

    def start(self) -> None:
        """Begin to wait for the runtime; a second call does nothing."""
        with self._lock:
            if self._thread is not None:
                return
            self._stopped.clear()
            self._thread = threading.Thread(target=self._run, name="nri-agent-plugin", daemon=True)
            self._thread.start()
        self.plugin.refresher.start()

    def stop(self) -> None:
        """End after the reply to the request at hand; what has been applied stays. A second call does nothing."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopped.set()
            if self._program is not None:
                self._program.stop.take(signal.SIGTERM)
        if thread is not None:
            thread.join(_JOIN_S)
        self.plugin.refresher.stop()

    def rules_changed(self, kinds: frozenset[str]) -> None:  # noqa: ARG002 - hooks read several kinds
        """Have what runs decided again."""
        self.plugin.rules_changed()

    def health(self) -> tuple[bool, str]:
        """Whether the plugin takes part; else what it waits for."""
        with self._lock:
            program, problem, running = self._program, self._problem, self._thread is not None
        if program is not None and program.is_ready():
            runtime = self.plugin.runtime
            return True, f"registered with {runtime.name} {runtime.version} as {self.label}"
        if not running:
            return False, "not started"
        path = self._settings.socket
        return False, problem or (f"waiting for {path}" if not os.path.exists(path) else f"connecting to {path}")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = self._backoff()
        while not self._stopped.is_set():
            if not os.path.isdir(os.path.dirname(self._settings.socket)):
                self._stopped.wait(_GLANCE_S)
                continue
            try:
                with Registration(self._settings.socket, self.label):
                    self._serve(backoff)
            except TakenError as error:
                self._refused(str(error))
            except (GiveUp, ConfigError) as error:
                self._refused(error.text if isinstance(error, GiveUp) else str(error))
            except Exception as error:  # noqa: BLE001 - the agent lives on
                _log.exception("mode nri: the connection failed")
                self._refused(f"{type(error).__name__}: {error}")
            with self._lock:
                self._program = None
            if not self._stopped.is_set():
                self._observer.met(self.name, "refused")
                self._stopped.wait(backoff.ended())

    def _serve(self, backoff: Backoff) -> None:
        """Connect, and connect again, until stopped or refused."""
        program = Program(
            self.plugin,
            self._options(),
            silent=True,
            notify=lambda state: self._told(state, backoff),
            backoff=self._backoff(),
        )
        with self._lock:
            if self._stopped.is_set():
                return
            self._program = program
        program.serve()

    def _told(self, state: str, backoff: Backoff) -> None:
        if state == "READY=1":
            backoff.reset()
            with self._lock:
                self._problem = ""
            self._observer.met(self.name, "connected")

    def _refused(self, reason: str) -> None:
        text = plain(reason)
        with self._lock:
            known, self._problem = self._problem == text, text
        if not known:  # the same again and again would fill a log
            _log.warning("mode nri: %s", text)

    def _backoff(self) -> Backoff:
        return Backoff(self._settings.backoff, self._settings.backoff_cap)

    def _options(self) -> Options:
        options = Options()
        options.index, options.name, options.socket = self._settings.index, self._settings.name, self._settings.socket
        options.registration_timeout_s = self._settings.connect_timeout
        return options
