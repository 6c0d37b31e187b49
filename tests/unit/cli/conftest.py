"""How these tests run the command: as a process of its own, as people do. And what they read of the doctor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nri.cli.doctor import Finding
from tests.support.forked_nri import ForkedNri
from tests.support.rooted import below

Nri = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nri", *arguments]


def environment(**more: str) -> dict[str, str]:
    saved = {
        name: value for name, value in os.environ.items() if not name.startswith(("NRI_", "NO_COLOR", "FORCE_COLOR"))
    }
    return saved | {"COLUMNS": "100", **more}


def complete(words: str, place: int) -> list[str]:
    """What bash offers for the word at this place of a command line."""
    env = environment(_NRI_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(place))
    result = subprocess.run(command(), env=env, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


@pytest.fixture(scope="session")
def forked() -> Iterator[ForkedNri]:
    """The process that commands are forked from."""
    started = ForkedNri()
    yield started
    started.close()


@pytest.fixture
def nri(forked: ForkedNri) -> Nri:
    """Run `nri ...` and give its exit code, output and errors."""

    def run(
        *arguments: str, stdin: str = "", env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return forked.run(arguments, environment(**(env or {})), cwd or Path.cwd(), stdin, timeout_s=60)

    return run


def lines(findings: list[Finding]) -> list[str]:
    """Findings in short."""
    return [f"{finding.level}: {finding.where}: {finding.what}" for finding in findings]


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., str]:
    """Write files below a root; gives the root."""
    return partial(below, tmp_path)
