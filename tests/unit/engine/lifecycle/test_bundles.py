"""A bundle's folder, with its file system for the exit code; tests/engine has containers that end on a full disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nri.engine.lifecycle import bundles
from nri.engine.lifecycle.bundles import make_bundle, remove_bundle
from tests.support.needs import need_root


def test_a_dry_bundle_is_private_folders_and_goes_as_a_whole(tmp_path: Path) -> None:
    make_bundle(tmp_path / "b", dry=True)
    for folder in (tmp_path / "b", tmp_path / "b/persist"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not (tmp_path / "b/persist").is_mount()
    for _ in range(2):
        remove_bundle(tmp_path / "b")
        assert not (tmp_path / "b").exists()


def test_the_exit_code_has_a_small_file_system_that_goes_with_the_bundle(tmp_path: Path) -> None:
    need_root()
    make_bundle(tmp_path / "b")
    persist = tmp_path / "b/persist"
    assert persist.is_mount()
    with pytest.raises(OSError, match="No space"):
        (persist / "big").write_bytes(bytes(1 << 20))
    remove_bundle(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_machine_that_refuses_the_mount_keeps_the_code_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(bundles, "mount", refuse)
    make_bundle(tmp_path / "b")
    assert "no exit code can be kept when that is full" in caplog.text
    assert (tmp_path / "b/persist").is_dir()
    remove_bundle(tmp_path / "b")
