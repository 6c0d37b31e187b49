"""The agent in each mode: its configuration, its process in a separate cgroup, and its resource usage.

`nri agent run` is started as by its unit, with rules and pods from the API server in every mode, and without the
strategies that sample the node, which are the same in all modes. One agent runs at a time. Its processor time is that
of its cgroup, from the first instruction.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.builds import ROOT, Build
from bench.studies.modes.node import CGROUPS, BenchNode
from bench.studies.plugins import memory
from tests.kubernetes.kubelet import NODE

NONE, NRI, PROXY, STANDALONE, BOTH = "no agent", "nri", "proxy", "standalone", "nri,standalone"
#: In the order of the tables; ratios are to the first. The last is the agent's default.
MODES = (NONE, NRI, PROXY, STANDALONE, BOTH)
_READY_S, _END_S = 30.0, 15.0


def configuration(node: BenchNode, folder: Path) -> str:
    """The agent's file."""
    runtime = node.cluster.runtime
    kubeconfig = node.cluster.plane.kubeconfig
    return f"""
root = "{node.root}"
socket = "{folder}/agent.sock"
log_level = "warning"
beside_koordlet = true

[gates]
CPUNormalization = true
BECPUSuppress = false
CPUBurst = false

[nri]
socket = "{runtime.nri_socket}"

[proxy]
listen = "{folder}/proxy.sock"
runtime_endpoint = "{runtime.cri_socket}"
state = "{folder}/state"
policy_path = ""

[standalone]
cgroup_driver = "cgroupfs"

[rules]
source = "apiserver"
kubeconfig = "{kubeconfig}"
node_name = "{NODE}"

[pods]
source = "apiserver"
cri = "{runtime.cri_socket}"
"""


class Agent:
    """An agent that runs."""

    def __init__(self, mode: str, node: BenchNode, folder: Path, *, compiled: bool) -> None:
        self.mode = mode
        self.proxy_socket = folder / "proxy.sock"
        self._socket = folder / "agent.sock"
        self._group = CGROUPS / "cpuacct" / node.pods_cgroup / "agent"
        self._group.mkdir(exist_ok=True)
        self._before = self._used()
        file = folder / "agent.toml"
        file.write_text(configuration(node, folder))
        self.log = folder / "agent.log"
        words = [sys.executable, "-m", "nri", "agent", "run", "--mode", mode, "--config", str(file)]
        # Into the cgroup before the first instruction.
        inside = f'echo $$ >{self._group}/cgroup.procs && exec "$@"'
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NRI_")}
        environment["PYTHONPATH"] = Build(ROOT, compiled=compiled).path()
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", inside, "sh", *words], stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def wait_ready(self) -> None:
        """Wait until the agent is ready. RuntimeError with its last lines if it does not become ready."""
        deadline = time.monotonic() + _READY_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the agent in mode {self.mode} is not ready:\n{self.story()}")
            time.sleep(0.02)

    def _ready(self) -> bool:
        """Whether /readyz on its socket answers 200."""
        connection = http.client.HTTPConnection("agent", timeout=5)
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self._socket))
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def story(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def cpu_ms(self) -> float:
        """Processor milliseconds that it has used since its start."""
        return self._used() - self._before

    def _used(self) -> float:
        return int((self._group / "cpuacct.usage").read_text()) / 1e6

    def memory_mib(self) -> tuple[float, float]:
        """Resident and proportional set size."""
        resident, proportional = memory(self._process.pid)
        return resident / 1024, proportional / 1024

    def stop(self) -> None:
        """End it with SIGTERM, or else by force."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@contextmanager
def in_mode(mode: str, node: BenchNode, folder: Path, *, compiled: bool) -> Iterator[Agent | None]:
    """Have the node run in a mode for as long as the block lasts; None is without an agent."""
    runtime = node.cluster.runtime
    if mode == NONE:
        node.point(runtime.cri_socket)
        yield None
        return
    folder.mkdir()
    agent = Agent(mode, node, folder, compiled=compiled)
    try:
        agent.wait_ready()
        node.point(agent.proxy_socket if mode == PROXY else runtime.cri_socket)
        yield agent
    finally:
        if mode == PROXY:
            node.point(runtime.cri_socket)  # before the socket that kubelet uses goes
        agent.stop()
