"""The search for Python interpreters on a machine."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tools import pythons

PROJECT = tomllib.loads((pythons.ROOT / "pyproject.toml").read_text())["project"]


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH but for the shell's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/nonexistent")
    return folder


def test_supported_versions_may_be_installed_and_include_the_present_one() -> None:
    assert pythons.OWN in pythons.supported()
    assert all(f"{version}.0" in SpecifierSet(PROJECT["requires-python"]) for version in pythons.supported())
    assert pythons.other_versions() == [version for version in pythons.supported() if version != pythons.OWN]


def test_a_working_interpreter_on_the_path_is_found(on_path: Path) -> None:
    interpreter = program(on_path / "python3.19", "echo 3.19")
    assert pythons.find("3.19") == interpreter


def test_the_present_interpreter_is_found_by_its_version(on_path: Path) -> None:
    link = on_path / f"python{pythons.OWN}"
    link.symlink_to(sys.executable)
    assert pythons.find(pythons.OWN) == link


@pytest.mark.parametrize("text", ["echo 3.18", "exit 1", "echo no module named ensurepip >&2; exit 1"])
def test_a_broken_interpreter_is_ignored(on_path: Path, text: str) -> None:
    program(on_path / "python3.19", text)
    assert pythons.find("3.19") is None


def test_a_shim_stands_for_the_versions_of_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = program(tmp_path / "shims/python3.19", "echo pyenv: command not found >&2; exit 127")
    monkeypatch.setenv("PATH", str(shim.parent))
    assert pythons.find("3.19") is None
    program(tmp_path / "versions/3.18.1/bin/python3.18", "echo 3.18")
    interpreter = program(tmp_path / "versions/3.19.1/bin/python3.19", "echo 3.19")
    assert pythons.find("3.19") == interpreter


def test_without_an_interpreter_the_result_is_none(on_path: Path) -> None:
    assert pythons.find("3.19") is None


def test_an_unsupported_version_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert pythons.main(["2.7"]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_missing_version_is_named(
    on_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "supported", lambda: [pythons.OWN, "3.19"])
    assert pythons.main(["3.19"]) == 1
    assert "no Python 3.19 on this machine" in capsys.readouterr().err
    assert pythons.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{pythons.OWN}  {sys.executable}", "3.19  not on this machine"]
