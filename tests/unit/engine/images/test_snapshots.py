"""Root file systems of containers, as copies; tests/engine mounts overlays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.engine.images.snapshots import Snapshots
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.files import Usage


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    folder = tmp_path / "lower"
    folder.mkdir()
    (folder / "file").write_text("text")
    return folder


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", "copy")


def test_what_a_container_writes_is_its_own_and_there_when_it_is_mounted_again(
    snapshots: Snapshots, lower: Path
) -> None:
    mounted = snapshots.mount(lower, "c1", "sha256:a")
    (mounted / "file").write_text("new")
    snapshots.detach("c1")
    assert (snapshots.mount(lower, "c1", "sha256:a") / "file").read_text() == "new"
    assert (snapshots.mount(lower, "c2", "sha256:a") / "file").read_text() == "text"
    assert (lower / "file").read_text() == "text"
    assert snapshots.images() == {"c1": "sha256:a", "c2": "sha256:a"}


def test_its_room_is_counted_and_gone_with_it(snapshots: Snapshots, lower: Path) -> None:
    snapshots.mount(lower, "c1")
    assert snapshots.usage("c1").inodes == 2
    assert snapshots.all_usage().inodes == 2
    snapshots.unmount("c1")
    snapshots.unmount("c1")
    assert snapshots.all_usage().inodes == 0
    with pytest.raises(FileNotFoundError):
        snapshots.usage("c1")


def test_a_count_of_all_that_takes_long_is_good_for_longer(
    snapshots: Snapshots, lower: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, requests = [1000.0], list[str]()

    def usage(name: str, within_s: float) -> Usage:
        requests.append(name)
        now[0] += 2.0 if name == "big" else 0.001
        return Usage(len(requests), 1)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "thread_time", lambda: now[0])
    monkeypatch.setattr(snapshots, "usage", usage)
    snapshots.mount(lower, "small")
    assert [snapshots.all_usage().size_bytes for _ in range(3)] == [1, 2, 3]
    snapshots.mount(lower, "big")
    before = snapshots.all_usage()
    for _ in range(3):
        now[0] += 10
        assert snapshots.all_usage() == before
    now[0] += 10
    assert snapshots.all_usage() != before and requests.count("big") == 2


def test_a_mount_that_fails_leaves_nothing(snapshots: Snapshots, tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        snapshots.mount(tmp_path / "none", "c1")
    assert not [*snapshots.root.iterdir()]


def test_one_that_is_half_made_is_nobodys_image(snapshots: Snapshots) -> None:
    (snapshots.root / "c1").mkdir()
    (snapshots.root / "c2").mkdir()
    for text in ("{", "", "[7]"):
        (snapshots.root / "c2/snapshot.json").write_text(text)
        assert snapshots.images() == {} and snapshots.all_usage().inodes == 0
        for name in ("c1", "c2"):
            with pytest.raises(FileNotFoundError):
                snapshots.usage(name)
    snapshots.unmount("c2")
    assert [path.name for path in snapshots.root.iterdir()] == ["c1"]


@pytest.mark.parametrize("identity", ["", "..", "a/b", ".hidden"])
def test_what_is_no_id_is_refused(snapshots: Snapshots, identity: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a valid id"):
        snapshots.detach(identity)


@pytest.mark.parametrize("folder", ["a:b", "a,b", "a b", "a\\b"])
def test_a_path_that_overlayfs_would_misread_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(InvalidRequest, match="overlayfs does not support paths"):
        Snapshots(tmp_path / folder, "copy")


@pytest.mark.parametrize("odd", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_a_record_that_is_no_file_holds_nobody_up(
    snapshots: Snapshots, lower: Path, odd: Callable[[Path], None]
) -> None:
    snapshots.mount(lower, "c1", "sha256:a")
    snapshots.mount(lower, "c2", "sha256:a")
    (snapshots.root / "c1/snapshot.json").unlink()
    odd(snapshots.root / "c1/snapshot.json")
    assert snapshots.images()["c2"] == "sha256:a"
    with pytest.raises(OSError, match=r"regular file|directory"):
        snapshots.usage("c1")
    snapshots.unmount("c1")
    assert not (snapshots.root / "c1").exists()
