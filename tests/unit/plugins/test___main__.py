"""`python -m nri.plugins NAME` runs a plugin with its flags; errors list the plugins."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import nri.plugins
from nri.plugins import __main__ as program
from tests.support.commands import unmeasured
from tests.support.plugin_program import Listener, plugin_program


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as images do: isolated from the folder that it is in and from variables of Python."""
    words = [sys.executable, "-I", "-m", "nri.plugins", *arguments]
    return subprocess.run(
        words, env=unmeasured() | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_first_argument_names_the_plugin() -> None:
    process = start("template", "--version", NRI_PLUGIN_NAME="another")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("template: nri ")


def test_without_an_argument_the_environment_names_the_plugin(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    with Listener(socket) as listener:
        arguments = ("-m", "nri.plugins", "-idx", "10", "-socket-path", socket)
        environment = unmeasured() | {"NRI_PLUGIN_NAME": "template"}
        with plugin_program(tmp_path, *arguments, env=environment) as running:
            listener.accept().begin()
            running.wait_text("synchronized with")


def test_the_exit_code_is_the_plugins(tmp_path: Path) -> None:
    process = start("template", "-idx", "10", "--no-reconnect", "-socket-path", str(tmp_path / "none"))
    assert process.returncode == 3, process.stderr


@pytest.mark.parametrize("name", ["no-such", "../template", "template.plugin", "-"])
def test_an_unknown_name_is_an_error_with_the_known_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([], {"NRI_PLUGIN_NAME": name}) == 2
    lines = capsys.readouterr().err
    assert lines.startswith(f"error: no plugin {name!r}. Plugins: ")
    assert "template" in lines


def test_a_missing_name_is_an_error_with_the_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["-idx", "10"], {}) == 2
    assert capsys.readouterr().err.startswith("error: the name of a plugin is required. Plugins: ")


@pytest.mark.parametrize("flag", ["--help", "-help", "-h"])
def test_without_a_name_the_help_is_the_usage_and_the_names(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([flag], {}) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("usage: python -m nri.plugins NAME [FLAGS]") and "hook-injector" in captured.out
    assert not captured.err


def test_further_arguments_are_passed_to_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str], dict[str, object]]] = []
    monkeypatch.setattr(runpy, "run_module", lambda module, **how: ran.append((module, list(sys.argv), how)))
    monkeypatch.setattr(sys, "argv", ["nri.plugins", "network-logger", "-idx", "10"])
    assert program.main(["network-logger", "-idx", "10"], {}) == 0
    how = {"run_name": "__main__", "alter_sys": True}
    assert ran == [("nri.plugins.network_logger.plugin", ["nri.plugins", "-idx", "10"], how)]


def test_a_folder_without_a_program_is_not_a_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("half_one", "whole_one"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "whole_one" / "plugin.py").touch()
    with monkeypatch.context() as patch:
        patch.setattr(nri.plugins, "__path__", [str(tmp_path)])
        rows = [program.bundled(name) for name in ("half-one", "whole-one")]
    for name in ("half_one", "whole_one"):
        del sys.modules[f"nri.plugins.{name}"]
        delattr(nri.plugins, name)
    assert rows == [None, "nri.plugins.whole_one.plugin"]


def test_without_a_name_the_exit_code_is_2() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "nri.plugins"],
        env={name: value for name, value in os.environ.items() if name != "NRI_PLUGIN_NAME"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: the name of a plugin is required. Plugins: ")


def test_a_plugin_of_another_distribution_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("foreign", f"{__name__}:Foreign", "nri.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert program.main(["foreign", "-idx", "10"], {}) == 0
    assert Foreign.ran == [["-idx", "10"]]


def test_a_start_imports_neither_the_command_nor_metadata() -> None:
    words = "import sys, runpy; sys.argv[1:] = ['template', '--help']\n"
    words += "try: runpy.run_module('nri.plugins', run_name='__main__')\nexcept SystemExit: pass\n"
    words += "print('loaded:', *sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", words], env=unmeasured(), capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(process.stdout.rpartition("loaded:")[2].split())
    assert "nri.stub.program.start" in loaded
    assert not {"click", "importlib.metadata", "asyncio", "dataclasses", "inspect"} & loaded


class Foreign:
    """Stands for the plugin of another distribution."""

    ran: list[list[str]] = []  # noqa: RUF012

    @classmethod
    def main(cls, argv: list[str]) -> None:
        cls.ran.append(argv)
