"""Build the kernel of user-mode nodes from Debian's source package: once, kept in the cache.

python -m tools.nodes.kernel    print its path; about twelve minutes on two quiet cores if it has to be built
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.runtimes import debs
from tools.runtimes.machine import (
    MissingError,
    Say,
    architecture,
    cache_dir,
    cache_lock,
    ensure_packages,
    find_tool,
    last_line,
)

CONFIG = Path(__file__).with_name("kernel.config")
#: The release whose newest kernel source has a user-mode kernel with two CPUs, and all controllers of cgroup v2.
SUITE = "forky"
#: Lines that a build prints for each object, such as `  CC      kernel/fork.o`.
_OBJECTS = 2300
_STEPS = 10
#: The exit code that tools/check.py takes for a machine that cannot build it.
CANNOT = 77


def path() -> Path:
    """Where the kernel is once it is built; another one after each change of its configuration."""
    fingerprint = hashlib.sha256(CONFIG.read_bytes()).hexdigest()[:12]
    return cache_dir() / f"node-kernel-{fingerprint}"


def install(say: Say) -> Path:
    """Return the kernel, built if it is not in the cache. Raises MissingError."""
    if architecture() != "amd64":
        raise MissingError("a machine of type x86_64", "user-mode Linux exists for that one only")
    kernel = path()
    with cache_lock(kernel.name):
        if not kernel.exists():
            ensure_packages(say, ("flex", "bison", "bc", "xz-utils"))
            with tempfile.TemporaryDirectory(prefix=".new-", dir=cache_dir()) as scratch:
                _build(Path(scratch), kernel, say)
    return kernel


def _build(scratch: Path, kernel: Path, say: Say) -> None:
    for tool in ("gcc", "make"):
        if find_tool(tool) is None:
            raise MissingError(tool, "install the package build-essential")
    say(f"fetching the kernel's source from Debian {SUITE} (160 MB, once)")
    package = debs.newest("linux-source-[0-9]", SUITE, scratch / "apt")
    debs.unpack(package, SUITE, scratch / "package", scratch / "apt")
    archive = scratch / f"package/usr/src/{package}.tar.xz"
    _run(["tar", "-xf", str(archive), "-C", str(scratch)], scratch)
    archive.unlink()
    source = scratch / package
    _run(["make", "ARCH=um", "defconfig"], source)
    _run(["scripts/kconfig/merge_config.sh", "-m", ".config", str(CONFIG)], source)
    _run(["make", "ARCH=um", "olddefconfig"], source)
    _make(source, say)
    _run(["strip", "-o", str(scratch / "linux"), "linux"], source)
    shutil.move(scratch / "linux", kernel)


def _make(source: Path, say: Say) -> None:
    """Compile, with a line of progress for each tenth. Niced: it takes all processors, and somebody may work here."""
    command = ["nice", "-n", "10", "make", "ARCH=um", f"-j{os.cpu_count()}", "linux"]
    start, objects = time.monotonic(), 0
    say("building the kernel of nodes (25 minutes of processor time, once)")
    with (
        open(source / "errors", "w+") as errors,
        subprocess.Popen(command, cwd=source, stdout=subprocess.PIPE, stderr=errors, text=True) as compiler,
    ):
        assert compiler.stdout is not None
        for _ in compiler.stdout:
            objects += 1
            if objects * _STEPS // _OBJECTS > (objects - 1) * _STEPS // _OBJECTS:
                say(f"  kernel: {100 * objects // _OBJECTS} %, {time.monotonic() - start:.0f} s")
        compiler.wait()
        errors.seek(0)
        if compiler.returncode != 0:
            raise MissingError("a kernel for nodes", f"make: {last_line(errors.read())}")
    say(f"  kernel: built in {time.monotonic() - start:.0f} s")


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError("a kernel for nodes", f"{command[0]}: {last_line(done.stderr or done.stdout)}")


def main() -> int:
    """Print the path of the kernel; returns the exit code."""
    try:
        print(install(lambda line: print(line, flush=True)))
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main())
