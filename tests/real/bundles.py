"""Containers made straight from an OCI spec with runc, without an engine: a root file system, a spec, a run."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.needs import need_tool
from tools.runtimes.machine import PATIENCE

_TOOLS = ("sh", "cat", "env", "ls", "stat", "sleep", "hostname", "readlink", "ulimit", "mount", "touch", "echo", "id")
V1 = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
# On cgroup v2 a container sees its own cgroup as the root of the tree only in a namespace, which all runtimes give it.
_NAMESPACES = ("pid", "mount", "ipc", "uts", "network", *(() if V1 else ("cgroup",)))
_CAPABILITIES = ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_CHOWN", "CAP_DAC_OVERRIDE"]


def rootfs(folder: Path) -> Path:
    """A root file system with a shell, made of the machine's busybox, which needs no libraries."""
    busybox = need_tool("busybox")
    for name in ("bin", "proc", "dev", "sys", "tmp", "data"):
        (folder / name).mkdir(parents=True)
    shutil.copy(busybox, folder / "bin/busybox")
    for tool in _TOOLS:
        (folder / "bin" / tool).symlink_to("busybox")
    return folder


def wait_own_process(pid: int) -> None:
    """Wait until a container's process is its own: its start is told a moment before runc's becomes it."""
    deadline = time.monotonic() + 20 * PATIENCE
    # Just when it becomes it, it has no command line at all.
    while b"runc\0init" in (words := Path(f"/proc/{pid}/cmdline").read_bytes()) or not words:
        assert time.monotonic() < deadline, "it is still runc's"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Bundles:
    """Runs containers of one root file system with runc, or crun. Ids are its own, and so are the runtime's records."""

    folder: Path
    root: Path
    runtime: str = "runc"

    def spec(self, command: str) -> dict[str, Any]:
        """The spec of a container that runs a shell command, before anything is adjusted."""
        sets = ("bounding", "effective", "permitted")
        return {
            "ociVersion": "1.0.2",
            "process": {
                "args": ["sh", "-c", command],
                "cwd": "/",
                "user": {"uid": 0, "gid": 0},
                "env": ["PATH=/bin", "FROM=image"],
                "capabilities": dict.fromkeys(sets, _CAPABILITIES),
            },
            "root": {"path": str(self.root)},
            "hostname": "before",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
                {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
                {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]},
            ],
            "linux": {
                "cgroupsPath": f"/nri-oci-{uuid.uuid4().hex[:8]}",
                "namespaces": [{"type": kind} for kind in _NAMESPACES],
                "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            },
        }

    def call(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """What the runtime, and a container that it runs, print. AssertionError with their words if it fails."""
        command = [need_tool(self.runtime), "--root", str(self.folder / self.runtime), *arguments]
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=60 * PATIENCE, check=False
        )
        assert not check or result.returncode == 0, f"{arguments[0]}: {result.stdout}{result.stderr}"
        return result.stdout

    def run(self, spec: dict[str, Any]) -> str:
        """Run a container to its end; what it printed."""
        name = spec["linux"]["cgroupsPath"].rpartition("/")[2]
        try:
            return self.call("run", "--bundle", str(self.bundle(name, spec)), name)
        finally:
            self.call("delete", "--force", name, check=False)

    def start(self, bundle: str, name: str) -> None:
        """Run a container in the background. It keeps its streams, so they must not be ours to wait for."""
        command = [need_tool(self.runtime), "--root", str(self.folder / self.runtime), "run", "--detach"]
        subprocess.run(
            [*command, "--bundle", bundle, name],
            check=True,
            timeout=60 * PATIENCE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def bundle(self, name: str, spec: dict[str, Any]) -> Path:
        """A folder with config.json for runc."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(copy.deepcopy(spec)))
        return folder

    def cgroups(self, spec: dict[str, Any]) -> list[Path]:
        """The cgroup's folders that are there, of every hierarchy."""
        name = spec["linux"]["cgroupsPath"].lstrip("/")
        tops = [Path("/sys/fs/cgroup"), *(Path("/sys/fs/cgroup") / entry for entry in os.listdir("/sys/fs/cgroup"))]
        return [top / name for top in tops if (top / name).is_dir()]
