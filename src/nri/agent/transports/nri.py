"""Mode "nri": the agent as a plugin of the container runtime.

| situation | reaction |
|---|---|
| no socket yet, or the runtime went away | wait for the socket |
| the connection ends | connect again after a pause that doubles up to a limit, with jitter |
| refused: the name is taken, the configuration is bad | reported by the transport's health; tried again later |
| another process, or part of this one, has this index and name at the socket | refused by name, without connecting |
| a rule changes | what runs is decided again, in a separate thread |
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
from nri.agent.transports.plugin_transport import JOIN_S, PluginTransport
from nri.agent.transports.registration import Registration, TakenError
from nri.backoff import Backoff
from nri.errors import ConfigError
from nri.stub.program.options import Options
from nri.stub.program.process import Program
from nri.stub.program.reconnect import GiveUp

__all__ = ["NriTransport"]

_log = logging.getLogger(__name__)
#: How often the folder of the socket is looked for, in seconds.
_GLANCE_S: Final = 0.25


class NriTransport(PluginTransport[HookPlugin]):
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
        super().__init__("nri", settings, parts, HookPlugin(parts, "nri", fail=settings.failure_policy == "Fail"))
        self.plugin._log_name = self.label
        self.values = self.plugin.updates
        self._program: Program | None = None

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
            thread.join(JOIN_S)
        self.plugin.refresher.stop()

    def health(self) -> tuple[bool, str]:
        """Whether the plugin takes part; else what it waits for."""
        with self._lock:
            program, problem, running = self._program, self._problem, self._thread is not None
        if program is not None and program.is_ready():
            runtime = self.plugin.runtime
            return True, f"registered with {runtime.name} {runtime.version} as {self.label}"
        if not running:
            return False, "not started"
        path = self._nri.socket
        return False, problem or (f"waiting for {path}" if not os.path.exists(path) else f"connecting to {path}")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = self._backoff()
        while not self._stopped.is_set():
            if not os.path.isdir(os.path.dirname(self._nri.socket)):
                self._stopped.wait(_GLANCE_S)
                continue
            try:
                with Registration(self._nri.socket, self.label):
                    self._serve(backoff)
            except TakenError as error:
                self._failed(str(error))
            except (GiveUp, ConfigError) as error:
                self._failed(error.text if isinstance(error, GiveUp) else str(error))
            except Exception as error:  # noqa: BLE001 - the agent lives on
                _log.exception("mode nri: the connection failed")
                self._failed(f"{type(error).__name__}: {error}")
            with self._lock:
                self._program = None
            self._pause(backoff)

    def _serve(self, backoff: Backoff) -> None:
        """Connect, and connect again, until stopped or refused."""
        program = Program(
            self.plugin,
            self._options(),
            silent=True,
            notify=lambda state: self._connected(backoff) if state == "READY=1" else None,
            backoff=self._backoff(),
            reporter=self._reporter,
        )
        with self._lock:
            if self._stopped.is_set():
                return
            self._program = program
        program.serve()

    def _options(self) -> Options:
        options = Options()
        options.index, options.name, options.socket = self._nri.index, self._nri.name, self._nri.socket
        options.registration_timeout_s = self._nri.connect_timeout
        return options
