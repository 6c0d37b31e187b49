"""Build released Kubernetes commands from their Go module: once, kept in the cache, with progress.

    python -m tests.kubernetes.build [COMMAND...]

Rules: versions and checksums are those of the checked-in go.mod and go.sum; nothing is resolved anew; no C compiler is
needed. A command that is built stays until go.sum changes. Six to seven minutes for kubelet alone on two cores, then
two for kube-apiserver and a few seconds for kubectl; seconds when Go's own build cache has them.
Next: `runtimes`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.runtimes.gobuild import find_go
from tools.runtimes.machine import MissingError, Say, cache_dir, cache_lock

SOURCE = Path(__file__).parent / "kubernetes134"
COMMANDS = ("kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
MODULE = "k8s.io/kubernetes"
#: Packages with a release's version, which the linker sets: otherwise kubelet reports v0.0.0 and clients refuse it.
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
#: What tools/check.py takes for a machine that cannot build it: no Go, no modules.
CANNOT = 77
#: Lines of progress for each build.
STEPS = 20


def version() -> str:
    """The release that go.mod asks for, such as ``v1.34.4``."""
    match = re.search(rf"^\s*{MODULE} (v[\d.]+)", (SOURCE / "go.mod").read_text(), re.MULTILINE)
    assert match is not None, f"go.mod asks for no {MODULE}"
    return match[1]


def installed(command: str) -> Path:
    """Where a command is once it is built."""
    fingerprint = hashlib.sha256((SOURCE / "go.sum").read_bytes()).hexdigest()[:12]
    return cache_dir() / f"kubernetes-{version()}-{fingerprint}" / command


def program(command: str) -> Path:
    """A command that is built already. Raises `MissingError`: a test must not wait ten minutes for the build."""
    path = installed(command)
    if not path.exists():
        raise MissingError(f"a {command} {version()}", "build it with: python -m tests.kubernetes.build")
    return path


def install(command: str, say: Say) -> Path:
    """Get a command, from the cache if possible. Raises `MissingError` with the reason if it cannot be built."""
    path = installed(command)
    with cache_lock(path.parent.name):
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as scratch:
                _build(command, Path(scratch, command), say)
                os.rename(Path(scratch, command), path)
    return path


def _build(command: str, target: Path, say: Say) -> None:
    """Compile one command; a line of progress for each twentieth of its packages."""
    go, package, begin = find_go(), f"{MODULE}/cmd/{command}", time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    listing = [go, "list", "-deps", package]
    listed = subprocess.run(listing, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    total = len(listed.stdout.splitlines())
    say(f"building {command} {version()}: {total} packages (up to ten minutes, once)")
    words = [go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", _linked(), "-o", str(target), package]
    # Niced: this takes every core for a while, and somebody may be working here.
    with subprocess.Popen(
        ["nice", "-n", "10", *words], cwd=SOURCE, env=environment, stderr=subprocess.PIPE, text=True
    ) as compiler:
        assert compiler.stderr is not None
        completed, other = 0, [line for line in listed.stderr.splitlines() if line]
        for line in compiler.stderr:
            if not re.fullmatch(r"[\w.~/-]+\n", line):
                other.append(line.strip())
                continue
            completed += 1
            if completed * STEPS // total > (completed - 1) * STEPS // total:
                say(f"  {command}: {100 * completed // total} %, {time.monotonic() - begin:.0f} s")
    if compiler.returncode != 0:
        raise MissingError(f"a build of {command}", "; ".join(other[-3:]) or "go build failed without a word")
    say(f"  {command}: built in {time.monotonic() - begin:.0f} s, {target.stat().st_size >> 20} MiB")


def _linked() -> str:
    """The linker's flags: no symbols, and what the release calls itself."""
    major, minor, _ = version().removeprefix("v").split(".")
    values = {
        "gitVersion": version(),
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "module",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    settings = [f"-X {package}.{name}={value}" for package in VERSION_PACKAGES for name, value in values.items()]
    return " ".join(["-s -w", *settings])


def main(commands: list[str]) -> int:
    """Build what is named, or all; returns the exit code."""
    unknown = [name for name in commands if name not in COMMANDS]
    if unknown:
        print(f"error: unknown command {unknown[0]}; known: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        for command in commands or COMMANDS:
            print(install(command, lambda line: print(line, flush=True)))
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
