"""Requirements on this machine, and the cache of built and downloaded files.

A missing requirement is a `MissingError`, whose text names the next step. Only `ensure_packages` changes the system.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Say = Callable[[str], None]
"""Takes one line of progress for a person."""

#: How many times as long as usual everything may take: an emulated machine is slow (tools/guest).
PATIENCE = float(os.environ.get("NRI_PATIENCE", "1"))
# Debian package -> the file that shows that it is installed. The first runs containers, the second
# gives pods their own network; then our engine's other requirements, and those of a kernel build.
PACKAGES = {
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "conmon": "conmon",
    "skopeo": "skopeo",
    "umoci": "umoci",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz-utils": "xz",
    "ethtool": "ethtool",
    "e2fsprogs": "mkfs.ext4",
}
#: What a containerd needs of them.
FOR_CONTAINERD = ("runc", "containernetworking-plugins")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class MissingError(Exception):
    """Something that this machine lacks. `what` names it, `hint` is the next step."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}: {hint}")
        self.what = what
        self.hint = hint


def cache_dir() -> Path:
    """The directory of built and downloaded tools, made if absent: `$NRI_CACHE` or the user's cache.

    If it cannot be created, builds into it fail with the reason.
    """
    home_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("NRI_CACHE") or Path(home_cache) / "nri-dev")
    with suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
    return path


def architecture() -> str:
    """Debian's and Go's word for this machine, such as `amd64`."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise MissingError(f"a machine of type {' or '.join(ARCHITECTURES)}", f"this is {machine}")
    return ARCHITECTURES[machine]


def require_root() -> None:
    """Raise `MissingError` unless running as root with a writable cgroup tree."""
    if os.geteuid() != 0:
        raise MissingError("root", "containers need it; run the command again with sudo")
    if not any(os.access(path, os.W_OK) for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")):
        raise MissingError("a writable /sys/fs/cgroup", "inside a container, start that with --privileged")


def find_tool(name: str) -> str | None:
    """The path of a program or file, also in the places that a plain PATH leaves out."""
    if name.startswith("/"):
        return name if os.path.exists(name) else None
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin")


def ensure_packages(say: Say, packages: Iterable[str] = FOR_CONTAINERD) -> None:
    """Install the Debian packages that are missing. Needs root, apt-get and a mirror."""
    absent = [name for name in packages if not find_tool(PACKAGES[name])]
    if not absent:
        return
    apt = find_tool("apt-get")
    if not apt or os.geteuid() != 0:
        raise MissingError(" and ".join(absent), "install with the system's package manager, as root")
    say(f"installing {', '.join(absent)} (apt-get install)")
    command = [apt, "install", "-y", "-qq", "--no-install-recommends", *absent]
    problem = _apt(command)
    if problem is not None:
        # A fresh machine or image has no package lists, or lists that are too old.
        problem = _apt([apt, "update", "-qq"]) or _apt(command)
    if problem is not None:
        raise MissingError(" and ".join(absent), f"apt-get install failed: {problem}")


def _apt(command: list[str]) -> str | None:
    """Run apt; None when it worked, else what was wrong."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return None if process.returncode == 0 else apt_problem(process.stderr)


def apt_problem(errors: str) -> str:
    """What apt complained about first; its last line only sums up."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return re.sub(r"^[WE]: ", "", lines[0]) if lines else "no output"


def last_line(text: str) -> str:
    """The last line that is not blank, for an error message of one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Hold one name in the cache, so that two processes never make the same thing at once."""
    with open(cache_dir() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
