"""Root file systems of containers, as copies; tests/engine mounts overlays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.engine.images.overlay import Stack
from nri.engine.images.snapshots import Snapshots
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.files import Usage


@pytest.fixture
def lower(tmp_path: Path) -> Stack:
    folder = tmp_path / "lower"
    folder.mkdir()
    (folder / "file").write_text("text")
    return Stack(tmp_path, ["lower"])


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", "copy")


def test_files_of_a_container_are_private_and_survive_a_new_mount(snapshots: Snapshots, lower: Stack) -> None:
    mounted = snapshots.mount(lower, "c1", "sha256:a")
    (mounted / "file").write_text("new")
    snapshots.detach("c1")
    assert (snapshots.mount(lower, "c1", "sha256:a") / "file").read_text() == "new"
    assert (snapshots.mount(lower, "c2", "sha256:a") / "file").read_text() == "text"
    assert (lower.top / "file").read_text() == "text"
    assert snapshots.images() == {"c1": "sha256:a", "c2": "sha256:a"}


def test_the_disk_usage_of_a_snapshot_is_counted_until_its_removal(snapshots: Snapshots, lower: Stack) -> None:
    snapshots.mount(lower, "c1")
    assert snapshots.usage("c1").inodes == 2
    assert snapshots.all_usage().inodes == 2
    snapshots.unmount("c1")
    snapshots.unmount("c1")
    assert snapshots.all_usage().inodes == 0
    with pytest.raises(FileNotFoundError):
        snapshots.usage("c1")


def test_a_slow_count_of_disk_usage_is_cached_longer(
    snapshots: Snapshots, lower: Stack, monkeypatch: pytest.MonkeyPatch
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


def test_a_failed_mount_leaves_no_folder(snapshots: Snapshots, tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        snapshots.mount(Stack(tmp_path, ["none"]), "c1")
    assert not [*snapshots.root.iterdir()]


def test_an_incomplete_snapshot_uses_no_image(snapshots: Snapshots) -> None:
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
def test_an_invalid_id_is_refused(snapshots: Snapshots, identity: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a valid id"):
        snapshots.detach(identity)


@pytest.mark.parametrize("folder", ["a:b", "a,b", "a b", "a\\b"])
def test_a_path_that_overlayfs_would_misread_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(InvalidRequest, match="overlayfs does not support paths"):
        Snapshots(tmp_path / folder, "copy")


@pytest.mark.parametrize("odd", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_a_record_that_is_not_a_file_does_not_block(
    snapshots: Snapshots, lower: Stack, odd: Callable[[Path], None]
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
