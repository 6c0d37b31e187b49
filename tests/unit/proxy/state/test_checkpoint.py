"""Records on disk: atomic writes, and damaged files are set aside."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.proxy.state import CREATED, Checkpoint, ContainerRecord, PodRecord, Store
from nri.proxy.state.checkpoint import MAX_BYTES, VERSION
from tests.support.needs import need_root
from tools.runtimes.mounts import mount, unmount


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    opened = Checkpoint(tmp_path / "kept")
    opened.open()
    yield opened
    opened.close()


def container(name: str = "c1") -> ContainerRecord:
    record = ContainerRecord(id=name, runtime_id=f"r-{name}", pod_id="p1", reported_step=CREATED)
    record.config.metadata.name = "web"
    record.resources.cpu_shares = 5
    record.plugin_view.id = name
    return record


def test_written_records_can_be_read(checkpoint: Checkpoint) -> None:
    pod = PodRecord(id="p1", runtime_handler="kata", reported_step=CREATED, skipped=True)
    pod.config.linux.cgroup_parent = "/a"
    checkpoint.put(pod)
    checkpoint.put(container())
    assert checkpoint.load() == [container(), pod]


def test_a_deleted_record_is_not_read_again(checkpoint: Checkpoint) -> None:
    checkpoint.put(container())
    checkpoint.delete(container())
    checkpoint.delete(container())
    assert checkpoint.load() == []


def torn(text: str) -> str:
    return text[: len(text) // 2]


def changed(text: str, **values: Any) -> str:
    return json.dumps(json.loads(text) | values)


@pytest.mark.parametrize(
    "broken",
    [
        torn,
        lambda text: "",
        lambda text: "[]",
        lambda text: changed(text, version=VERSION + 1),
        lambda text: changed(text, version="x"),
        lambda text: changed(text, kind="other"),
        lambda text: changed(text, config="no base64"),
        lambda text: changed(text, config="////"),
        lambda text: changed(text, pod_id=5),
        lambda text: changed(text, id="../../etc/passwd"),
        lambda text: changed(text, id="another"),
        lambda text: "[" * 100_000,
        lambda text: " " * (MAX_BYTES + 1),
    ],
)
def test_an_invalid_file_is_set_aside_and_the_others_are_read(
    checkpoint: Checkpoint, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint.put(container("c1"))
    checkpoint.put(container("c2"))
    path = checkpoint.folder / "container-c1.json"
    path.write_text(broken(path.read_text()))
    assert checkpoint.load() == [container("c2")]
    assert not path.exists() and (checkpoint.folder / "broken" / path.name).exists()
    assert "container-c1.json" in caplog.text


def test_incomplete_files_of_a_killed_proxy_are_removed(checkpoint: Checkpoint) -> None:
    checkpoint.put(container())
    (checkpoint.folder / ".writing-container-c1.json").write_text('{"version"')
    assert checkpoint.load() == [container()]
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == ["container-c1.json", "lock"]


def test_a_folder_is_private_and_belongs_to_one_proxy(checkpoint: Checkpoint) -> None:
    with pytest.raises(OSError, match="another proxy") as caught:
        Checkpoint(checkpoint.folder).open()
    assert caught.value.errno == errno.EBUSY
    assert checkpoint.folder.stat().st_mode & 0o777 == 0o700
    checkpoint.close()
    second = Checkpoint(checkpoint.folder)
    second.open()
    second.close()


def test_a_record_that_is_too_long_stays_in_memory_and_is_logged(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(checkpoint)
    record = container()
    record.config.annotations["big"] = "x" * MAX_BYTES
    store.put(record)
    assert store.named("c1") is record
    assert checkpoint.load() == []
    assert "cannot write" in caplog.text


def filled(file: Any) -> bool:
    """Write a page; False if the disk is full."""
    try:
        return bool(file.write(b"x" * 4096))
    except OSError as error:
        assert error.errno == errno.ENOSPC
        return False


def test_on_a_full_disk_the_old_record_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    need_root()
    disk = tmp_path / "disk"
    disk.mkdir()
    assert mount("tmpfs", disk, "size=64k")
    try:
        checkpoint = Checkpoint(disk / "kept")
        checkpoint.open()
        store = Store(checkpoint)
        record = store.put(container())
        with (disk / "filler").open("wb", buffering=0) as filler:
            while filled(filler):
                pass
        with caplog.at_level(logging.WARNING):
            store.note(record, pod_id="p2")
            store.note(record, pod_id="p3")
        assert caplog.text.count("cannot write") == 1, "it is logged once a minute"
        assert store.named("c1") is record and record.pod_id == "p3"
        assert checkpoint.load() == [container()]
        (disk / "filler").unlink()
        store.note(record, pod_id="p4")
        assert [row.pod_id for row in checkpoint.load() if isinstance(row, ContainerRecord)] == ["p4"]
        checkpoint.close()
    finally:
        unmount(disk)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    os.chown(folder, 1000, 1000)
    with pytest.raises(OSError, match="the folder belongs to user 1000"):
        Checkpoint(folder).open()
    assert list(folder.iterdir()) == []
