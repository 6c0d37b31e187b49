"""Volumes on this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nri.cli.errors import Failure
from nri.cli.support.pod.volumes import EMPTY_DIR, Volume, prepare


def test_a_folder_of_the_pods_is_for_each_of_its_users_and_for_its_group(tmp_path: Path) -> None:
    prepare(Volume(str(tmp_path / "a"), EMPTY_DIR, "f:1", below={"x/y"}))
    prepare(Volume(str(tmp_path / "b"), EMPTY_DIR, "f:1", os.getgid()))
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/x/y", "b")]
    assert modes == [0o777, 0o777, 0o2777]


def test_what_the_machine_has_is_made_or_must_be_there_as_the_type_says(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    prepare(Volume(str(tmp_path / "made/deep"), "DirectoryOrCreate", "f:1", below={"sub"}))
    prepare(Volume(str(tmp_path / "new"), "FileOrCreate", "f:1"))
    prepare(Volume("/dev/null", "CharDevice", "f:1"))
    prepare(Volume(str(tmp_path / "nothing"), "", "f:1"))
    assert (tmp_path / "made/deep/sub").is_dir() and (tmp_path / "new").is_file()
    for kind, words in (("Directory", "no folder"), ("Socket", "no socket"), ("BlockDevice", "no block device")):
        with pytest.raises(Failure, match=f"f:7: volumes.hostPath.path: .*file is not there, or {words}"):
            prepare(Volume(str(tmp_path / "file"), kind, "f:7"))
    with pytest.raises(Failure, match="file is not a folder"):
        prepare(Volume(str(tmp_path / "file"), "File", "f:7", below={"sub"}))
