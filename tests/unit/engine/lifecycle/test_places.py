"""The files and folders of an engine."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nri.engine.lifecycle.places import Places, lock_folders
from nri.engine.support.errors import EngineError


def test_folders_are_made_and_private(tmp_path: Path) -> None:
    places = Places(tmp_path / "root", tmp_path / "state")
    for folder in (places.root, places.state, places.bundles, places.pods):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_what_outlives_the_machine_is_below_root_and_the_rest_below_state(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    places = Places(root, state)
    assert all(path.is_relative_to(root) for path in (places.records, places.images, places.networks))
    for path in (places.bundle("c"), places.pod("p"), places.runtime("runc"), places.namespaces):
        assert path.is_relative_to(state)


def test_a_folder_that_cannot_be_made_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    with pytest.raises(EngineError, match=f"{tmp_path}/root"):
        Places(tmp_path / "root", tmp_path / "state")


def test_a_second_engine_gets_neither_folder_and_changes_nothing_in_them(tmp_path: Path) -> None:
    with lock_folders(tmp_path / "root", tmp_path / "state"):
        (tmp_path / "root").chmod(0o711)
        for root, state, taken in (("root", "other", "root"), ("third", "state", "state")):
            with pytest.raises(EngineError, match=f"another engine has {tmp_path / taken}"):
                lock_folders(tmp_path / root, tmp_path / state)
        assert (tmp_path / "root").stat().st_mode & 0o777 == 0o711
        assert [*(tmp_path / "root").iterdir()] == []
    with lock_folders(tmp_path / "root", tmp_path / "root"):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=f"folder {tmp_path / 'file'} cannot be made and locked"):
        lock_folders(tmp_path / "file", tmp_path)
