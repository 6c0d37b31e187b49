"""Mode "proxy": a CRI proxy in the agent's process, with the agent as a plugin over a pair of sockets.

| situation | reaction |
|---|---|
| the runtime is missing, or ended | wait for the runtime; the kubelet gets an error |
| another process listens at the proxy's socket, or uses its records | fail to start, with the reason |
| the plugin is not ready when the proxy starts | serve the kubelet without the plugin after a while |
| the plugin's connection ends | connect again after a pause that grows up to a limit |
| a rule changes | decide again for running pods, in a separate thread |
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Final

from nri.adaptation import Adaptation
from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.agent.transports.plugin_transport import JOIN_S, PluginTransport
from nri.agent.transports.proxy_plugin import ProxyPlugin
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy import PluginSettings, Proxy, ProxySettings
from nri.stub.session.session import Session

_log = logging.getLogger(__name__)
#: The time in seconds that a kubelet waits for the agent's plugin when the proxy starts.
ADMIT_S: Final = 5.0


class ProxyTransport(PluginTransport[ProxyPlugin]):
    """The agent's proxy.

    Args:
        settings: the settings of the agent.
        parts: the shared parts of the agent.

    Attributes:
        name: "proxy".
        proxy: the proxy; each start creates a new one.
        plugin: the plugin of the proxy.
    """

    def __init__(self, settings: AgentSettings, parts: Parts) -> None:
        plugin = ProxyPlugin(parts, self._runtime_name, self._kubelet_request, fail=settings.failure_policy == "Fail")
        super().__init__("proxy", settings, parts, plugin)
        self.values = None
        self._settings = settings
        self.proxy: Proxy | None = None
        self._session: Session | None = None

    def start(self) -> None:
        """Listen for the kubelet. A second call has no effect. Raises NriError if the proxy cannot start."""
        if self.proxy is not None:
            return
        self._stopped.clear()
        reporters = () if self._reporter is None else (self._reporter,)
        proxy = Proxy(proxy_settings(self._settings), admit=self._connect_plugin, reporters=reporters)
        self.proxy = proxy
        try:
            proxy.start()
        except OSError as error:
            self.stop()
            raise NriError(f"mode proxy: {error}") from error
        except BaseException:
            self.stop()
            raise
        self.plugin.refresher.start()

    def stop(self) -> None:
        """Stop serving the kubelet. Containers run unchanged. A second call has no effect."""
        proxy, self.proxy = self.proxy, None
        if proxy is None:
            return
        self._stopped.set()
        proxy.stop()
        with self._lock:
            session, thread = self._session, self._thread
        if session is not None:
            session.stop()
        if thread is not None:
            thread.join(JOIN_S)
        self.plugin.refresher.stop()

    def health(self) -> tuple[bool, str]:
        """Return whether the kubelet is served and the plugin is connected, and a description."""
        proxy = self.proxy
        if proxy is None:
            return False, "not started"
        with self._lock:
            session, problem = self._session, self._problem
        if session is None or session.stage != "ready":
            return False, problem or "the agent is not connected to its proxy yet"
        if not proxy.listening:
            return False, "not listening for the kubelet yet"
        where = f"{proxy.settings.listen} in front of {proxy.runtime}"
        if not proxy.connected:
            return False, f"serving {where}, which does not respond"
        return True, f"serving {where}"

    # -- the plugin's connection --------------------------------------------------------------------------------------

    def _connect_plugin(self, adaptation: Adaptation) -> None:
        """Connect the plugin, and wait up to `ADMIT_S` until it is ready."""
        self._thread = threading.Thread(
            target=self._connect, args=(adaptation,), name="nri-agent-proxy-plugin", daemon=True
        )
        self._thread.start()
        if not adaptation.ready([self.label], ADMIT_S):
            _log.warning("mode proxy: the agent is not connected to its proxy: %s", self._problem or "timeout")

    def _connect(self, adaptation: Adaptation) -> None:
        backoff = self._backoff()
        while not self._stopped.is_set():
            runtime_end, plugin_end = socket.socketpair()
            session = Session(
                self.plugin, plugin_end, index=self._nri.index, name=self._nri.name,
                on_ready=lambda: self._connected(backoff),
            )  # fmt: skip
            with self._lock:
                self._session = session
            try:
                _connect_adaptation(adaptation, runtime_end, plugin_end)
                problem = session.run()
            except Exception as error:  # noqa: BLE001 - the agent connects again
                problem = str(error) if isinstance(error, NriError) else f"{type(error).__name__}: {error}"
            if not self._stopped.is_set():
                self._failed(problem, "the agent's connection to its own proxy has ended: ")
            self._pause(backoff)

    def _runtime_name(self) -> str:
        proxy = self.proxy
        return proxy.runtime_name if proxy is not None else ""

    def _kubelet_request(self, container_id: str) -> pb.LinuxContainerResources | None:
        proxy = self.proxy
        return proxy.requested_resources(container_id) if proxy is not None else None


def proxy_settings(settings: AgentSettings) -> ProxySettings:
    """Return the settings of the proxy from the settings of the agent."""
    proxy = settings.proxy
    key, _, value = proxy.skip_label.partition("=")
    plugins = PluginSettings(
        socket_path=proxy.socket_path or os.path.join(proxy.state, "no-plugins.sock"),
        disable_connections=not proxy.socket_path,
        plugin_path=proxy.plugin_path or os.path.join(proxy.state, "no-plugins"),
        plugin_config_path=proxy.plugin_config_path,
        policy_path=proxy.policy_path,
        admin_socket="",
    )
    return ProxySettings(
        listen=proxy.listen,
        runtime_endpoint=proxy.runtime_endpoint,
        state=proxy.state,
        skip_label_key=key,
        skip_label_value=value,
        nri=plugins,
    )


def _connect_adaptation(adaptation: Adaptation, runtime_end: socket.socket, plugin_end: socket.socket) -> None:
    """Pass one end of a connection to the adaptation. Close both ends if the adaptation refuses it."""
    try:
        adaptation.connect(runtime_end)
    except BaseException:
        runtime_end.close()
        plugin_end.close()
        raise
