"""The findings for a container's spec: paths, images, users, namespaces that a request names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.images import Image
from nri.engine.lifecycle.inputs import _below, _mapping, _mounted, _resolve_mounts, image_config
from nri.engine.lifecycle.inventory import PodEntry, to_json
from nri.engine.state import PodRecord
from nri.errors import RequestError


def mounted(*mounts: pb.Mount) -> pb.ContainerConfig:
    return pb.ContainerConfig(mounts=mounts)


def test_links_of_the_hosts_paths_are_followed_and_what_is_missing_is_made(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config = mounted(pb.Mount(host_path=f"{tmp_path}/link"), pb.Mount(host_path=f"{tmp_path}/new/deep"), pb.Mount())
    _resolve_mounts(config)
    assert [mount.host_path for mount in config.mounts] == [f"{tmp_path}/real", f"{tmp_path}/new/deep", ""]
    assert (tmp_path / "new/deep").is_dir()


def test_a_path_that_cannot_be_made_names_its_mount(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=r"mounts\[0\]\.host_path"):
        _resolve_mounts(mounted(pb.Mount(host_path=f"{tmp_path}/file/below")))


def test_mounts_of_images_are_told_by_their_place() -> None:
    config = mounted(
        pb.Mount(container_path="/a"),
        pb.Mount(image=pb.ImageSpec(image="b")),
        pb.Mount(image=pb.ImageSpec()),
        pb.Mount(image=pb.ImageSpec(image="b", image_ref="sha256:c")),
    )
    assert [(index, name) for index, name, _ in _mounted(config)] == [(1, "b"), (3, "sha256:c")]


@pytest.mark.parametrize("path", ["/etc", "..", "a/../../b", "link/../.."])
def test_a_part_of_an_image_does_not_lead_out_of_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(RequestError, match=r"mounts\[2\]\.image_sub_path.*leads out"):
        _below(tmp_path, pb.Mount(image_sub_path=path), 2)


def test_links_in_an_image_do_not_lead_out_of_it_either(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    (root / "up").symlink_to("../..")
    assert _below(root, pb.Mount(image_sub_path="sub"), 0) == f"{root}/sub"
    assert _below(root, pb.Mount(), 0) == str(root)
    assert _below(root, pb.Mount(image_sub_path="up"), 0) == str(root), "its root is where it ends"
    for path in ("out", "none"):
        with pytest.raises(RequestError, match="is not in the image"):
            _below(root, pb.Mount(image_sub_path=path), 0)


def users(first: int) -> pb.LinuxContainerSecurityContext:
    made = pb.LinuxContainerSecurityContext()
    options = made.namespace_options.userns_options
    options.mode = pb.POD
    for rows in (options.uids, options.gids):
        rows.add(host_id=first, container_id=0, length=65_536)
    return made


def pod_of(security: pb.LinuxContainerSecurityContext | None = None) -> PodEntry:
    config = pb.PodSandboxConfig()
    if security is not None:
        config.linux.security_context.namespace_options.CopyFrom(security.namespace_options)
    return PodEntry(PodRecord("p1", config=to_json(config), namespace_paths={"user": "/pinned"}))


def test_a_container_has_its_pods_mapping_also_if_it_says_nothing() -> None:
    for config in (pb.ContainerConfig(), pb.ContainerConfig(linux={"security_context": users(100_000)})):
        found = _mapping(pod_of(users(100_000)), config)
        assert found == (Path("/pinned"), 100_000, 100_000, 65_536, 65_536)
    assert _mapping(pod_of(), pb.ContainerConfig()) is None


def test_a_mapping_that_is_not_the_pods_is_refused() -> None:
    config = pb.ContainerConfig(linux={"security_context": users(200_000)})
    with pytest.raises(RequestError, match="is not as the pod's"):
        _mapping(pod_of(users(100_000)), config)


def test_the_process_namespace_of_another_is_shared_only_if_it_runs_in_this_pod(dry: Any) -> None:
    pod = dry.pod()
    inputs = dry.engine.containers._creation._inputs
    running, created = dry.run(pod, "running"), dry.create(pod, "created")
    entry = dry.engine.inventory.pod(pod)

    def target(identity: str) -> str:
        config = pb.ContainerConfig()
        options = config.linux.security_context.namespace_options
        options.pid, options.target_id = pb.TARGET, identity
        return inputs._target(entry, config)

    pid = dry.engine.inventory.container(running).record.pid
    assert target(running) == f"/proc/{pid}/ns/pid"
    assert target(created) == target("") == ""
    elsewhere = dry.run(dry.pod("other"), "elsewhere")
    assert target(elsewhere) == ""


def test_an_images_settings_are_those_of_its_process() -> None:
    image = Image("sha256:a", config={"Cmd": ["sh"], "User": "me", "WorkingDir": "/w", "StopSignal": "SIGINT"})
    found = image_config(image)
    assert (found.cmd, found.user, found.working_dir, found.stop_signal) == (["sh"], "me", "/w", "SIGINT")
