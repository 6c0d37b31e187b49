"""Debian's kernel for cloud machines, of a suite that has a new one, unpacked into the cache.

Rules: one kernel for each suite and architecture, kept until the cache is emptied; its modules have the index that
modprobe reads. It is a kernel that boots from virtiofs without an initial RAM disk. Next: `share`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.runtimes import debs
from tools.runtimes.machine import MissingError, Say, architecture, cache_dir, cache_lock, find_tool, last_line

SUITE = "trixie"
PACKAGE = "linux-image-cloud-amd64"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A bootable kernel: its version, its image, and the folder that is the guest's /lib/modules/VERSION."""

    version: str
    image: Path
    modules: Path


def install(say: Say) -> Kernel:
    """The kernel, from the cache if it is there; `MissingError` says why it cannot be had."""
    if architecture() != "amd64":
        raise MissingError("a machine of type x86_64", "the guest's processor is emulated for that one only")
    folder = cache_dir() / f"kernel-{SUITE}-{architecture()}"
    with cache_lock(folder.name):
        if not folder.exists():
            _fill(folder, say)
    modules = next((folder / "usr/lib/modules").iterdir())
    return Kernel(modules.name, folder / f"boot/vmlinuz-{modules.name}", modules)


def _fill(folder: Path, say: Say) -> None:
    """Unpack the newest kernel beside its final place and move it there when it is complete."""
    say(f"fetching a kernel from Debian {SUITE} (35 MB, once)")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache_dir()) as scratch:
        content = Path(scratch, "content")
        content.mkdir()
        # The package of this name has nothing but a dependency on the newest kernel.
        newest = debs.unpack(PACKAGE, SUITE, content, Path(scratch, "apt")).depends[0]
        debs.unpack(newest, SUITE, content, Path(scratch, "apt"))
        version = newest.removeprefix("linux-image-")
        # busybox's depmod and modprobe want to find them below lib/.
        (content / "lib").symlink_to("usr/lib")
        _index(content, version)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)


def _index(root: Path, version: str) -> None:
    """Write modules.dep and its like."""
    busybox = find_tool("busybox")
    if busybox is None:
        raise MissingError("busybox", "install the package busybox-static")
    command = [busybox, "depmod", "-b", str(root), version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError("an index of the kernel's modules", last_line(done.stderr))
