"""A base image for builds without a registry: this machine's Python, its libraries, and busybox for a shell.

Stands in for `docker.io/library/python`: what a Containerfile asks of that image is `python3` with venv, and a shell.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.needs import need_tool

#: Parts of the standard library that no build needs, and that would make the image twice as large.
LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "__pycache__", "idlelib", "tkinter", "site-packages", "dist-packages", "*.a", "config-*"
)
#: Libraries of the C library that compiled wheels ask for by name, though they have been parts of it for long.
OF_LIBC = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libm.so.6")
#: Libraries of C++, which Debian's slim image has because apt is written in it; google-re2 asks for them.
OF_CPP = ("libstdc++.so.6", "libgcc_s.so.1")
APPLETS = ("sh", "ln", "mkdir", "cat", "ls", "env", "rm", "cp", "chroot")


def lay_out(root: Path) -> None:
    """Put the files of the base image below `root`."""
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, root / stdlib.relative_to("/"), ignore=LEFT_OUT, symlinks=True)
    programs = [python, *stdlib.glob("lib-dynload/*.so")]
    libraries_ = libraries(programs)
    (libc,) = (file for file in libraries_ if file.name == "libc.so.6")
    for file in {python, *libraries_, *(libc.with_name(name) for name in OF_LIBC + OF_CPP)}:
        copy(file, root)
    if Path("/usr/share/python-wheels").is_dir():  # where Debian keeps what ensurepip installs
        shutil.copytree("/usr/share/python-wheels", root / "usr/share/python-wheels", dirs_exist_ok=True)
    link(root / "usr/local/bin/python3", str(python))
    copy(Path(need_tool("busybox")).resolve(), root, Path("/bin/busybox"))
    for applet in APPLETS:
        link(root / "bin" / applet, "/bin/busybox")
    for folder in ("tmp", "proc", "sys", "dev", "root", "etc", "var/run/nri"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")


def libraries(programs: list[Path]) -> set[Path]:
    """The shared libraries of programs, the dynamic linker included, under the names by which they are looked up."""
    paths = set()
    for program in programs:
        process = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        paths |= {Path(path) for path in re.findall(r"(/\S+) \(0x", process.stdout)}
    return paths


def copy(file: Path, root: Path, target: Path | None = None) -> None:
    """Copy a file, without links, to its own path below `root`."""
    place = root / (target or file).relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.realpath(file), place)


def link(place: Path, target: str) -> None:
    """Make a symbolic link."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
