"""Volumes of an image in real containers: content, owners, lifetime and settings."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.engine import Engine
from nri.engine.images import snapshots
from nri.engine.support.command import start
from nri.errors import NriError, RequestError
from tests.engine.node import Node, die, killed_while
from tests.engine.test_user_namespaces import FIRST, container, inside, mapped
from tests.support.oci_layouts import base_layer, layout

DATABASE = "localhost/nri/database:1"
#: Path, mode, owner and content of the files of the image below its volume.
FILES = (
    ("data", 0o1750, 70, None),
    ("data/sub", 0o711, 71, None),
    ("data/sub/file", 0o4640, 72, b"from the image"),
    ("link", 0o777, 0, "/data/sub"),
    ("plain", 0o644, 0, b"a file"),
)


def database(node: Node, volumes: Sequence[str], *, name: str = DATABASE, **settings: Any) -> None:
    """Load an image with these volumes into an engine with these settings of images."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, mode, owner, content in FILES:
            row = tarfile.TarInfo(path)
            row.mode, row.uid, row.gid = mode, owner, owner
            row.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
            if isinstance(content, bytes):
                row.type, row.size = tarfile.REGTYPE, len(content)
            elif content:
                row.linkname = content
            archive.addfile(row, io.BytesIO(content) if isinstance(content, bytes) else None)
    config = {"Volumes": {path: {} for path in volumes}, "User": "70:70"}
    source = layout(
        node.folder / f"layout-{len(list(node.folder.iterdir()))}", [base_layer(), buffer.getvalue()], config=config
    )
    if settings:
        node.start(replace(node.config, images=replace(node.config.images, **settings)))
    node.engine.images.load(source, name)


def configuration(node: Node, **more: Any) -> pb.ContainerConfig:
    """A container of the image with a read-only root, as the images of databases are run."""
    config = node.container_config("c", **more)
    config.image.image = DATABASE
    config.linux.security_context.readonly_rootfs = True
    return config


def started(node: Node, pod: str, config: pb.ContainerConfig) -> str:
    container_id = node.engine.container_creation.create(pod, config)
    node.engine.container_start.start(container_id)
    return container_id


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("driver", ["overlay", "copy"])
def test_a_volume_is_a_writable_copy_of_the_images_folder_for_each_container(
    node: Node, handler: str, driver: str
) -> None:
    database(node, ["/data", "new/deep/", "/link"], snapshots=driver)
    pod = node.pod(handler=handler)
    first = started(node, pod, configuration(node))
    stat = "stat -c '%a %u:%g' /data /data/sub /data/sub/file /link/file /new/deep"
    assert inside(node, first, stat).splitlines() == ["1750 70:70", "711 71:71", "4640 72:72", "4640 72:72", "755 0:0"]
    assert inside(node, first, "echo mine > /data/own; cat /data/own; touch /else 2>&1 || true").startswith("mine")
    second_config = configuration(node)
    second_config.metadata.name = "second"
    second = started(node, pod, second_config)
    assert inside(node, second, "ls /data") == "sub"
    node.restart()  # they outlive the engine
    assert inside(node, first, "cat /data/own") == "mine"
    node.engine.container_removal.remove(first)
    assert not (node.config.root / "images/snapshots" / first).exists()
    node.remove(pod)
    node.assert_nothing_left()


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("driver", ["overlay", "copy"])
def test_a_volume_of_a_pod_with_a_user_namespace_belongs_to_its_users(node: Node, handler: str, driver: str) -> None:
    database(node, ["/data", "/new"], snapshots=driver)
    config = mapped(node)
    pod = node.engine.pod_creation.run(config, handler)
    config_ = container(node, config, "c", readonly_rootfs=True)
    config_.image.image = DATABASE
    container_id = started(node, pod, config_)
    assert inside(node, container_id, "stat -c %u:%g /data /data/sub/file /new").split() == ["70:70", "72:72", "0:0"]
    inside(node, container_id, "echo mine > /data/own")
    volume = node.config.root / "images/snapshots" / container_id / "volumes/0"
    assert (volume.stat().st_uid, (volume / "own").stat().st_uid) == (FIRST + 70, FIRST + 70)
    node.remove(pod)
    node.assert_nothing_left()


def test_mounts_of_the_request_and_the_engine_replace_a_volume(node: Node) -> None:
    database(node, ["/data/./", "/dev/shm", "/etc/hosts", "/proc"])
    folder = node.folder / "of-the-pod"
    folder.mkdir()
    (folder / "file").touch()
    config = configuration(node)
    config.mounts.add(container_path="/data", host_path=str(folder))
    container_id = started(node, node.pod(), config)
    assert inside(node, container_id, "ls /data; test -f /etc/hosts; test -f /proc/self/status") == "file"
    assert not (node.config.root / "images/snapshots" / container_id / "volumes").exists()


def test_the_setting_mkdir_creates_the_folder_in_the_root_with_the_containers_user(node: Node) -> None:
    database(node, ["/data", "/new/deep", "/link/below"], image_volumes="mkdir")
    container_id = started(node, node.pod(), configuration(node))
    assert (
        inside(node, container_id, "stat -c '%a %u:%g' /new /new/deep /data/sub/below").splitlines()
        == ["755 70:70"] * 3
    )
    assert " /new" not in inside(node, container_id, "cat /proc/mounts")
    assert inside(node, container_id, "touch /data/x 2>&1 || echo refused").endswith("refused")


def test_the_setting_ignore_creates_no_volume(node: Node) -> None:
    database(node, ["/data", "/new"], image_volumes="ignore")
    container_id = started(node, node.pod(), configuration(node))
    assert (
        inside(node, container_id, "ls -d /new 2>/dev/null; ls /data/; cat /proc/mounts | grep -c ' /data '; true")
        == "sub\n0"
    )


@pytest.mark.parametrize("kind", ["bind", "mkdir"])
def test_a_link_in_the_image_does_not_lead_out_of_the_root(node: Node, kind: str) -> None:
    secret = node.folder / "secret"
    secret.mkdir()
    (secret / "key").write_text("of the node")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        row = tarfile.TarInfo("out")
        row.type, row.linkname = tarfile.SYMTYPE, f"../../../../../../../..{node.folder}"
        archive.addfile(row)
    config = {"Volumes": {"/out/secret": {}}}
    node.start(replace(node.config, images=replace(node.config.images, image_volumes=kind)))
    node.engine.images.load(layout(node.folder / "layout", [base_layer(), buffer.getvalue()], config=config), DATABASE)
    pod = node.pod()
    try:
        container_id = started(node, pod, configuration(node))
    except NriError:
        pass  # the link leads to nothing in the image
    else:
        assert inside(node, container_id, "cat /out/secret/key 2>/dev/null || echo none") == "none"
    assert os.listdir(secret) == ["key"]
    node.remove(pod)
    node.assert_nothing_left()


@pytest.mark.parametrize(
    ("volumes", "problem"),
    [
        (["/"], '"/": must be below the root'),
        (["/data/../.."], r'"/data/\.\./\.\.": must be below the root'),
        (["/" + "a" * 300], ".*has a name of more than 255 bytes"),
        ([f"/v{number}" for number in range(200)], "200: an image can have at most 128"),
    ],
)
def test_an_invalid_volume_is_an_error_that_names_the_image(node: Node, volumes: list[str], problem: str) -> None:
    database(node, volumes)
    pod = node.pod()
    with pytest.raises(RequestError, match=f"the volumes of image {DATABASE}: {problem}"):
        node.engine.container_creation.create(pod, configuration(node))
    node.remove(pod)
    node.assert_nothing_left()


def test_a_volume_that_is_a_file_is_refused_and_leaves_no_files(node: Node) -> None:
    database(node, ["/plain"])
    pod = node.pod()
    with pytest.raises(NriError, match="the volume /plain of the image cannot be copied: Not a directory"):
        node.engine.container_creation.create(pod, configuration(node))
    node.remove(pod)
    node.assert_nothing_left()


def test_the_copies_of_volumes_are_limited_by_the_size_of_the_image(node: Node) -> None:
    links = {f"/l{number}": {} for number in range(5)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in links:
            row = tarfile.TarInfo(path[1:])
            row.type, row.linkname = tarfile.SYMTYPE, "/"
            archive.addfile(row)
    source = layout(node.folder / "layout", [base_layer(), buffer.getvalue()], config={"Volumes": links})
    node.engine.images.load(source, DATABASE)
    pod = node.pod()
    with pytest.raises(NriError, match=r"the volume /l2 of the image has \d+ bytes; only \d+ bytes are left"):
        node.engine.container_creation.create(pod, configuration(node))
    node.remove(pod)
    node.assert_nothing_left()


def test_after_a_kill_a_restart_ends_and_removes_a_running_copy(node: Node) -> None:
    database(node, ["/data"])
    pod = node.pod()

    def create(engine: Engine) -> None:
        def copy(argv: Sequence[str], **_: object) -> None:
            start(["sh", "-c", 'while :; do mkdir -p "$0/x"; sleep 0.01; done', argv[-1]])
            die()

        snapshots.run = copy  # in the process that is killed
        engine.container_creation.create(pod, configuration(node))

    killed_while(node, create)
    node.start()
    assert not node.engine.inventory.containers(pod) and not node.engine.complaints
    node.remove(pod)
    node.assert_nothing_left()


@pytest.mark.parametrize("value", ["yes", 1, []])
def test_an_image_whose_volumes_are_not_objects_is_refused(node: Node, value: object) -> None:
    source = layout(node.folder / "layout", [base_layer()], config={"Volumes": {"/data": value}})
    with pytest.raises(NriError, match=r"config\.Volumes\['/data'\] is .*; it must be an object"):
        node.engine.images.load(source, DATABASE)
