"""Owners of files in pods with user namespaces."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.engine.images import mapping
from nri.engine.images.mapping import IdMapping, allow_traversal
from nri.engine.support.errors import EngineError

Owners = dict[str, tuple[int, int]]


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> Owners:
    """Owners that were given, by a file's name; nothing is done to the files."""
    owners: Owners = {}
    monkeypatch.setattr(os, "chown", lambda path, uid, gid, **_: owners.__setitem__(Path(path).name, (uid, gid)))
    return owners


def test_every_file_of_a_tree_gets_its_owner_and_keeps_setuid(tmp_path: Path, owners: Owners) -> None:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/su").touch()
    (tree / "bin/su").chmod(0o4755)
    (tree / "link").symlink_to("/etc/passwd")
    uid, gid = os.getuid(), os.getgid()
    IdMapping(Path("/ns"), 100_000, 200_000, 65_536, 65_536).chown_tree(tree)
    assert owners == dict.fromkeys(("tree", "bin", "su", "link"), (100_000 + uid, 200_000 + gid))
    assert stat.S_IMODE((tree / "bin/su").stat().st_mode) == 0o4755


def test_owners_beyond_the_mapping_are_kept(tmp_path: Path, owners: Owners) -> None:
    (tmp_path / "a").mkdir()
    IdMapping(Path("/ns"), 100_000, 100_000, os.getuid(), os.getgid()).chown_tree(tmp_path / "a")
    assert owners == {"a": (os.getuid(), os.getgid())}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_id_mapping_returns_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mapping, "mount_mapped", refuse)
    assert IdMapping(Path("/ns"), 1, 1, 1, 1).mount(tmp_path, tmp_path / "lower") is None


def test_another_error_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(mapping, "mount_mapped", refuse)
    with pytest.raises(PermissionError):
        IdMapping(Path("/ns"), 1, 1, 1, 1).mount(tmp_path, tmp_path / "lower")


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder below folders that every user may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name) / "engine/snapshots/c1"
        folder.mkdir(parents=True)
        for path in (folder, *folder.parents[:3]):
            path.chmod(0o700)
        yield Path(name)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_engines_folders_become_traversable_but_not_readable(top: Path) -> None:
    top.chmod(0o711)
    allow_traversal(top / "engine/snapshots/c1", os.getgid(), [top / "engine"])
    assert [mode(top / path) for path in ("engine/snapshots/c1", "engine/snapshots", "engine")] == [0o710, 0o701, 0o701]


@pytest.mark.parametrize(("folder", "closed"), [("engine", "."), ("engine/snapshots", "engine")])
def test_a_closed_foreign_folder_is_an_error_with_its_path(top: Path, folder: str, closed: str) -> None:
    top.chmod(0o700 if closed == "." else 0o711)
    expected = f"cannot enter {top / closed}, which is not the engine's folder.*'chmod o.x {top / closed}'"
    with pytest.raises(EngineError, match=expected):
        allow_traversal(top / "engine/snapshots/c1", os.getgid(), [top / folder])
    assert [mode(top / path) for path in ("engine/snapshots/c1", "engine/snapshots", "engine")] == [0o700] * 3
