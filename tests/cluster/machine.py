"""The cluster: a supervisor in its own network namespace runs the control plane and the nodes, and all end with it.

`serve` is the supervisor. A `Cluster` is its client: it reads the supervisor's state folder and enters its namespace.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from tests.kubernetes import build
from tests.kubernetes.control_plane import ControlPlane
from tests.peers.build import peer
from tools.nodes.machine import ROOT
from tools.runtimes import install
from tools.runtimes.config import pod_network
from tools.runtimes.images import BUSYBOX, PAUSE, image_archive
from tools.runtimes.machine import cache_dir

Json = dict[str, Any]
#: Runtimes of the nodes n1 and n2.
RUNTIMES = ("engine", "containerd")
START_TIMEOUT_S = 600.0
#: The port of the service "kubernetes", so that pods reach the API server without kube-proxy.
API_PORT = 443
#: The size of a node's disk; the file is sparse.
DISK_BYTES = 8 << 30
_SERVICE_ADDRESS = "10.96.0.1"
#: What kubectl prints if the API server is too slow on a busy machine, and how often it is run again then.
# "accessor error": kubectl wait fails so for a resource whose conditions are not written yet.
_BUSY = ("TLS handshake timeout", "request timed out", "i/o timeout", "in the time allotted", "accessor error")
_ATTEMPTS = 5
_NODE_SCRIPT = Path(__file__).with_name("node.sh")


def default_folder() -> Path:
    """Where the state of the cluster is."""
    return cache_dir() / "cluster"


class ClusterError(Exception):
    """The cluster did not come up, or it does not run."""


class Cluster:
    """A running cluster, by its state folder.

    Raises ClusterError if it does not run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid = supervisor(folder)
        if not self.pid:
            raise ClusterError("the cluster does not run: start it with `python -m tests.cluster up`")

    def kubectl(self, *words: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl; returns its output. Raises ClusterError with its message if it fails and `check` is set."""
        for _ in range(_ATTEMPTS):
            try:
                return self._call(build.program("kubectl"), words, stdin, check)
            except ClusterError as error:
                if not any(text in str(error) for text in _BUSY):
                    raise
                time.sleep(2)
        return self._call(build.program("kubectl"), words, stdin, check)

    def helm(self, *words: str) -> str:
        """Run helm; returns its output. Raises ClusterError with its message if it fails."""
        return self._call(peer("helm"), words)

    def _call(self, program: Path, words: Sequence[str], stdin: str = "", check: bool = True) -> str:
        environment = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": f"{self.folder}/api/kubeconfig"}
        command = ["nsenter", f"--target={self.pid}", "--net", str(program), *words]
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=300, env=environment, cwd=ROOT
        )
        if check and result.returncode != 0:
            raise ClusterError(f"{program.name} {' '.join(words)}: {result.stderr.strip()}")
        return result.stdout

    def get(self, *words: str) -> Json:
        """An object of the API."""
        answer: Json = json.loads(self.kubectl("get", *words, "-o", "json"))
        return answer

    def run(self, node: int, command: str, timeout_s: float = 120) -> str:
        """Run shell commands in a node as root; returns their output.

        Raises ClusterError if they fail or do not end in time.
        """
        commands, name = self.folder / f"n{node}/commands", uuid.uuid4().hex
        (commands / f"{name}.tmp").write_text(f"{command}\n")
        (commands / f"{name}.tmp").rename(commands / f"{name}.sh")
        code = commands / f"{name}.code"
        _wait_until(code.exists, f"n{node} did not end a command: {command}", timeout_s)
        output = (commands / f"{name}.output").read_text(errors="replace")
        if code.read_text().strip() != "0":
            raise ClusterError(f"n{node}: {command}: status {code.read_text().strip()}: {output}")
        return output

    def ready_nodes(self) -> list[str]:
        """The names of nodes that are Ready."""
        answer = json.loads(self.kubectl("get", "nodes", "-o", "json", check=False) or '{"items": []}')
        return [node["metadata"]["name"] for node in answer["items"] if _is_ready(node)]

    def stop_node(self, node: int, *, power_cut: bool = False) -> None:
        """Shut a node down, or cut its power; returns when it has ended. Raises ClusterError if it does not end."""
        folder = self.folder / f"n{node}"
        (folder / "off").touch()
        if power_cut:
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
        else:
            self.run(node, "(sleep 1; systemctl poweroff) > /dev/null 2>&1 &")
        _wait_until(lambda: not (folder / "pid").exists(), f"n{node} did not end", 300)

    def start_node(self, node: int) -> None:
        """Start a node that was stopped, and wait until it is Ready. Raises ClusterError if it does not start."""
        name, folder = f"n{node}", self.folder / f"n{node}"
        last_boot = self.get("node", name)["status"]["nodeInfo"]["bootID"]
        (folder / "off").unlink()

        def is_ready() -> bool:
            answer = self.get("node", name)
            return _is_ready(answer) and answer["status"]["nodeInfo"]["bootID"] != last_boot

        _wait_until(is_ready, f"{name} is not Ready; see the logs in {folder}", START_TIMEOUT_S)


def _is_ready(node: Json) -> bool:
    return any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"]["conditions"])


def _wait_until(holds: Callable[[], object], problem: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise ClusterError(f"{problem} within {timeout_s:g} s")
        time.sleep(0.2)


def supervisor(folder: Path) -> int:
    """The process id of the supervisor; 0 if it does not run."""
    try:
        pid = int((folder / "pid").read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return 0
    return pid if b"tests.cluster" in words and str(folder).encode() in words else 0


def end_on_sigterm() -> None:
    """Have SIGTERM raise SystemExit once: a second signal would interrupt the end of the children."""

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)


def serve(folder: Path) -> int:
    """Run the control plane and the nodes until SIGTERM. The namespace is this process's alone, and ends with it."""

    end_on_sigterm()
    (folder / "pid").write_text(f"{os.getpid()}\n")
    # By the first argument the API server calls a webhook at its pod's address: no kube-proxy runs here. By the second
    # it accepts privileged containers, as other clusters do: the chart's patchConfig has one.
    arguments = ("--enable-aggregator-routing=true", "--allow-privileged=true")
    control_plane = ControlPlane(folder, print, arguments, for_pods=True, port=API_PORT)
    network = pod_network(folder)
    _set_up_network(f"{control_plane.address}/{network.prefixlen}", [str(network[10 + n]) for n in (1, 2)])
    nodes: dict[int, subprocess.Popen[bytes]] = {}
    with closing(control_plane):
        try:
            control_plane.start()
            control_plane.start_controllers()
            kubeconfig = json.dumps(control_plane.kubeconfig_of(control_plane.token, control_plane.address))
            shutil.copytree(ROOT / "src", folder / "src")
            for number in range(1, len(RUNTIMES) + 1):
                (folder / f"n{number}/commands").mkdir(parents=True)
                (folder / f"n{number}/kubeconfig").write_text(kubeconfig)
                _make_disk(folder / f"n{number}/disk")
            words = {number: _node_words(folder, number, control_plane.address) for number in range(1, 3)}
            while True:
                for number, command in words.items():
                    if not _keep_node(folder / f"n{number}", nodes, number, command):
                        print(f"node n{number} ended: see its log", flush=True)
                        return 1
                time.sleep(0.5)
        finally:
            for node in nodes.values():
                node.terminate()
            for node in nodes.values():
                node.wait()


def _make_disk(path: Path) -> None:
    with open(path, "wb") as disk:
        disk.truncate(DISK_BYTES)
    subprocess.run(
        ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", path],
        check=True,
        timeout=60,
        capture_output=True,
    )


def _node_words(folder: Path, number: int, api: str) -> list[str]:
    """The command of a node's job."""
    network = pod_network(folder)
    return [
        *("bash", str(_NODE_SCRIPT), str(number), RUNTIMES[number - 1], str(folder)),
        *(f"{network[10 + number]}/{network.prefixlen}", api, str(build.program("kubelet")), sys.executable),
        *(str(image_archive(print)), str(install("2.4", print).bin), BUSYBOX, PAUSE),
    ]


def _keep_node(folder: Path, nodes: dict[int, subprocess.Popen[bytes]], number: int, words: list[str]) -> bool:
    """Have a node run, or not run while its file `off` exists; returns whether it did not end by itself."""
    node, is_off = nodes.get(number), (folder / "off").exists()
    if node is not None and node.poll() is not None:
        del nodes[number]
        (folder / "pid").unlink()
        return is_off
    if node is None and not is_off:
        nodes[number] = _start_node(folder, f"u{number}", words)
        (folder / "pid").write_text(f"{nodes[number].pid}\n")
    return True


def _start_node(folder: Path, interface: str, words: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.cluster", "node", interface, str(folder / "disk"), *words]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _set_up_network(gateway: str, nodes: list[str]) -> None:
    """Make a bridge with a pair of interfaces for each node."""
    commands = ["ip link set lo up", "ip link add br0 type bridge", f"ip address add {gateway} dev br0"]
    commands += ["ip link set br0 up", f"ip address add {_SERVICE_ADDRESS}/32 dev lo"]
    for number, address in enumerate(nodes, 1):
        commands.append(f"ip link add h{number} type veth peer name u{number}")
        commands.append(f"ip link set h{number} master br0")
        for name in (f"h{number}", f"u{number}"):
            commands.append(f"ip link set {name} up")
            # Packets with unfinished checksums or segments would never arrive.
            commands.append(f"ethtool -K {name} tx off rx off sg off tso off gso off gro off")
        commands.append(f"ip route add 10.78.{number}.0/24 via {address}")
    for command in commands:
        result = subprocess.run(command.split(), capture_output=True, text=True, check=False, timeout=60)
        if result.returncode != 0 and not command.startswith("ethtool"):
            raise ClusterError(f"{command}: {result.stderr.strip()}")
