"""The files that `nri run --reload` watches, and the restarted command. See also verbs/test_run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nri.plugins import reload
from nri.signals import Stop


def test_the_plugin_and_the_python_files_next_to_it_are_watched(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "notes.txt", "part/c.py", "part/deep/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = reload.files_of(reload.main_file(f"{tmp_path}/b.py:Plugin"))
    assert [str(path.relative_to(tmp_path)) for path in files] == ["b.py", "a.py", "part/c.py"]


def test_a_module_is_watched_at_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reload.main_file("json:JSONDecoder").parts[-2:] == ("json", "__init__.py")
    (tmp_path / "in_this_folder.py").touch()
    monkeypatch.chdir(tmp_path)
    assert reload.main_file("in_this_folder:Plugin") == tmp_path / "in_this_folder.py"


@pytest.mark.parametrize("target", ["gone.py", "./gone", "no_such.module:Class", "broken.part:Class"])
def test_a_missing_plugin_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/__init__.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    assert not reload.main_file(target).exists()
    assert reload.files_of(reload.main_file(target))[0] == reload.main_file(target)


def test_a_large_folder_is_watched_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "MAX_FILES", 2)
    for name in "abc":
        (tmp_path / f"{name}.py").touch()
    assert [path.name for path in reload.files_of(tmp_path / "c.py")] == ["c.py", "a.py"]


def test_the_child_is_this_command_without_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["nri", "run", "a.py", "--reload", "--idx", "10"])
    assert reload.child_command() == [sys.executable, "-m", "nri", "run", "a.py", "--idx", "10"]


def test_a_file_that_loads_too_slowly_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(reload, "LOAD_TIMEOUT_S", 0.1)
    assert reload.mistake_of(f"{tmp_path}/slow.py", Stop()) == f"{tmp_path}/slow.py: not imported within 0.1 s"
