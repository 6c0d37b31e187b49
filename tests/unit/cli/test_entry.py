"""The start of the command: an interrupt while it is being loaded is one line and code 130, wherever it comes."""

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
def test_an_interrupt_while_it_is_loaded_is_code_130_without_a_word(module: str) -> None:
    result = run(module, ["version"])
    assert (result.returncode, result.stdout, result.stderr.strip()) == (130, "", "")


@pytest.mark.parametrize("module", ["nri.stub.plugin", "nri.stub.program.start", "nri.stub.session.session"])
def test_an_interrupt_before_a_plugin_listens_is_code_130_without_a_word(tmp_path: Path, module: str) -> None:
    (tmp_path / "p.py").write_text(PLUGIN)
    result = run(module, ["run", str(tmp_path / "p.py"), "--socket-path", str(tmp_path / "no.sock")])
    assert (result.returncode, result.stderr.strip()) == (130, "")


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    result = run("click", ["version", "-q"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert (result.returncode, result.stderr) == (0, "")


def test_the_exit_code_of_the_command_is_that_of_the_process() -> None:
    assert run("-", ["version", "-q"]).returncode == 0
    assert run("-", ["versio"]).returncode == 2


@pytest.mark.parametrize(
    "arguments", [["engine", "config", "keys", "-o", "json"], ["completion", "bash"], ["--help"], ["version"]]
)
def test_a_reader_that_has_enough_ends_it_without_a_word_and_with_code_0(arguments: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    argv = [sys.executable, "-m", "nri", *arguments]
    result = subprocess.run(argv, stdout=writes, stderr=subprocess.PIPE, text=True, check=False, env=environment())
    os.close(writes)
    assert (result.returncode, result.stderr) == (0, "")
