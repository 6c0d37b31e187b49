"""One private CRI proxy of this project, `nri proxy`, in front of a private runtime that has its own NRI switched off.

Rules: what a `Proxied` made is gone after `close()`; it looks like a runtime, so that whatever drives one
can drive this. Either half can be killed and started alone. Next: `cri` drives it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from tools.runtimes.containerd import Containerd
from tools.runtimes.cri import Cri
from tools.runtimes.engine import PROGRAM, READY, START_TIMEOUT_S, STOP_TIMEOUT_S, Engine
from tools.runtimes.machine import MissingError, last_line

__all__ = ["Proxied"]


class Proxied:
    """A proxy and its runtime; `start()` both, drive them through `.cri`, `close()` them.

    The files are in the runtime's `run_dir`: `proxy.sock` for the kubelet, `proxy-nri.sock` and `proxy-admin.sock`
    for plugins and `nri why`, `kept/`, `proxy.toml`, `proxy.log`. `more` is added to the settings.
    """

    def __init__(self, runtime: Containerd | Engine, more: str = "") -> None:
        self.runtime = runtime
        self.run_dir = runtime.run_dir
        self.cri_socket = self.run_dir / "proxy.sock"
        self.nri_socket = self.run_dir / "proxy-nri.sock"
        self.admin_socket = self.run_dir / "proxy-admin.sock"
        self.plugin_dir = self.run_dir / "plugins"
        self.log = self.run_dir / "proxy.log"
        self.state = self.run_dir / "kept"
        self.policy = self.run_dir / "proxy-policy.toml"
        self._settings = self.run_dir / "proxy.toml"
        self._settings.write_text(self._text(more))
        self._process: subprocess.Popen[bytes] | None = None
        self._cri: Cri | None = None

    @property
    def cri(self) -> Cri:
        """A client of the proxy; only while it runs."""
        if self._cri is None:
            raise RuntimeError("the proxy is not running: call start() first")
        return self._cri

    @property
    def pid(self) -> int:
        """The proxy's process; only while it runs."""
        if self._process is None:
            raise RuntimeError("the proxy is not running: call start() first")
        return self._process.pid

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
        with open(self.log, "ab") as log:
            lives = self._lives()
            self._process = subprocess.Popen(
                [*PROGRAM, "proxy", "--config", str(self._settings)],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._lives() == lives:
            if self._process.poll() is not None:
                raise MissingError("a running proxy", f"it ended: {last_line(self.log.read_text())}")
            if time.monotonic() > deadline:
                raise MissingError("a running proxy", f"it did not serve within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.02)
        self._cri = Cri(self.cri_socket, self.run_dir.name)

    def stop_proxy(self) -> None:
        """End the proxy with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill_proxy(self) -> None:
        """End the proxy with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

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
            self._end(signal.SIGKILL)
        self.runtime.close()

    def log_lines(self, words: str) -> list[str]:
        """The lines of the proxy's log with these words."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if words in line]

    # --- inside ---

    def _lives(self) -> int:
        return len(self.log_lines(READY)) if self.log.exists() else 0

    def _text(self, more: str) -> str:
        return f"""\
listen = "{self.cri_socket}"
runtime_endpoint = "{self.runtime.cri_socket}"
state = "{self.state}"
{more}

[nri]
socket_path = "{self.nri_socket}"
plugin_path = "{self.plugin_dir}"
plugin_config_path = "{self.run_dir}/conf.d"
admin_socket = "{self.admin_socket}"
policy_path = "{self.policy}"
"""

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if self._cri is not None:
            self._cri.close()
            self._cri = None
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
