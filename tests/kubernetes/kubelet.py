"""One private kubelet: pods from manifests in a folder, or from an API server that it joins as a node.

Rules: its files and mounts lie in the run directory of the runtime that it drives, its cgroups in one of that
directory's name. The folders that it insists on elsewhere are empty ones in a mount namespace of its own; what it
mounts for pods reaches the runtime. Next: `client`, which asks it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes.client import KubeletClient
from tests.support.needs import need_tool
from tests.support.ports import HeldPort
from tools.runtimes.daemon import end_process
from tools.runtimes.mounts import unmount_all

NODE = "node"
LOGS = "logs"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
CGROUPS = Path("/sys/fs/cgroup")
#: Where kubelet writes whatever its configuration says.
ELSEWHERE = ("/var/log/containers", "/var/lib/kubelet")
#: Run in the new mount namespace, with kubelet and its arguments. The run directory's own mount stays shared.
APART = """
for at in / /run /tmp /usr /var /var/lib /var/log; do
    mountpoint -q "$at" && mount --make-private "$at"
done
for at in ELSEWHERE; do mount -t tmpfs tmpfs "$at"; done
exec "$@"
""".replace("ELSEWHERE", " ".join(ELSEWHERE))


class Kubelet:
    """A kubelet on a CRI socket; `start()` it, write to `manifests`, ask its `client`, `close()` it."""

    def __init__(
        self,
        program: Path,
        cri_socket: Path,
        run_dir: Path,
        kubeconfig: Path | None = None,
        address: str = "127.0.0.1",
        gates: Sequence[str] = (),
        token: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """With a token nobody is answered without one, and the API server says what its owner may.

        `more` of the KubeletConfiguration goes before what tests have.
        """
        self.run_dir = run_dir
        self.folder = run_dir / "kubelet"
        self.manifests = self.folder / "manifests"
        self.log = self.folder / "log"
        self._program = program
        self._made: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None
        for path in (self.manifests, self.folder / "root", self.folder / "pki", self.folder / "plugins"):
            path.mkdir(parents=True)
        self._port = HeldPort()
        port = self._port.number
        self.client = KubeletClient(port, address, token)
        settings = configuration(self.folder, cri_socket, cgroup_root=f"/{run_dir.name}", port=port)
        settings["featureGates"] = dict.fromkeys(gates, True)
        self._join: dict[str, str] = {}
        if kubeconfig is not None:
            settings |= joining(address)
            self._join = {"--kubeconfig": str(kubeconfig), "--node-ip": address}
        if token:
            settings |= guarded()
        (self.folder / "config.json").write_text(json.dumps(settings | dict(more or {}), indent=1))

    def start(self) -> None:
        """Start it and wait until it tells its pods."""
        make_cgroup(self.run_dir.name)
        for path in ELSEWHERE:
            if not Path(path).exists():
                Path(path).mkdir()
                self._made.append(Path(path))
        subprocess.run([need_tool("mount"), "--make-shared", str(self.run_dir)], check=True, timeout=10)
        arguments = {
            "--config": f"{self.folder}/config.json",
            "--root-dir": f"{self.folder}/root",
            "--cert-dir": f"{self.folder}/pki",
            "--hostname-override": NODE,
            "--v": "4",
            **self._join,
        }
        apart = [need_tool("unshare"), "--mount", "--propagation", "unchanged", "/bin/sh", "-euc", APART, "sh"]
        # Each path is a word of its own, so that a sweep of what is left finds this process.
        words = [*apart, str(self._program), *(word for row in arguments.items() for word in row)]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.client.answers():
            assert self._process.poll() is None, f"kubelet ended:\n{self.complaints()}"
            assert time.monotonic() < deadline, f"kubelet did not serve in {START_TIMEOUT_S:g} s:\n{self.complaints()}"
            time.sleep(0.05)

    def stop(self) -> None:
        """End it with SIGTERM; its pods run on."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL; its pods run on."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it and unmount what it left mounted; the run directory's owner removes the rest."""
        self._end(signal.SIGKILL)
        self._port.close()
        unmount_all(self.folder)
        for path in self._made:
            with contextlib.suppress(OSError):
                path.rmdir()

    def complaints(self, count: int = 15) -> str:
        """The last errors of its log, or its last lines if there are none."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if line.startswith(("E", "F"))][-count:] or lines[-count:])

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        end_process(process, number, STOP_TIMEOUT_S)


def configuration(folder: Path, cri_socket: Path, *, cgroup_root: str, port: int) -> dict[str, Any]:
    """The KubeletConfiguration. What a shared machine without swap control, iptables and cgroup v2 can do."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{cri_socket}",
        "imageServiceEndpoint": f"unix://{cri_socket}",
        "staticPodPath": str(folder / "manifests"),
        "podLogsDir": str(folder / LOGS),
        "volumePluginDir": str(folder / "plugins"),
        # No API server.
        "registerNode": False,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "address": "127.0.0.1",
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "enableServer": True,
        "enableDebuggingHandlers": True,
        # Cgroups of pods as on a node, below the run's own one.
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        # This machine is not kubelet's.
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "protectKernelDefaults": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": "/etc/resolv.conf",
        # Tests wait for it.
        "fileCheckFrequency": "1s",
        "syncFrequency": "5s",
        # Small enough to be rotated in a test.
        "containerLogMaxSize": "256Ki",
        "containerLogMonitorInterval": "3s",
    }


def joining(address: str) -> dict[str, Any]:
    """What is different with an API server, which calls this node at that address."""
    return {
        "registerNode": True,
        "address": address,
        "nodeStatusUpdateFrequency": "2s",
        # Configuration that pods mount is looked at each time they are synchronized.
        "configMapAndSecretChangeDetectionStrategy": "Get",
    }


def guarded() -> dict[str, Any]:
    """What is different where callers are asked who they are, as on a node of a cluster."""
    return {
        "address": "0.0.0.0",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
    }


def make_cgroup(name: str) -> None:
    """Make the cgroup that pods shall be below, in each hierarchy; cpusets with all that their parents have."""
    tops = [CGROUPS] if (CGROUPS / "cgroup.procs").exists() else sorted(CGROUPS.iterdir())
    for top in tops:
        if top.is_symlink() or not (top / "cgroup.procs").exists():
            continue
        (top / name).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if top != CGROUPS and (top / file).exists():
                (top / name / file).write_text((top / file).read_text())
