"""What the engine's tests put onto the machine, and what must be gone after each: counted before and after.

One job: :class:`Machine`, a folder of a test's own with bundles of a busybox container. Each container's id,
cgroup and bundle has the folder's name in it, so that all of it is found by that name, also after a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nri.engine.process import Conmon, Exit, Exits, Runtime
from nri.files import remove_tree
from tests.support.needs import need_root, need_tool
from tests.support.oci_runtimes import wrapped_crun
from tests.support.waiting import wait_for
from tools.runtimes.images import _static_busybox
from tools.runtimes.machine import PATIENCE

PREFIX = "nri-en-"


class Machine:
    """A folder, runtimes in it, and containers by name."""

    def __init__(self) -> None:
        need_root()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/run"))
        self.folder.chmod(0o711)  # as /var/lib and /run, which users of pods with a user namespace have to pass
        self.name = self.folder.name
        self.exits: list[Exit] = []
        self._watchers: list[Exits] = []
        self._descriptors = len(os.listdir("/proc/self/fd"))

    def runtime(self, name: str) -> Runtime:
        """runc or crun, with a root folder of its own."""
        binary = wrapped_crun(self.folder / "crun") if name == "crun" else need_tool(name)
        return Runtime(binary, self.folder / "state" / name)

    def conmon(self) -> Conmon:
        return Conmon(need_tool("conmon"))

    def watcher(self) -> Exits:
        """What one life of an engine would watch with; ends are added to `exits`."""
        self._watchers.append(Exits(self.exits.append))
        return self._watchers[-1]

    def container_id(self, name: str) -> str:
        return f"{self.name}-{name}"

    def bundle(self, name: str, *words: str, **process: Any) -> Path:
        """A bundle whose container runs these words with busybox."""
        folder = self.folder / "bundles" / self.container_id(name)
        binaries = folder / "rootfs/bin"
        binaries.mkdir(parents=True)
        shutil.copy(_static_busybox(print), binaries / "busybox")
        for applet in ("sh", "sleep", "echo", "cat", "stty", "kill", "true"):
            (binaries / applet).symlink_to("busybox")
        (folder / "config.json").write_text(json.dumps(self._spec(name, [*words], process)))
        return folder

    def _spec(self, name: str, words: list[str], process: dict[str, Any]) -> dict[str, Any]:
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance"]},
        ]  # fmt: skip
        return {
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": 0, "gid": 0}, "args": words, "cwd": "/", "env": ["PATH=/bin"], **process},
            "root": {"path": "rootfs"},
            "hostname": name,
            "mounts": mounts,
            "linux": {
                "cgroupsPath": f"/{self.name}/{name}",
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                "resources": {"memory": {"limit": 64 << 20}},
            },
        }

    def process_of(self, bundle: Path) -> dict[str, Any]:
        process_spec = json.loads((bundle / "config.json").read_text())["process"]
        assert isinstance(process_spec, dict)
        return process_spec

    def leftovers(self) -> list[str]:
        """All on this machine that has the folder's name: mounts, cgroups, processes."""
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if self.name in line]
        cgroups = [str(path) for path in self._cgroups() if path.name != self.name]
        return [*mounts, *cgroups, *(f"process {pid}: {line}" for pid, line in self.processes())]

    def _cgroups(self) -> list[Path]:
        tops = [*Path("/sys/fs/cgroup").glob(self.name), *Path("/sys/fs/cgroup").glob(f"*/{self.name}")]
        return [Path(folder) for top in tops for folder, _, _ in os.walk(top, topdown=False)]

    def processes(self) -> list[tuple[int, str]]:
        """Number and command line of each process with the folder's name in that, or in its cgroup."""
        actual = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                inside = self.name in (entry / "cgroup").read_text()
            except OSError:
                continue
            if (self.name in line or inside) and int(entry.name) != os.getpid():
                actual.append((int(entry.name), line))
        return actual

    def _opened(self) -> list[str]:
        """All open descriptors if they are more than at the start: gRPC closes a few of its own a moment late."""
        iterdir = [f"{path.name}: {os.readlink(path)}" for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return iterdir if len(os.listdir("/proc/self/fd")) > self._descriptors else []

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = 20) -> None:
        wait_for(condition, what, timeout_s)

    def close(self) -> None:
        """Take away all that has the folder's name, and say what a test should not have left."""
        for watcher in self._watchers:
            watcher.close()
        leftovers = settled(self.leftovers)
        deadline = time.monotonic() + 10
        while self.processes() and time.monotonic() < deadline:
            for pid, _ in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if self.name in line.split()[4]:
                subprocess.run(["umount", "-l", line.split()[4]], check=False, timeout=20)
        for path in self._cgroups():
            for _ in range(100):
                try:
                    path.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
        with contextlib.suppress(OSError):  # something of it is still mounted, and told below
            remove_tree(self.folder)
        assert leftovers == [], "this was left behind:\n" + "\n".join(leftovers)
        opened = settled(self._opened)
        assert opened == [], "these descriptors were left open:\n" + "\n".join(opened)


def settled(leftovers: Callable[[], list[str]]) -> list[str]:
    """What is left once the kernel has had a moment to end what was killed."""
    deadline = time.monotonic() + 20 * PATIENCE
    while (leftovers_ := leftovers()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return leftovers_
