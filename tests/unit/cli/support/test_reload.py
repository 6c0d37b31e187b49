"""The files that `nri run --reload` watches, and the command that it starts again. That it does: see verbs/test_run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nri.cli.support import reload


def test_the_plugin_and_the_python_files_beside_it_are_watched(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "notes.txt", "part/c.py", "part/deep/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = reload.files_of(f"{tmp_path}/b.py:Plugin")
    assert [str(path.relative_to(tmp_path.resolve())) for path in found] == ["b.py", "a.py", "part/c.py"]


def test_a_module_is_watched_where_it_lies() -> None:
    assert reload.files_of("json:JSONDecoder")[0].parts[-2:] == ("json", "__init__.py")


def test_a_huge_folder_is_watched_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / f"{name}.py").touch()
    assert [path.name for path in reload.files_of(str(tmp_path / "c.py"))] == ["c.py", "a.py"]


def test_the_child_is_this_command_without_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["nri", "run", "a.py", "--reload", "--idx", "10"])
    assert reload.child_command() == [sys.executable, "-m", "nri.cli.main", "run", "a.py", "--idx", "10"]
