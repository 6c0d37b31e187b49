"""Builds of this project's revisions: where their parts are, and how their processes start.

    Build(ROOT, compiled=True).argv("runtime")       # our runtime of the benchmarks, compiled
    Build(checkout("HEAD~5"), compiled=False)        # that of another revision, in a git worktree under build/bench

Each revision has its own sources, tools/compiled.py, bench/runtime.py and bench/plugin.py; the driver is always the
present one. Worktrees stay, so that the next run need not compile again; `make clean` removes them.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECKOUTS = ROOT / "build" / "bench"


class RevisionError(Exception):
    """A revision cannot be measured; the text has the reason."""


class Build(NamedTuple):
    """One build of one revision.

    Attributes:
        root: a checkout.
        compiled: whether mypyc compiles it.
    """

    root: Path
    compiled: bool

    def argv(self, role: str) -> list[str | Path]:
        """The command of the revision's "runtime" or "plugin"."""
        return ["/usr/bin/env", f"PYTHONPATH={self.path()}", sys.executable, self.root / "bench" / f"{role}.py"]

    def path(self) -> str:
        """PYTHONPATH for what runs this build; the compiled package is built now, if needed."""
        package = compiled(self.root) if self.compiled else self.root / "src"
        return os.pathsep.join((str(package), str(self.root)))


@functools.cache
def compiled(root: Path) -> Path:
    """The folder with a checkout's compiled package, built with its own tools. RevisionError if it cannot be."""
    process = subprocess.run(
        [sys.executable, root / "tools/compiled.py"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RevisionError(f"{root}: the compiled package cannot be built (see above)")
    return Path(process.stdout.strip().splitlines()[-1])


def _git(*words: str) -> str:
    process = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RevisionError(f"git {words[0]}: {process.stderr.strip() or 'failed'}")
    return process.stdout.strip()


def checkout(revision: str) -> Path:
    """A git worktree of a revision, created if needed. RevisionError if the revision does not exist."""
    try:
        commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except RevisionError:
        raise RevisionError(f"revision {revision!r} not found in this repository") from None
    root = CHECKOUTS / commit[:12]
    if not (root / "bench").is_dir():
        _git("worktree", "prune")  # a folder that `make clean` removed is still on git's list
        _git("worktree", "add", "--force", "--detach", str(root), commit)
    return root


def cases_of(root: Path) -> list[str]:
    """The names of the cases in a checkout's benchmarks. RevisionError if it has none."""
    text = "from bench.run import CASES; print(*CASES)"
    process = subprocess.run(
        [sys.executable, "-c", text],
        cwd=root,
        env={**os.environ, "PYTHONPATH": Build(root, compiled=False).path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RevisionError(f"{root.name} has no usable benchmarks: {process.stderr.strip()[-300:]}")
    return [*process.stdout.split(), "sync", "start", "memory"]
