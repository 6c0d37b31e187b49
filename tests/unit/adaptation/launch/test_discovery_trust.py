"""A file in the plugin folder is launched only if nobody but root and the runtime's user decides what is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.launch import discovery
from nri.adaptation.launch.discovery import discover
from tests.support.needs import need_root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "plugins"
    made.mkdir()
    return made


def plugin(folder: Path, name: str = "10-a") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def refused(folder: Path) -> list[str]:
    found, skipped = discover(str(folder))
    assert found == []
    return [each.reason for each in skipped]


def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    need_root()
    os.chown(plugin(folder), 4711, -1)
    assert refused(folder) == ["it belongs to user 4711, who can change it; remedy: chown root"]


def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    need_root()
    plugin(folder)
    os.chown(folder, 4711, -1)
    assert refused(folder) == ["its folder belongs to user 4711, who can change it; remedy: chown root"]


def test_a_link_in_a_folder_that_others_may_write_is_refused_wherever_it_leads(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (folder / "10-a").symlink_to(plugin(tmp_path / "bin", "real"))
    folder.chmod(0o777)
    assert refused(folder) == ["its folder can be written by group or others (mode 0777); remedy: chmod go-w"]


def test_a_link_to_a_file_in_a_folder_that_others_may_write_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (folder / "10-a").symlink_to(plugin(tmp_path / "bin", "real"))
    (tmp_path / "bin").chmod(0o777)
    assert refused(folder) == ["its folder can be written by group or others (mode 0777); remedy: chmod go-w"]


def test_a_file_that_goes_away_while_the_folder_is_read_is_no_plugin(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = plugin(folder, "10-gone")
    plugin(folder, "20-stays")
    scandir = os.scandir

    def late(path: str) -> Any:
        entries = list(scandir(path))
        gone.unlink()
        return entries

    monkeypatch.setattr(discovery.os, "scandir", late)
    found, skipped = discover(str(folder))
    assert [each.label for each in found] == ["20-stays"]
    assert skipped == []


def test_a_name_that_is_not_text_is_reported(folder: Path) -> None:
    plugin(folder, os.fsdecode(b"10-\xff"))
    assert refused(folder) == ["its name is not UTF-8 text"]
