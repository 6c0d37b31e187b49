"""Hostile file trees in containers and images, and a completely full disk."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import ImageConfig
from nri.engine.images import ImageStore
from nri.engine.support.errors import CommandFailed
from nri.files import remove_tree
from tests.engine.live import Live
from tests.engine.machine import Machine
from tests.engine.node import IMAGE, Node
from tests.support.needs import need, need_tool
from tests.support.oci_layouts import base_layer, layer, layout

#: Deeper than Python recurses, and than any path can say.
DEPTHS = [1_500, 100_000]
#: At least this many files are counted within the time limit.
COUNTED = 1_500


def deepen(pid: int, depth: int) -> None:
    """Make folders in each other in the root of a container that runs, as a program in it would."""
    folder_fd = os.open(f"/proc/{pid}/root/tmp", os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=folder_fd)
        below = os.open("a", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder_fd)
        os.close(folder_fd)
        folder_fd = below
    os.close(folder_fd)


@pytest.fixture
def memory(machine: Machine) -> Iterator[Path]:
    """A folder in memory: on a busy disk as many folders take minutes."""
    place = machine.folder / "memory"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "memory", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("driver", ["overlay", "copy"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_container_with_a_deep_tree_is_counted_removed_and_reported(
    machine: Machine, memory: Path, depth: int, driver: str
) -> None:
    with Live(machine, root=memory / "root", images=ImageConfig(snapshots=driver)) as live:
        pod = live.pod("web")
        polite, bad = live.run(pod, "polite"), live.run(pod, "bad")
        deepen(live.engine.inventory.container(bad).record.pid, depth)
        stats = live.cri.call("ListContainerStats").stats
        used = {row.attributes.id: row.writable_layer.inodes_used.value for row in stats}
        assert used.keys() == {polite, bad} and used[bad] - used[polite] >= COUNTED > used[polite]
        assert live.cri.call("ImageFsInfo").container_filesystems[0].inodes_used.value >= COUNTED
        live.cri.call("StopContainer", container_id=bad, timeout=0)
        live.cri.call("RemoveContainer", container_id=bad)
        assert [row.id for row in live.cri.call("ListContainers").containers] == [polite]
        assert not (live.engine.images.snapshots.root / bad).exists()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_engine_starts_with_a_deep_tree_and_removes_an_unrecorded_one(node: Node, memory: Path, depth: int) -> None:
    shutil.copytree(node.config.root / "images", memory / "root/images", symlinks=True)
    node.config = replace(node.config, root=memory / "root")
    pod = node.pod()
    kept_id, lost = node.run(pod, "kept"), node.run(pod, "lost")
    for container in (kept_id, lost):
        deepen(node.engine.inventory.container(container).record.pid, depth)
    runtime = node.engine.machinery.runtime("runc")
    node.engine.container_removal.stop(lost)
    node.stop()
    (node.config.root / f"records/containers/{lost}.json").unlink()
    engine = node.start()
    assert ([entry.id for entry in engine.inventory.containers()], engine.complaints) == ([kept_id], [])
    assert runtime.state(kept_id).status == "running"
    assert not (engine.images.snapshots.root / lost).exists()
    node.remove(pod)
    node.stop()


def test_an_unusable_record_is_set_aside_and_reported(node: Node) -> None:
    pod = node.pod()
    kept_id, bad = node.run(pod, "kept"), node.run(pod, "bad")
    node.engine.container_removal.stop(bad)
    node.stop()
    path = node.config.root / f"records/containers/{bad}.json"
    before = path.read_text()
    path.write_text(before.replace('"metadata": {', '"metadata": 7, "labels": {', 1))
    engine = node.start()
    assert {container.id for container in engine.inventory.containers()} == {kept_id, bad}, (
        "a substitute takes its place"
    )
    (complaint,) = engine.complaints
    assert "set aside" in complaint and "bad" in complaint
    node.stop()
    (node.config.root / f"records/broken/{bad}.json").unlink()
    path.write_text(before)
    assert {container.id for container in node.start().inventory.containers()} == {kept_id, bad}


@pytest.mark.parametrize("depth", [1_200, 3_000])
def test_an_image_with_a_deep_tree_is_loaded_completely_or_refused(machine: Machine, depth: int) -> None:
    need_tool("umoci")
    need_tool("skopeo")
    tree = machine.folder / "layout"
    source = layout(tree, [base_layer(), layer({"a/" * depth + "b": b"x"})])
    store = ImageStore(machine.folder / "images")
    try:
        store.load(source, "deep:1")
    except CommandFailed:
        assert store.list() == []
        assert depth * 2 > os.pathconf("/", "PC_PATH_MAX"), "a path can say this depth"
    else:
        (image,) = store.list()
        assert image.inodes > depth
    assert [*(store.root / "pulls").iterdir()] == []
    reopened_store = ImageStore(store.root)
    assert (reopened_store.list(), reopened_store.complaints) == (store.list(), [])
    for image in reopened_store.list():
        rootfs = reopened_store.mount(image, "c1")
        assert (rootfs / "bin/busybox").exists()
        reopened_store.unmount("c1")
        reopened_store.remove(image.id)
    assert [*(store.root / "images").iterdir()] == [] == [*reopened_store.snapshots.root.iterdir()]


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Path]:
    """A small separate file system."""
    place = machine.folder / "disk"
    place.mkdir()
    if request.param == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,nr_inodes=3000", "disk", place], check=True)
    else:
        file = machine.folder / "disk.img"
        with file.open("wb") as image_file:
            image_file.truncate(32 << 20)
        subprocess.run([need_tool("mkfs.ext4"), "-q", "-m", "0", file], check=True, timeout=60)
        process = subprocess.run(["mount", "-o", "loop", file, place], check=False, capture_output=True, text=True)
        need(process.returncode == 0, f"loop devices ({process.stderr.strip()})")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(folder: Path) -> None:
    """Leave no byte and no name on a disk."""
    for size in (1 << 20, 4096, 1):
        try:
            with (folder / f"full{size}").open("wb", buffering=0) as file:
                while file.write(b"x" * size) == size:
                    pass
        except OSError as error:
            assert error.errno == errno.ENOSPC
    try:
        for number in range(100_000):
            (folder / f"{number}{'x' * 240}").touch()
    except OSError as error:
        assert error.errno == errno.ENOSPC
    with pytest.raises(OSError, match="No space left"):
        (folder / "more").write_bytes(b"x" * 4096)


@pytest.mark.parametrize("driver", ["overlay", "copy"])
def test_removals_free_a_full_disk(node: Node, disk: Path, driver: str) -> None:
    shutil.copytree(node.config.root / "images", disk / "root/images", symlinks=True)
    node.config = replace(node.config, root=disk / "root", state=disk / "state", images=ImageConfig(snapshots=driver))
    engine = node.engine
    pods = [node.pod(name, network=pb.POD) for name in ("a", "b")]
    stopped, running, other = node.run(pods[0], "stopped"), node.run(pods[0], "running"), node.run(pods[1], "other")
    engine.container_removal.stop(stopped)
    fill(disk)
    engine.container_removal.remove(stopped)
    fill(disk)
    engine.container_removal.stop(running)
    engine.pod_removal.stop(pods[0])
    engine.pod_removal.remove(pods[0])
    assert {container.id for container in engine.inventory.containers()} == {other}
    fill(disk)
    engine.pod_removal.remove(pods[1])
    fill(disk)
    engine.images.remove(IMAGE)
    assert (engine.images.list(), engine.inventory.pods(), engine.inventory.containers()) == ([], [], [])
    assert [*(disk / "root/images/images").iterdir()] == []
    assert shutil.disk_usage(disk).free > 500_000, "the image's files"
    fill(disk)
    node.restart()
    assert (node.engine.images.list(), node.engine.complaints) == ([], [])
    node.stop()
    remove_tree(disk / "state/bundles")
