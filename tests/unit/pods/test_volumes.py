"""Volumes on this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nri.errors import NriError
from nri.pods.volumes import EMPTY_DIR, Volume, prepare


def test_an_empty_dir_is_writable_for_all_users_and_has_the_pods_group(tmp_path: Path) -> None:
    prepare(Volume(str(tmp_path / "a"), EMPTY_DIR, "f:1"))
    prepare(Volume(str(tmp_path / "b"), EMPTY_DIR, "f:1", os.getgid()))
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "b")] == [0o777, 0o2777]


def test_an_existing_folder_is_refused_as_an_empty_dir(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o700)
    with pytest.raises(NriError, match=r"f:1: volumes.emptyDir: .*a: File exists"):
        prepare(Volume(str(tmp_path / "a"), EMPTY_DIR, "f:1"))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_host_paths_are_created_or_must_exist_according_to_their_type(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    prepare(Volume(str(tmp_path / "made/deep"), "DirectoryOrCreate", "f:1"))
    prepare(Volume(str(tmp_path / "new"), "FileOrCreate", "f:1"))
    prepare(Volume("/dev/null", "CharDevice", "f:1"))
    prepare(Volume(str(tmp_path / "nothing"), "", "f:1"))
    assert (tmp_path / "made/deep").is_dir() and (tmp_path / "new").is_file()
    for kind, words in (("Directory", "folder"), ("Socket", "socket"), ("BlockDevice", "block device")):
        with pytest.raises(NriError, match=f"f:7: volumes.hostPath.path: .*file does not exist, or is not a {words}"):
            prepare(Volume(str(tmp_path / "file"), kind, "f:7"))


@pytest.mark.parametrize("kind", ["", "Directory", "DirectoryOrCreate", "FileOrCreate"])
def test_an_unusable_path_is_an_error_with_line_and_key(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file/below", tmp_path / ("a" * 300)):
        if kind:
            with pytest.raises(NriError, match=f"f:7: volumes.hostPath.path: {path}"):
                prepare(Volume(str(path), kind, "f:7"))
