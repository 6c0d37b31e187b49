"""The folders of an engine, and bundles of containers."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nri.engine.lifecycle.places import Places, lock_folders, make_bundle, remove_bundle
from nri.engine.support.errors import EngineError
from tests.support.needs import need_root


def test_folders_are_created_privately(tmp_path: Path) -> None:
    places = Places(tmp_path / "root", tmp_path / "state")
    for folder in (places.root, places.state, places.bundles, places.pods):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_persistent_files_are_below_root_and_others_below_state(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    places = Places(root, state)
    assert all(path.is_relative_to(root) for path in (places.records, places.images, places.networks))
    for path in (places.bundle("c"), places.pod("p"), places.runtime("runc"), places.namespaces):
        assert path.is_relative_to(state)


def test_a_folder_that_cannot_be_created_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    with pytest.raises(EngineError, match=f"{tmp_path}/root"):
        Places(tmp_path / "root", tmp_path / "state")


def test_a_second_engine_gets_no_folder_and_changes_no_file(tmp_path: Path) -> None:
    with lock_folders(tmp_path / "root", tmp_path / "state"):
        (tmp_path / "root").chmod(0o711)
        for root, state, locked in (("root", "other", "root"), ("third", "state", "state")):
            with pytest.raises(EngineError, match=f"another engine uses {tmp_path / locked}"):
                lock_folders(tmp_path / root, tmp_path / state)
        assert (tmp_path / "root").stat().st_mode & 0o777 == 0o711
        assert [*(tmp_path / "root").iterdir()] == []
    with lock_folders(tmp_path / "root", tmp_path / "root"):
        pass


def test_a_bundle_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=f"folder {tmp_path / 'file'} cannot be created and locked"):
        lock_folders(tmp_path / "file", tmp_path)


def test_a_dry_bundle_has_private_folders_and_can_be_removed(tmp_path: Path) -> None:
    make_bundle(tmp_path / "b", dry=True)
    for folder in (tmp_path / "b", tmp_path / "b/persist"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not (tmp_path / "b/persist").is_mount()
    for _ in range(2):
        remove_bundle(tmp_path / "b")
        assert not (tmp_path / "b").exists()


def test_the_exit_code_has_a_small_file_system_until_the_removal_of_the_bundle(tmp_path: Path) -> None:
    need_root()
    make_bundle(tmp_path / "b")
    persist = tmp_path / "b/persist"
    assert persist.is_mount()
    with pytest.raises(OSError, match="No space"):
        (persist / "big").write_bytes(bytes(1 << 20))
    remove_bundle(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_without_the_mount_the_exit_code_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("nri.engine.lifecycle.places.mount", refuse)
    make_bundle(tmp_path / "b")
    assert "exit codes are lost when the disk is full" in caplog.text
    assert (tmp_path / "b/persist").is_dir()
    remove_bundle(tmp_path / "b")
