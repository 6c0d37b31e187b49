"""The start of the command: an interrupt during loading exits with 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import environment

#: Interrupts itself when a module is about to be imported.
CODE = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["nri", *{arguments!r}]
from nri.cli.entry import start
start()
"""
PLUGIN = "import nri\nclass P(nri.Plugin):\n    def create_container(self, pod, container): pass\n"


def run(module: str, arguments: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    code = CODE.format(module=module, arguments=arguments)
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), **options)


MODULES = ("nri.cli.main", "click", "nri.cli.settings", "nri.cli.verbs.version", "nri.cli.support.versions")


@pytest.mark.parametrize("module", [*MODULES, "google.protobuf"])
def test_an_interrupt_during_loading_exits_with_130_silently(module: str) -> None:
    result = run(module, ["version"])
    assert (result.returncode, result.stdout, result.stderr.strip()) == (130, "", "")


@pytest.mark.parametrize("module", ["nri.stub.plugin", "nri.stub.program.start", "nri.stub.session.session"])
def test_an_interrupt_before_a_plugin_is_ready_exits_with_130_silently(tmp_path: Path, module: str) -> None:
    (tmp_path / "p.py").write_text(PLUGIN)
    result = run(module, ["run", str(tmp_path / "p.py"), "--socket-path", str(tmp_path / "no.sock")])
    assert (result.returncode, result.stderr.strip()) == (130, "")


def test_an_ignored_interrupt_stays_ignored() -> None:
    result = run("click", ["version", "-q"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert (result.returncode, result.stderr) == (0, "")


def test_the_process_has_the_commands_exit_code() -> None:
    assert run("-", ["version", "-q"]).returncode == 0
    assert run("-", ["versio"]).returncode == 2


@pytest.mark.parametrize(
    "arguments", [["engine", "config", "keys", "-o", "json"], ["completion", "bash"], ["--help"], ["version"]]
)
def test_a_closed_output_pipe_exits_with_0_silently(arguments: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    argv = [sys.executable, "-m", "nri", *arguments]
    result = subprocess.run(argv, stdout=writes, stderr=subprocess.PIPE, text=True, check=False, env=environment())
    os.close(writes)
    assert (result.returncode, result.stderr) == (0, "")
