"""A node with a real systemd, in namespaces of its own: for what asks the node's systemd for something.

One job: :class:`SystemdNode`. Its root is a folder with this machine's /usr, read-only, and an /etc of its own, and
systemd starts nothing but what a test has written there. `from_pod` runs `nri` as a pod's container that has the node's
root mounted would; `pids` says whether it sees the node's processes, as one with `hostPID: true` does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.support.waiting import wait_for

_FOLDERS = ("usr", "etc/systemd/system", "proc", "sys", "dev", "run", "tmp", "var/lib", "var/log")
_LINKS = ("bin", "sbin", "lib", "lib64")
_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
#: In namespaces of its own; "$1" is the root. What is mounted goes with them.
_BOOT = """
set -eu
mount --make-rprivate /
mount --rbind -o ro /usr "$1/usr"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
for each in dev run tmp var/lib; do mount -t tmpfs tmpfs "$1/$each"; done
for each in null zero full random urandom; do touch "$1/dev/$each"; mount --bind "/dev/$each" "$1/dev/$each"; done
if [ "$3" ]; then mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"; else
    mount -t tmpfs tmpfs "$1/sys/fs/cgroup"; mkdir "$1/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$1/sys/fs/cgroup/systemd"
fi
exec chroot "$1" env -i container=test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --unit=node.target
"""
#: It begins in a cgroup of its own, "$2", which is the root of systemd's.
_ENTER = """
mkdir "$2" && echo $$ > "$2/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --ipc --kill-child sh -c "$0" sh "$@"
"""


class SystemdNode:
    """A node; in a `with` it runs.

    Args:
        root: a folder that is empty, for its root.
    """

    def __init__(self, root: Path) -> None:
        self.root, self._init = root, ""
        unified = _UNIFIED.exists()
        self._cgroup = Path("/sys/fs/cgroup", "" if unified else "systemd", f"nri-test-{root.name}")
        self._words = ["sh", "-c", _ENTER, _BOOT, str(root), str(self._cgroup), "yes" if unified else ""]
        for each in _FOLDERS:
            (root / each).mkdir(parents=True)
        for each in _LINKS:
            (root / each).symlink_to(f"usr/{each}")
        (root / "var/run").symlink_to("/run")
        (root / "etc/machine-id").write_text(f"{1:032x}\n")
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\n")
        self.unit("node.target", "[Unit]\nDefaultDependencies=no\n")

    def unit(self, name: str, text: str) -> None:
        """Write a unit, or a part of one."""
        path = self.root / "etc/systemd/system" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: self._process.poll() is not None or self._runs(), "the node's start")
        assert self._process.poll() is None, self._process.communicate()[0]
        return self

    def _runs(self) -> bool:
        self._init = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().strip()
        return bool(self._init) and self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        wait_for(lambda: not self._init or not Path(f"/proc/{self._init}").exists(), "the node's end")
        for folder in sorted(self._cgroup.rglob("*/"), reverse=True):
            folder.rmdir()
        self._cgroup.rmdir()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the node on it."""
        return self._enter("chroot", str(self.root), *words)

    def from_pod(self, *words: str, pids: bool) -> subprocess.CompletedProcess[str]:
        """Run `nri` beside the node's root, `root`."""
        nri = (sys.executable, "-m", "nri", *words)
        return self._enter(*(() if pids else ("unshare", "--pid", "--fork")), *nri)

    def _enter(self, *words: str) -> subprocess.CompletedProcess[str]:
        enter = ("nsenter", f"--target={self._init}", "--mount", "--pid", "--cgroup", "--ipc", "--", *words)
        return subprocess.run(enter, capture_output=True, text=True, check=False, timeout=120)

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()
