"""A node with a real systemd, in separate namespaces, for programs that call systemd.

The root of a `SystemdNode` is a folder with this machine's /usr, read-only, and a separate /etc. Systemd starts only
the units that a test has written there. `from_pod` runs `nri` like the container of a pod that has the node's root
mounted; with `pids` it sees the node's processes, like a container with `hostPID: true`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from tests.support.waiting import wait_for
from tools.compiled import ROOT

#: Of this machine, read-only at the same places.
_BOUND = ("/usr", str(ROOT), *({os.path.realpath(sys.prefix)} - {"/usr"}))
_FOLDERS = ("etc/systemd/system", "proc", "sys", "dev", "run", "tmp", "var/lib", "var/log")
_LINKS = ("bin", "sbin", "lib", "lib64")
_CGROUPS = Path("/sys/fs/cgroup")
_V2 = (_CGROUPS / "cgroup.procs").exists()
_HIERARCHIES = (
    ["."] if _V2 else [path.parent.name for path in _CGROUPS.glob("*/cgroup.procs") if not path.parent.is_symlink()]
)
#: A cgroup of its own in each, which is the root of systemd's; then it boots. "$1" is the node's root.
_ENTER = """
set -eu
for each in $HIERARCHIES; do
    own="/sys/fs/cgroup/$each/$NAME"
    mkdir "$own"
    if [ "$each" = cpuset ]; then
        for file in cpuset.cpus cpuset.mems; do cat "$own/../$file" > "$own/$file"; done
        echo 1 > "$own/cgroup.clone_children"
    fi
    echo $$ > "$own/cgroup.procs"
done
exec unshare --mount --pid --fork --cgroup --ipc --net --kill-child sh -c "$BOOT" sh "$1"
"""
#: In namespaces of its own: what is mounted goes with them.
_BOOT = """
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
for each in dev run tmp var/lib; do mount -t tmpfs tmpfs "$1/$each"; done
for each in $BOUND; do mkdir -p "$1$each"; mount --rbind -o ro "$each" "$1$each"; done
for each in null zero full random urandom tty; do touch "$1/dev/$each"; mount --bind "/dev/$each" "$1/dev/$each"; done
mkdir "$1/dev/pts" "$1/dev/shm" "$1/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
ln -s pts/ptmx "$1/dev/ptmx"
at="$1/sys/fs/cgroup"
[ "$HIERARCHIES" = . ] || mount -t tmpfs tmpfs "$at"
for each in $HIERARCHIES; do
    mkdir -p "$at/$each"
    case $each in
        .|unified) mount -t cgroup2 cgroup2 "$at/$each" ;;
        systemd) mount -t cgroup -o none,name=systemd cgroup "$at/$each" ;;
        *) mount -t cgroup -o "$each" cgroup "$at/$each" ;;
    esac
done
exec chroot "$1" env -i container=test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --unit=node.target
"""


class SystemdNode:
    """A node; in a `with` it runs.

    Args:
        root: a folder that is empty, for its root.
    """

    def __init__(self, root: Path) -> None:
        self.root, self._init = root, ""
        self._name = f"nri-test-{os.getpid()}-{root.name}"
        self._environment = {
            "PATH": "/usr/sbin:/usr/bin", "BOOT": _BOOT, "NAME": self._name, "BOUND": " ".join(_BOUND),
            "HIERARCHIES": " ".join(_HIERARCHIES),
        }  # fmt: skip
        for folder in _FOLDERS:
            (root / folder).mkdir(parents=True)
        for folder in _LINKS:
            (root / folder).symlink_to(f"usr/{folder}")
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
        self._process = subprocess.Popen(
            ("sh", "-c", _ENTER, "sh", str(self.root)),
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            wait_for(lambda: self._process.poll() is not None or self._runs(), "the node's start")
            assert self._process.poll() is None, self._process.communicate()[0]
        except BaseException:
            self.__exit__()
            raise
        return self

    def _runs(self) -> bool:
        self._init = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().strip()
        return bool(self._init) and self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        wait_for(lambda: not self._init or not Path(f"/proc/{self._init}").exists(), "the node's end")
        for hierarchy in _HIERARCHIES:
            cgroup_folder = _CGROUPS / hierarchy / self._name
            for folder in (*sorted(cgroup_folder.rglob("*/"), reverse=True), cgroup_folder):
                wait_for(partial(_removed, folder), f"{folder} without processes")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the node on it."""
        return self._enter("chroot", str(self.root), *words)

    def from_pod(self, *words: str, pids: bool) -> subprocess.CompletedProcess[str]:
        """Run `nri` next to the node's root, `root`."""
        nri = (sys.executable, "-m", "nri", *words)
        return self._enter(*(() if pids else ("unshare", "--pid", "--fork")), *nri)

    def _enter(self, *words: str) -> subprocess.CompletedProcess[str]:
        enter = ("nsenter", f"--target={self._init}", "--mount", "--pid", "--cgroup", "--ipc", "--net", "--", *words)
        return subprocess.run(enter, capture_output=True, text=True, check=False, timeout=120)

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()


def _removed(folder: Path) -> bool:
    """Remove a cgroup; the kernel says that it is busy for as long as it has processes that end."""
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
