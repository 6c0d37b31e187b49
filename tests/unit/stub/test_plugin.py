"""`nri.Plugin` is the base class with a start method."""

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


def test_plugin_adds_only_a_start_to_the_base_class() -> None:
    names = {name for name in vars(nri.Plugin) if not name.startswith("__")}
    assert names - {"name"} == {"main"}
    assert issubclass(nri.Plugin, PluginBase)


def test_main_accepts_arguments_and_exits_with_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        Small.main(["--help"])
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("Does little.")


def test_by_default_main_reads_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["small.py", "--frobnicate"])
    with pytest.raises(SystemExit) as exited:
        Small.main()
    assert exited.value.code == 2
    assert "--frobnicate: unknown argument" in capsys.readouterr().err


def test_an_interrupt_during_the_start_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_program_that_never_runs_its_plugin_prints_a_warning(tmp_path: Path, last: str, noted: bool) -> None:
    file = tmp_path / "small.py"
    file.write_text(CLASS + last)
    result = subprocess.run([sys.executable, file], check=False, env=unmeasured(), capture_output=True, text=True)
    note = f"note: {file} defines the plugin Small, but does not run it. Use nri run {file}, or add these two lines:"
    assert result.stderr.startswith(note) is noted, result.stderr
