"""Detection of changes of files."""

from __future__ import annotations

import errno
import os
import pathlib

from nri.config import Watch
from nri.config.watch import fingerprint, fingerprint_of


def test_a_watch_notices_a_replaced_new_or_removed_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    watch = Watch(path)
    assert not watch.changed(), "nothing happened yet"
    path.write_text("1")
    assert watch.changed(), "a file that appears is a change"
    assert not watch.changed(), "a change is reported once"
    (tmp_path / "new").write_text("1")
    os.replace(tmp_path / "new", path)
    assert watch.changed(), "an atomic replacement is a change although size and text are the same"
    path.unlink()
    assert watch.changed(), "a file that goes away is a change"


def test_a_watch_notices_a_replaced_config_map(tmp_path: pathlib.Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.conf").write_text(version)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "a.conf").symlink_to("..data/a.conf")
    watch = Watch(tmp_path / "a.conf")
    (tmp_path / "..data_tmp").symlink_to("2")
    os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
    assert watch.changed()


def test_content_file_and_time_change_the_fingerprint(tmp_path: pathlib.Path) -> None:
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


def test_mode_and_name_do_not_change_the_fingerprint(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("1")
    before = fingerprint(path)
    path.chmod(0o600)
    assert fingerprint(path.rename(tmp_path / "b.conf")) == before


def test_a_missing_file_has_no_fingerprint(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    assert fingerprint(tmp_path / "gone") is None
    assert fingerprint(tmp_path / "file" / "below") is None


def test_an_unreadable_file_has_a_fingerprint(tmp_path: pathlib.Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert fingerprint(tmp_path / "loop") == (errno.ELOOP,)


def test_an_open_file_has_the_fingerprint_of_its_path(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("1")
    with path.open("rb") as file:
        assert fingerprint_of(os.fstat(file.fileno())) == fingerprint(path)
