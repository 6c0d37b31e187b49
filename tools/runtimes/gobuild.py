"""Build a released containerd from its Go module, with the NRI library that our go.mod requires.

Versions and checksums are those of the checked-in go.mod and go.sum. No C compiler is needed. It takes about two
minutes on two cores the first time.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tools.runtimes.machine import MissingError, find_tool, last_line

COMMANDS = ("containerd", "containerd-shim-runc-v2", "ctr")
MODULE = "github.com/containerd/containerd/v2"
GO_HINT = "the Go toolchain builds this containerd; install it from go.dev or your distribution"


def find_go() -> str:
    """The path of the go command; `MissingError` without one."""
    go = find_tool("go") or find_tool("/usr/local/go/bin/go")
    if go is None:
        raise MissingError("go", GO_HINT)
    return go


def build(source: Path, target: Path) -> dict[str, str]:
    """Build the commands into `target`; return module -> version of what is in containerd."""
    go = find_go()
    packages = [f"{MODULE}/cmd/{name}" for name in COMMANDS]
    command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    # Niced: this takes every core for a while, and somebody may be working here.
    process = subprocess.run(
        ["nice", "-n", "10", *command, "-o", f"{target}/", *packages],
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise MissingError("a build of containerd", last_line(process.stderr))
    listing = subprocess.run(
        [go, "version", "-m", str(target / "containerd")], capture_output=True, text=True, check=True
    ).stdout
    return dict(re.findall(r"^\s+(?:mod|dep)\s+(\S+)\s+v?(\S+)", listing, re.MULTILINE))
