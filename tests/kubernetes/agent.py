"""The agent on a node that has joined an API server, as `nri agent run` in a process of its own, with the least rights.

The agent finds the node's pods at the top of the cgroup tree, as on a separate node, through a root path with
bind mounts; it uses the API with the shipped service account.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import CGROUPS, NODE
from tests.support.needs import need_tool
from tools.runtimes.mounts import unmount

REPOSITORY = Path(__file__).parents[2]
ROLES = REPOSITORY / "deploy/agent/rbac.yaml"
RESOURCES = REPOSITORY / "tests/apiserver/crds.yaml"
_READY_S, _END_S = 30.0, 20.0


@contextmanager
def root_of(cluster: Cluster) -> Iterator[Path]:
    """A root path in which the run's own cgroup is the top of each hierarchy, and is also found by its own name.

    So the agent finds the node's pods in the folders of a kubelet, which are also those that the runtime reports.
    """
    cgroup = cluster.runtime.run_dir.name
    folder = cluster.runtime.run_dir / "root"
    places = [(Path("/proc"), folder / "proc"), (Path("/sys/devices"), folder / "sys/devices")]
    for top in sorted(CGROUPS.iterdir()):
        if (top / cgroup).is_dir() and not top.is_symlink():
            local = folder / f"sys/fs/cgroup/{top.name}"
            places += [(top / cgroup, local), (top / cgroup, local / cgroup)]
    with ExitStack() as stack:
        for source, target in places:
            target.mkdir(parents=True, exist_ok=True)
            words = [need_tool("mount"), "--bind", str(source), str(target)]
            subprocess.run(words, check=True, timeout=10)
            stack.callback(unmount, target)
        yield folder


def account(cluster: Cluster) -> Path:
    """Set the shipped roles up, and return a kubeconfig of the agent's account."""
    api = cluster.api
    api.create_crds("-f", str(RESOURCES), "-f", str(ROLES))
    token = api.kubectl("create", "token", "nri-agent", "-n", "kube-system", "--duration=10h").stdout.strip()
    path = api.folder / "agent.kubeconfig"
    path.write_text(json.dumps(api.kubeconfig_of(token)))
    return path


class Agent:
    """The agent that runs; `start()` and `end()` it."""

    def __init__(self, cluster: Cluster, root: Path, kubeconfig: Path) -> None:
        folder = cluster.runtime.run_dir / "agent"
        folder.mkdir(exist_ok=True)
        self.socket, self.log, self._file = folder / "agent.sock", folder / "log", folder / "agent.toml"
        self._process: subprocess.Popen[bytes] | None = None
        self._file.write_text(f"""
modes = ["nri", "standalone"]
root = "{root}"
socket = "{self.socket}"
beside_koordlet = true

[gates]
CPUNormalization = true
BECPUSuppress = false

[nri]
socket = "{cluster.runtime.nri_socket}"

[standalone]
interval = "1s"
cgroup_driver = "cgroupfs"

[rules]
source = "apiserver"
kubeconfig = "{kubeconfig}"
node_name = "{NODE}"

[pods]
source = "apiserver"
""")

    def start(self) -> None:
        """Start it and wait until it is ready."""
        words = [sys.executable, "-m", "nri", "agent", "run", "--config", str(self._file)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NRI_")}
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
        deadline = time.monotonic() + _READY_S
        while self.ask("/readyz")[0] != 200:
            assert self._process.poll() is None, f"the agent ended:\n{self.story()}"
            assert time.monotonic() < deadline, f"the agent is not ready:\n{self.ask('/readyz')[1]}\n{self.story()}"
            time.sleep(0.05)

    def ask(self, path: str) -> tuple[int, str]:
        """The status and the text that it answers on its socket; 0 and the reason if it does not."""
        connection = http.client.HTTPConnection("agent", timeout=10)
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self.socket))
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(_END_S)

    def story(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])


@contextmanager
def running_agent(cluster: Cluster) -> Iterator[Agent]:
    """An agent on the node, ready; gone at the end."""
    with root_of(cluster) as root:
        agent = Agent(cluster, root, account(cluster))
        try:
            agent.start()
            yield agent
        finally:
            agent.end(signal.SIGKILL)
