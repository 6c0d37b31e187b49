"""Paths below a root stay below it."""

import os
from pathlib import Path

import pytest

from nri.engine.support.files import private_folder, remove_tree
from nri.engine.support.kernel import is_mount_point, open_below


def content(root: Path, path: str) -> bytes:
    with os.fdopen(open_below(root, path), "rb") as file:
        return file.read()


def test_symlinks_and_dots_are_read_as_a_process_with_that_root_reads_them(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (root / "absolute").symlink_to("/etc/passwd")
    (root / "dots").symlink_to("../../../../etc/passwd")
    (root / "out").symlink_to(tmp_path / "secret")
    assert {content(root, name) for name in ("etc/passwd", "/etc/passwd", "absolute", "dots", "../etc/passwd")} == {
        b"inside"
    }
    with pytest.raises(FileNotFoundError):
        content(root, "out")


def test_removal_follows_no_symlink(tmp_path: Path) -> None:
    outside = private_folder(tmp_path / "outside")
    (outside / "kept").touch()
    tree = private_folder(tmp_path / "tree")
    (tree / "link").symlink_to(outside)
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists() and (outside / "kept").exists()


def test_mount_points_are_known_from_other_folders(tmp_path: Path) -> None:
    assert is_mount_point(Path("/proc"))
    assert not is_mount_point(tmp_path)
