"""Files are there whole or not at all."""

import os
import threading
import time
from pathlib import Path

import pytest

from nri.engine.support.files import TEMPORARY, private_folder, remove_tree, write_whole


def test_a_file_is_replaced_whole_and_only_ours_to_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"1" * 100)
    write_whole(path, b"2")
    assert path.read_bytes() == b"2" and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / f"{TEMPORARY}a").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "a", b"x")
    assert (tmp_path / "victim").read_text() == "kept"


def test_a_folder_that_was_open_to_others_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir(mode=0o755)
    assert private_folder(tmp_path / "f").stat().st_mode & 0o777 == 0o700


def test_a_tree_that_is_still_written_to_is_removed(tmp_path: Path) -> None:
    tree, stop = tmp_path / "tree", threading.Event()
    tree.mkdir()

    def write() -> None:
        number = 0
        end = time.monotonic() + 0.2
        while time.monotonic() < end and not stop.is_set():
            number += 1
            try:
                (tree / str(number)).touch()
            except FileNotFoundError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    remove_tree(tree)
    stop.set()
    writer.join()
    assert not tree.exists()
