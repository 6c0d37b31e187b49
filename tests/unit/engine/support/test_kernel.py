"""Mount points, and removal of trees."""

from pathlib import Path

from nri.engine.support.kernel import is_mount_point
from nri.files import private_folder, remove_tree


def test_removal_follows_no_symlink(tmp_path: Path) -> None:
    outside = private_folder(tmp_path / "outside")
    (outside / "kept").touch()
    tree = private_folder(tmp_path / "tree")
    (tree / "link").symlink_to(outside)
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists() and (outside / "kept").exists()


def test_mount_points_are_distinguished_from_folders(tmp_path: Path) -> None:
    assert is_mount_point(Path("/proc"))
    assert not is_mount_point(tmp_path)
