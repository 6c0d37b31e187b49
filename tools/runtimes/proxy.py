"""A private CRI proxy of this project, `nri proxy`, in front of a private runtime with NRI disabled.

It has the interface of a runtime. Either half can be killed and started alone.
"""

from __future__ import annotations

import contextlib

from tools.runtimes.daemon import Daemon, Runtime
from tools.runtimes.engine import PROGRAM
from tools.runtimes.machine import PATIENCE

__all__ = ["Proxied"]

#: How long plugins have for a request, in seconds: a busy machine may not run one for longer than a node would wait.
PLUGIN_TIMEOUT_S = 10.0 * PATIENCE


class Proxied(Daemon):
    """A proxy and its runtime; `start()` both, drive them through `.cri`, `close()` them.

    The files are in the runtime's `run_dir`: `proxy.sock` for the kubelet, `proxy-nri.sock` and `proxy-admin.sock`
    for plugins and `nri why`, `kept/`, `proxy.toml`, `proxy.log`. `more` is added to the settings.
    """

    def __init__(self, runtime: Runtime, more: str = "") -> None:
        self.runtime = runtime
        super().__init__("proxy", runtime.run_dir / "proxy.sock", runtime.run_dir / "proxy.log")
        self.nri_socket = self.run_dir / "proxy-nri.sock"
        self.admin_socket = self.run_dir / "proxy-admin.sock"
        self.plugin_dir = runtime.plugin_dir
        self.state = self.run_dir / "kept"
        self.policy = self.run_dir / "proxy-policy.toml"
        self._settings = self.run_dir / "proxy.toml"
        self._settings.write_text(self._text(more))

    def start(self) -> None:
        """Start both, or what of them does not run."""
        if not self.cri_answers():
            self.runtime.start()
        self.start_proxy()

    def cri_answers(self) -> bool:
        """Whether the runtime itself serves."""
        with contextlib.suppress(RuntimeError):
            return self.runtime.cri.answers()
        return False

    def start_proxy(self) -> None:
        """Start the proxy and wait until it serves."""
        self._begin([*PROGRAM, "proxy", "--config", self._settings], PYTHONUNBUFFERED="1")

    def stop_proxy(self) -> None:
        """End the proxy with SIGTERM."""
        super().stop()

    def kill_proxy(self) -> None:
        """End the proxy with SIGKILL, as a crash would."""
        super().kill()

    def stop(self) -> None:
        """End both with SIGTERM; pods and containers stay."""
        self.stop_proxy()
        self.runtime.stop()

    def kill(self) -> None:
        """End both with SIGKILL; pods and containers stay."""
        self.kill_proxy()
        self.runtime.kill()

    def close(self) -> None:
        """End everything and remove every trace."""
        with contextlib.suppress(Exception):
            self.kill_proxy()
        self.runtime.close()

    def _text(self, more: str) -> str:
        return f"""\
listen = "{self.cri_socket}"
runtime_endpoint = "{self.runtime.cri_socket}"
state = "{self.state}"
{more}

[nri]
socket_path = "{self.nri_socket}"
plugin_path = "{self.plugin_dir}"
plugin_config_path = "{self.runtime.plugin_config_dir}"
plugin_request_timeout = "{PLUGIN_TIMEOUT_S:g}s"
admin_socket = "{self.admin_socket}"
policy_path = "{self.policy}"
"""
