"""What counts as a change of a file, and what does not."""

from __future__ import annotations

import errno
import os
import pathlib

from nri.config import Watch
from nri.config.watch import fingerprint, fingerprint_of


def test_a_watch_sees_a_file_replaced_appear_and_go(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    watch = Watch(path)
    assert not watch.changed(), "nothing happened yet"
    path.write_text("1")
    assert watch.changed(), "a file that appears is a change"
    assert not watch.changed(), "a change is told once"
    (tmp_path / "new").write_text("1")
    os.replace(tmp_path / "new", path)
    assert watch.changed(), "an atomic replacement is a change although size and text are the same"
    path.unlink()
    assert watch.changed(), "a file that goes away is a change"


def test_a_watch_follows_the_link_that_a_config_map_swaps(tmp_path: pathlib.Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.conf").write_text(version)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "a.conf").symlink_to("..data/a.conf")
    watch = Watch(tmp_path / "a.conf")
    (tmp_path / "..data_tmp").symlink_to("2")
    os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
    assert watch.changed()


def test_another_content_another_file_and_another_time_are_another_fingerprint(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("1")
    os.utime(path, ns=(1, 1))
    earlier = [fingerprint(path)]
    path.write_text("12")
    os.utime(path, ns=(1, 1))
    earlier.append(fingerprint(path))
    os.utime(path, ns=(1, 2))
    earlier.append(fingerprint(path))
    (tmp_path / "new").write_text("12")
    os.utime(tmp_path / "new", ns=(1, 2))
    os.replace(tmp_path / "new", path)
    earlier.append(fingerprint(path))
    assert len(set(earlier)) == 4, "size, time and inode each count"


def test_another_mode_or_name_is_no_other_content(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("1")
    before = fingerprint(path)
    path.chmod(0o600)
    assert fingerprint(path.rename(tmp_path / "b.conf")) == before


def test_no_file_has_no_fingerprint(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    assert fingerprint(tmp_path / "gone") is None
    assert fingerprint(tmp_path / "file" / "below") is None


def test_a_file_that_cannot_be_looked_at_is_there(tmp_path: pathlib.Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert fingerprint(tmp_path / "loop") == (errno.ELOOP,)


def test_an_open_file_has_the_fingerprint_of_its_path(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("1")
    with path.open("rb") as file:
        assert fingerprint_of(os.fstat(file.fileno())) == fingerprint(path)
