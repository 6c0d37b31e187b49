"""`python -m nri.plugins NAME`: which plugin it runs, with which flags, and what it says where there is none."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from nri.plugins import __main__ as program
from tests.support.commands import unmeasured
from tests.support.plugin_program import Listener, plugin_program


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as images do: isolated from the folder that it is in and from variables of Python."""
    words = [sys.executable, "-I", "-m", "nri.plugins", *arguments]
    return subprocess.run(
        words, env=unmeasured() | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_first_argument_names_the_plugin_and_is_none_of_its_flags() -> None:
    done = start("template", "--version", NRI_PLUGIN_NAME="another")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("template: nri ")


def test_without_one_the_environment_names_the_plugin(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    with Listener(socket) as listener:
        arguments = ("-m", "nri.plugins", "-idx", "10", "-socket-path", socket)
        environment = unmeasured() | {"NRI_PLUGIN_NAME": "template"}
        with plugin_program(tmp_path, *arguments, env=environment) as running:
            listener.accept().begin()
            running.wait_text("synchronized with")


def test_a_plugin_s_exit_code_is_that_of_the_program(tmp_path: Path) -> None:
    done = start("template", "-idx", "10", "--no-reconnect", "-socket-path", str(tmp_path / "none"))
    assert done.returncode == 3, done.stderr


@pytest.mark.parametrize("name", ["no-such", "../template", "template.plugin", "-"])
def test_a_name_that_is_none_is_refused_with_those_that_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([], {"NRI_PLUGIN_NAME": name}) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: there is no plugin {name!r}; there are ")
    assert "template" in told


def test_no_name_at_all_is_refused_likewise(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["-idx", "10"], {}) == 2
    assert capsys.readouterr().err.startswith("error: no plugin is named; there are ")


def test_a_plugin_of_another_distribution_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("foreign", f"{__name__}:Foreign", "nri.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert program.main(["foreign", "-idx", "10"], {}) == 0
    assert Foreign.ran == [["-idx", "10"]]


def test_a_start_loads_no_command_and_no_metadata() -> None:
    words = "import sys, runpy; sys.argv[1:] = ['template', '--help']\n"
    words += "try: runpy.run_module('nri.plugins', run_name='__main__')\nexcept SystemExit: pass\n"
    words += "print('loaded:', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", words], env=unmeasured(), capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.rpartition("loaded:")[2].split())
    assert "nri.stub.program.start" in loaded
    assert not {"click", "importlib.metadata", "asyncio", "dataclasses", "inspect"} & loaded


class Foreign:
    """Stands for the plugin of another distribution."""

    ran: list[list[str]] = []  # noqa: RUF012

    @classmethod
    def main(cls, argv: list[str]) -> None:
        cls.ran.append(argv)
