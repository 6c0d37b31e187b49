"""`python -m nri` is the command."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.metadata import version

from tests.unit.cli.conftest import environment


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "nri", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**environment(), **more})


def test_python_m_nri_works_without_a_path() -> None:
    process = run("version", "-q", PATH=os.devnull)
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, version("nri"), "")


def test_importing_the_module_runs_no_command() -> None:
    assert importlib.import_module("nri.__main__").__doc__


def test_exit_codes_and_messages_equal_the_commands() -> None:
    process = run("versio")
    assert (process.returncode, process.stderr) == (
        2,
        'error: no verb "versio", did you mean nri version? try: nri --help\n',
    )
