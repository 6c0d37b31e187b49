"""`nri.Plugin` is the base with a start: nothing of a plugin is lost between the two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nri
from nri.stub.base import PluginBase
from tests.support.commands import unmeasured


class Small(nri.Plugin):
    """Does little."""

    def run_pod_sandbox(self, pod): ...


def test_a_plugin_is_the_base_and_its_start_and_nothing_else() -> None:
    names = {name for name in vars(nri.Plugin) if not name.startswith("__")}
    assert names - {"name"} == {"main"}
    assert issubclass(nri.Plugin, PluginBase)


def test_main_takes_its_arguments_and_ends_with_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        Small.main(["--help"])
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("Does little.")


def test_main_reads_the_command_line_unless_told_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["small.py", "--frobnicate"])
    with pytest.raises(SystemExit) as exited:
        Small.main()
    assert exited.value.code == 2
    assert "--frobnicate: unknown argument" in capsys.readouterr().err


def test_an_interrupt_before_the_program_listens_to_signals_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("nri.stub.program.start.main", interrupted)
    with pytest.raises(SystemExit) as exited:
        Small.main([])
    assert exited.value.code == 130


CLASS = "import nri\nclass Small(nri.Plugin):\n    def run_pod_sandbox(self, pod): ...\n"


@pytest.mark.parametrize(
    ("last", "noted"),
    [
        ("", True),
        ("Small.main(['--version'])", False),
        ("import nri.testing", False),
        ("raise ValueError", False),
        ("Small.__module__", True),
    ],
)
def test_a_program_that_ends_without_running_its_plugin_says_so(tmp_path: Path, last: str, noted: bool) -> None:
    file = tmp_path / "small.py"
    file.write_text(CLASS + last)
    result = subprocess.run([sys.executable, file], check=False, env=unmeasured(), capture_output=True, text=True)
    note = f"note: {file} defines the plugin Small, but does not run it. Use nri run {file}, or add these two lines:"
    assert result.stderr.startswith(note) is noted, result.stderr
