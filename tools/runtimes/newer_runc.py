"""Build runc 1.3 from its Go module, static and with seccomp: it supports what Debian's 1.1 silently ignores.

Versions and checksums are those of the checked-in go.mod and go.sum; the headers of libseccomp are unpacked next to
it. It takes less than a minute of one core the first time, and stays in the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.runtimes import debs
from tools.runtimes.gobuild import find_go
from tools.runtimes.machine import MissingError, Say, architecture, cache_dir, cache_lock, find_tool, last_line

GO_SOURCE = Path(__file__).resolve().parents[2] / "tests/engine/runc13"
MODULE = "github.com/opencontainers/runc"
#: The suite whose libseccomp is linked in; an older one, so that any C library has what it asks for.
SUITE = "bookworm"
_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=netgo,osusergo,seccomp")
_LINK = "-ldflags=-s -w -linkmode external -extldflags -static"


def install_runc(say: Say) -> Path:
    """The program, from the cache if it exists; `MissingError` has the reason."""
    sums = hashlib.sha256((GO_SOURCE / "go.sum").read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"runc-1.3-{sums}-{architecture()}"
    with cache_lock(folder.name):
        if not (folder / "runc").exists():
            _fill(folder, say)
    return folder / "runc"


def _fill(folder: Path, say: Say) -> None:
    """Make the folder next to its final place and move it there when it is complete."""
    for tool in ("gcc", "pkg-config"):
        if find_tool(tool) is None:
            raise MissingError(tool, f"runc is built with it; install the package {tool}")
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=cache_dir()))
    try:
        say("building runc 1.3 (under a minute, once)")
        headers = scratch / "headers"
        headers.mkdir()
        debs.unpack("libseccomp-dev", SUITE, headers, scratch / "apt")
        content = scratch / "content"
        content.mkdir()
        _build(content / "runc", headers)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _build(target: Path, headers: Path) -> None:
    folders = [str(path.parent) for path in headers.rglob("libseccomp.pc")]
    # Niced: a person may use this machine.
    process = subprocess.run(
        ["nice", "-n", "10", find_go(), "build", *_FLAGS, _LINK, "-o", str(target), MODULE],
        cwd=GO_SOURCE,
        env={
            **os.environ,
            "CGO_ENABLED": "1",
            "PKG_CONFIG_PATH": ":".join(folders),
            "PKG_CONFIG_SYSROOT_DIR": str(headers),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise MissingError("a build of runc", last_line(process.stderr))
