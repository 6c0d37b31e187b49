from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Machine, Options, Pod
from nri.engine.spec.mounts import mounts
from nri.errors import RequestError

POD = Pod("p1", pb.PodSandboxConfig(), files={"/etc/hosts": "/run/hosts", "/dev/shm": "/run/shm"})
OPTIONS = Options("c1", "/rootfs")


def mounts_by_path(
    *mount_: pb.Mount, privileged: bool = False, readonly: bool = False, options: Options = OPTIONS
) -> dict:
    context = pb.LinuxContainerSecurityContext(privileged=privileged, readonly_rootfs=readonly)
    config = pb.ContainerConfig(mounts=mount_, linux=pb.LinuxContainerConfig(security_context=context))
    return {mount["destination"]: mount for mount in mounts(config, POD, options)[0]}


def test_every_container_has_the_default_mounts_and_its_pods() -> None:
    mount_rows = mounts_by_path()
    assert list(mount_rows) == ["/proc", "/dev", "/sys", "/dev/pts", "/dev/mqueue", "/etc/hosts", "/dev/shm", "/sys/fs/cgroup"]  # fmt: skip  # noqa: E501
    assert mount_rows["/etc/hosts"]["options"] == ["rbind", "rprivate", "rw"]
    assert "ro" in mount_rows["/sys"]["options"] and "ro" in mount_rows["/sys/fs/cgroup"]["options"]
    assert mounts_by_path(readonly=True)["/etc/hosts"]["options"] == ["rbind", "rprivate", "ro"]
    assert "rw" in mounts_by_path(privileged=True)["/sys"]["options"]


def test_a_requested_mount_replaces_ours_and_follows_its_parents() -> None:
    mount_rows = mounts_by_path(
        pb.Mount(container_path="/data/a/b", host_path="/x"),
        pb.Mount(container_path="/etc/hosts/", host_path="/mine", readonly=True),
        pb.Mount(container_path="/data", host_path="/y"),
    )
    assert mount_rows["/etc/hosts"]["source"] == "/mine"
    order = list(mount_rows)
    assert order.index("/data") < order.index("/data/a/b")


def test_two_mounts_on_one_path_keep_their_order() -> None:
    mount_ = [pb.Mount(container_path="/d", host_path=path) for path in ("/first", "/second")]
    mount_rows, _ = mounts(pb.ContainerConfig(mounts=mount_), POD, OPTIONS)
    assert [mount["source"] for mount in mount_rows if mount["destination"] == "/d"] == ["/first", "/second"]


@pytest.mark.parametrize(
    ("propagation", "option", "root"),
    [
        (pb.PROPAGATION_PRIVATE, "rprivate", ""),
        (pb.PROPAGATION_HOST_TO_CONTAINER, "rslave", "rslave"),
        (pb.PROPAGATION_BIDIRECTIONAL, "rshared", "rshared"),
    ],
)
def test_propagation_reaches_the_mount_and_the_root(propagation: int, option: str, root: str) -> None:
    mount_ = pb.Mount(container_path="/d", host_path="/h", propagation=propagation)
    mount_rows, spread = mounts(pb.ContainerConfig(mounts=[mount_]), POD, OPTIONS)
    assert next(mount for mount in mount_rows if mount["destination"] == "/d")["options"] == ["rbind", option, "rw"]
    assert spread == root


@pytest.mark.parametrize(
    ("source", "propagation", "fine"),
    [
        ("rshared", pb.PROPAGATION_BIDIRECTIONAL, True),
        ("rslave", pb.PROPAGATION_BIDIRECTIONAL, False),
        ("", pb.PROPAGATION_HOST_TO_CONTAINER, False),
        ("rslave", pb.PROPAGATION_HOST_TO_CONTAINER, True),
        ("", pb.PROPAGATION_PRIVATE, True),
    ],
)
def test_a_source_must_have_the_requested_propagation(source: str, propagation: int, fine: bool) -> None:
    mount = pb.Mount(container_path="/d", host_path="/h", propagation=propagation)
    options = Options("c1", "/rootfs", propagation=lambda path: source)
    if fine:
        mounts_by_path(mount, options=options)
    else:
        with pytest.raises(RequestError, match=r"mounts\[0\]\.propagation: \"PROPAGATION_.*/h must be on a mount"):
            mounts_by_path(mount, options=options)


def test_an_image_is_mounted_read_only() -> None:
    image = pb.ImageSpec(image="models:1")
    mount = pb.Mount(container_path="/models", image=image, image_sub_path="a", readonly=True)
    mount_rows = mounts_by_path(mount, options=Options("c1", "/rootfs", image_folders={0: "/images/1/a"}))
    assert mount_rows["/models"]["source"] == "/images/1/a"
    assert mount_rows["/models"]["options"] == ["rbind", "rprivate", "ro"]
    mount.mount_options.append("noexec")
    mount_rows = mounts_by_path(mount, options=Options("c1", "/rootfs", image_folders={0: "/images/1/a"}))
    assert mount_rows["/models"]["options"] == ["rbind", "rprivate", "ro", "noexec"]
    with pytest.raises(RequestError, match=r'mounts\[0\]\.image: "models:1": is not on this node'):
        mounts_by_path(mount)
    mount.readonly = False
    with pytest.raises(RequestError, match=r'mounts\[0\]\.readonly: "false"'):
        mounts_by_path(mount, options=Options("c1", "/rootfs", image_folders={0: "/images/1/a"}))


def test_an_image_mount_has_the_id_mapping_of_its_pod() -> None:
    rows = [pb.IDMapping(host_id=1, container_id=0, length=2)]
    image = pb.ImageSpec(image="models:1")
    mount = pb.Mount(container_path="/m", image=image, readonly=True, uidMappings=rows, gidMappings=rows)
    options = Options("c1", "/rootfs", machine=Machine(idmapped_mounts=False), image_folders={0: "/images/1"})
    config = pb.ContainerConfig(mounts=[mount])
    users = config.linux.security_context.namespace_options.userns_options
    users.CopyFrom(pb.UserNamespace(mode=pb.POD, uids=rows, gids=rows))
    mount_rows = {row["destination"]: row for row in mounts(config, Pod("p1", pb.PodSandboxConfig()), options)[0]}
    assert "uidMappings" not in mount_rows["/m"], "the engine has mapped the folder itself"
    users.uids[0].host_id = 3
    with pytest.raises(RequestError, match=r"mounts\[0\]\.uidMappings: 1: differs from the mapping of the pod"):
        mounts(config, Pod("p1", pb.PodSandboxConfig()), options)


def test_ids_of_a_mount_are_mapped() -> None:
    mapping = [pb.IDMapping(host_id=1, container_id=0, length=2)]
    mount = pb.Mount(container_path="/d", host_path="/h", uidMappings=mapping, gidMappings=mapping)
    assert mounts_by_path(mount)["/d"]["uidMappings"] == [{"containerID": 0, "hostID": 1, "size": 2}]
    with pytest.raises(RequestError, match="ID-mapped mounts are not supported"):
        mounts_by_path(mount, options=Options("c1", "/rootfs", machine=Machine(idmapped_mounts=False)))
    del mount.gidMappings[:]
    with pytest.raises(RequestError, match=r"gidMappings.*both uidMappings"):
        mounts_by_path(mount)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"container_path": ""}, r'mounts\[0\]\.container_path: "": is required'),
        ({"container_path": "/x/.."}, r"container_path: \"/x/\.\.\": must not be the root"),
        ({"host_path": ""}, r'mounts\[0\]\.host_path: "": must be an absolute path'),
        ({"image": pb.ImageSpec(image="i")}, r"host_path: \"/h\": must not be given together with an image"),
        ({"image_sub_path": "s"}, r"image_sub_path: \"s\": requires an image"),
        ({"propagation": 9}, r"propagation: 9: is unknown"),
        ({"mount_options": ["ro"]}, r"mount_options\[0\]: \"ro\": is not an option"),
        ({"recursive_read_only": True}, r"recursive_read_only: \"true\": requires readonly"),
        ({"recursive_read_only": True, "readonly": True, "propagation": 1}, r"requires PROPAGATION_PRIVATE"),
    ],
)
def test_an_invalid_mount_is_an_error_with_field_and_value(fields: dict, problem: str) -> None:
    mount = pb.Mount(**{"container_path": "/d", "host_path": "/h", **fields})
    with pytest.raises(RequestError, match=problem):
        mounts_by_path(mount)


def test_recursive_read_only_requires_support_of_the_runtime() -> None:
    mount = pb.Mount(container_path="/d", host_path="/h", readonly=True, recursive_read_only=True)
    assert mounts_by_path(mount)["/d"]["options"] == ["rbind", "rprivate", "rro"]
    with pytest.raises(RequestError, match="is not supported by the OCI runtime"):
        mounts_by_path(mount, options=Options("c1", "/rootfs", machine=Machine(recursive_read_only=False)))
