"""This machine's root directory, read-only, for a guest: virtiofsd over bind mounts that nobody else sees.

Rules: the mounts are in a namespace of virtiofsd's own, so that they go with it; only file systems that the guest
needs are in it, never /proc or /sys. Next: `machine`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tools.runtimes.machine import MissingError, find_tool, last_line

#: Debian 12 has it in qemu-system-common, later ones in a package of its own.
DAEMONS = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
START_TIMEOUT_S = 20.0
# $1: where the root is put together; then: file systems to put there, `--`, and the command.
_SCRIPT = """
set -e
target=$1; shift
while [ "$1" != -- ]; do
    mount --bind "$1" "$target$1"
    mount -o remount,bind,ro "$target$1"
    shift
done
shift
ulimit -n "$(ulimit -H -n)"
exec "$@"
"""


def start_sharing(folder: Path, needed: Iterable[Path]) -> subprocess.Popen[bytes]:
    """Serve the root on `folder`/share.sock, with the file systems that hold the `needed` paths.

    Ends with this process at the latest. `MissingError` says why it does not run.
    """
    daemon = next((path for path in DAEMONS if find_tool(path)), None)
    if daemon is None:
        raise MissingError("virtiofsd", "install the package qemu-system-common (Debian 12) or virtiofsd")
    target, socket = folder / "root", folder / "share.sock"
    target.mkdir()
    # A file handle for each file that the guest has seen; without readdirplus these are fewer.
    options = f"source={target},cache=always,sandbox=chroot,no_readdirplus"
    served = [daemon, f"--socket-path={socket}", "--rlimit-nofile=0", "-o", options]
    with open(folder / "share.log", "wb") as log:
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"),
                *("sh", "-c", _SCRIPT, "share", str(target), *_file_systems(needed), "--", *served),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise MissingError("a root for the guest", f"{daemon}: {last_line((folder / 'share.log').read_text())}")
        time.sleep(0.01)
    return process


def _file_systems(needed: Iterable[Path]) -> list[str]:
    """The mount points of the root and of these paths, each after those above it."""
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    found = {"/"}
    for path in (*needed, Path(sys.prefix), Path(sys.base_prefix)):
        real = path.resolve()
        found |= {str(folder) for folder in (real, *real.parents) if str(folder) in mounts}
    return sorted(found)
