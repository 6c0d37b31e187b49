"""Mode "nri": the agent as a plugin of the container runtime.

| situation | reaction |
|---|---|
| the socket is missing, or the runtime ended | wait for the socket |
| the connection ends | connect again after a random pause that grows up to a limit |
| the runtime refuses the name or the configuration | the health report shows the reason; try again later |
| another plugin of this machine has the same index and name at the socket | report the other process, do not connect |
| a rule changes | decide again for running pods, in a separate thread |
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

_log = logging.getLogger(__name__)
#: The pause in seconds between checks whether the folder of the socket exists.
_GLANCE_S: Final = 0.25


class NriTransport(PluginTransport[HookPlugin]):
    """The agent's connection to a runtime over NRI.

    Args:
        settings: the settings of the agent.
        parts: the shared parts of the agent.

    Attributes:
        name: "nri".
        values: the writer of strategies' values.
        plugin: the registered plugin.
    """

    def __init__(self, settings: AgentSettings, parts: Parts) -> None:
        super().__init__("nri", settings, parts, HookPlugin(parts, "nri", fail=settings.failure_policy == "Fail"))
        self.plugin._log_name = self.label
        self.values = self.plugin.updates
        self._program: Program | None = None

    def start(self) -> None:
        """Start to wait for the runtime. A second call has no effect."""
        with self._lock:
            if self._thread is not None:
                return
            self._stopped.clear()
            self._thread = threading.Thread(target=self._run, name="nri-agent-plugin", daemon=True)
            self._thread.start()
        self.plugin.refresher.start()

    def stop(self) -> None:
        """Stop after the reply to the current request. Applied values stay. A second call has no effect."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopped.set()
            if self._program is not None:
                self._program.stop.take(signal.SIGTERM)
        if thread is not None:
            thread.join(JOIN_S)
        self.plugin.refresher.stop()

    def health(self) -> tuple[bool, str]:
        """Return whether the plugin is registered, and with which runtime, or the reason why it is not."""
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
            except Exception as error:  # noqa: BLE001 - the agent tries again
                _log.exception("mode nri: the connection failed")
                self._failed(f"{type(error).__name__}: {error}")
            with self._lock:
                self._program = None
            self._pause(backoff)

    def _serve(self, backoff: Backoff) -> None:
        """Keep a connection until the transport is stopped or the runtime refuses the plugin."""
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
