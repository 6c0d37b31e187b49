"""Host paths, images, users and namespaces of a request are resolved for the spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_creation import image_config
from nri.engine.images import Image
from nri.engine.images.mapping import IdMapping
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry, to_json
from nri.engine.spec import Account, Options
from nri.engine.state import ContainerRecord, PodRecord
from nri.errors import RequestError
from nri.oci import MountTable


class World:
    """The creation of containers in a dry engine whose images are folders below `folder`, by the name of their mount.

    Attributes:
        mounted: the names of mounts that are there, with the ids that they are mapped to.
    """

    def __init__(self, dry: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.mounted: dict[str, IdMapping | None] = {}
        self.creation = dry.engine.container_creation
        monkeypatch.setattr(dry.engine.images, "mount", self._mount)
        monkeypatch.setattr(dry.engine.images, "unmount", self.mounted.pop)

    def _mount(self, image: Image, name: str, mapping: IdMapping | None = None) -> Path:
        self.mounted[name] = mapping
        return self.folder / name

    def mount(self, config: pb.ContainerConfig, pod: PodEntry | None = None) -> dict[int, str]:
        folders: dict[int, str] = self.creation.mount_root(pod or pod_of(), entry_of(config), Image("sha256:a"))
        return folders

    def options(self, config: pb.ContainerConfig, pod: PodEntry | None = None) -> tuple[pb.ContainerConfig, Options]:
        result: tuple[pb.ContainerConfig, Options] = self.creation.spec_options(
            pod or pod_of(), entry_of(config), Account(), {}, {}
        )
        return result


@pytest.fixture
def world(dry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(dry, tmp_path, monkeypatch)


def mounts(*rows: pb.Mount) -> pb.ContainerConfig:
    return pb.ContainerConfig(mounts=rows)


def entry_of(config: pb.ContainerConfig) -> ContainerEntry:
    return ContainerEntry(ContainerRecord("c1", config=to_json(config), runtime_handler="runc"), {})


def users(first: int) -> pb.LinuxContainerSecurityContext:
    security = pb.LinuxContainerSecurityContext()
    options = security.namespace_options.userns_options
    options.mode = pb.POD
    for rows in (options.uids, options.gids):
        rows.add(host_id=first, container_id=0, length=65_536)
    return security


def pod_of(security: pb.LinuxContainerSecurityContext | None = None) -> PodEntry:
    config = pb.PodSandboxConfig()
    if security is not None:
        config.linux.security_context.namespace_options.CopyFrom(security.namespace_options)
    return PodEntry(PodRecord("p1", config=to_json(config), namespace_paths={"user": "/pinned"}))


def test_links_in_host_paths_are_followed_and_missing_folders_created(world: World, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    mount_ = mounts(pb.Mount(host_path=f"{tmp_path}/link"), pb.Mount(host_path=f"{tmp_path}/new/deep"), pb.Mount())
    config, _ = world.options(mount_)
    assert [mount.host_path for mount in config.mounts] == [f"{tmp_path}/real", f"{tmp_path}/new/deep", ""]
    assert (tmp_path / "new/deep").is_dir()


def test_a_host_path_that_cannot_be_created_names_its_mount(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=r"mounts\[0\]\.host_path"):
        world.options(mounts(pb.Mount(host_path=f"{tmp_path}/file/below")))


def test_image_mounts_are_mounted_and_unmounted(world: World) -> None:
    config = mounts(
        pb.Mount(container_path="/a"),
        pb.Mount(image=pb.ImageSpec(image="b")),
        pb.Mount(image=pb.ImageSpec()),
        pb.Mount(image=pb.ImageSpec(image="b", image_ref="sha256:c")),
    )
    entry = entry_of(config)
    folders = world.creation.mount_root(pod_of(), entry, Image("sha256:a"))
    assert folders == {1: f"{world.folder}/c1-image1", 3: f"{world.folder}/c1-image3"}
    assert world.mounted == {"c1": None, "c1-image1": None, "c1-image3": None}
    assert entry.record.rootfs == f"{world.folder}/c1"
    refs = {index: entry.record.mounts[index]["image"]["image_ref"] for index in folders}
    assert len({*refs.values()}) == 2, "the reference of the image counts, or its name without a reference"
    world.creation.unmount_root(entry)
    assert world.mounted == {}


@pytest.mark.parametrize("path", ["/etc", "..", "a/../../b", "link/../.."])
def test_a_sub_path_of_an_image_does_not_lead_out_of_the_image(world: World, path: str) -> None:
    image = pb.Mount(image=pb.ImageSpec(image="b"), image_sub_path=path)
    with pytest.raises(RequestError, match=r"mounts\[2\]\.image_sub_path.*must be inside"):
        world.mount(mounts(pb.Mount(container_path="/a"), pb.Mount(container_path="/b"), image))


def test_links_in_an_image_do_not_lead_out_of_the_image(world: World) -> None:
    root = world.folder / "c1-image0"
    (root / "sub").mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    (root / "up").symlink_to("../..")

    def part(path: str) -> str:
        return world.mount(mounts(pb.Mount(image=pb.ImageSpec(image="b"), image_sub_path=path)))[0]

    assert part("sub") == f"{root}/sub"
    assert part("") == str(root)
    assert part("up") == str(root), "its root is where it ends"
    for path in ("out", "none"):
        with pytest.raises(RequestError, match="is not in the image"):
            part(path)


def test_by_default_a_container_has_its_pods_id_mapping(world: World) -> None:
    for config in (pb.ContainerConfig(), pb.ContainerConfig(linux={"security_context": users(100_000)})):
        world.mount(config, pod_of(users(100_000)))
        assert [mapping[:5] for mapping in world.mounted.values() if mapping] == [
            (Path("/pinned"), 100_000, 100_000, 65_536, 65_536)
        ]
    world.mount(pb.ContainerConfig())
    assert world.mounted == {"c1": None}


def test_an_id_mapping_other_than_the_pods_is_refused(world: World) -> None:
    with pytest.raises(RequestError, match="differs from the pod's"):
        world.mount(pb.ContainerConfig(linux={"security_context": users(200_000)}), pod_of(users(100_000)))
    assert world.mounted == {}


def test_a_target_pid_namespace_must_be_of_a_running_container_of_the_pod(dry: Any, world: World) -> None:
    pod = dry.pod()
    running, created = dry.run(pod, "running"), dry.create(pod, "created")
    entry = dry.engine.inventory.pod(pod)

    def target(identity: str) -> str:
        config = pb.ContainerConfig()
        options = config.linux.security_context.namespace_options
        options.pid, options.target_id = pb.TARGET, identity
        return world.options(config, entry)[1].target_pid_namespace

    pid = dry.engine.inventory.container(running).record.pid
    assert target(running) == f"/proc/{pid}/ns/pid"
    assert target(created) == target("") == ""
    elsewhere = dry.run(dry.pod("other"), "elsewhere")
    assert target(elsewhere) == ""


def test_settings_of_an_image_are_read() -> None:
    image = Image("sha256:a", config={"Cmd": ["sh"], "User": "me", "WorkingDir": "/w", "StopSignal": "SIGINT"})
    settings = image_config(image)
    assert (settings.cmd, settings.user, settings.working_dir, settings.stop_signal) == (["sh"], "me", "/w", "SIGINT")


def test_the_hosts_mount_table_is_read_once_on_demand(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = MountTable.of_host
    monkeypatch.setattr(MountTable, "of_host", lambda: (reads.append("mountinfo"), read())[1])
    _, options = world.options(mounts(pb.Mount(host_path=str(tmp_path), container_path="/a")))
    assert reads == []
    assert options.propagation is not None
    assert [options.propagation(path) is not None for path in ("/", str(tmp_path))] == [True, True]
    assert reads == ["mountinfo"]
