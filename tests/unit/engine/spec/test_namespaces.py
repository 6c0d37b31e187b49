from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Machine, Options, Pod
from nri.engine.spec.namespaces import id_mappings, namespaces, pod_namespaces
from nri.errors import RequestError

PATHS = {kind: f"/run/{kind}" for kind in ("network", "ipc", "uts", "pid", "user")}
V1 = Machine(cgroup_v2=False)


def joined(
    namespace_option: pb.NamespaceOption | None, *, machine: Machine = V1, target: str = "", **pod: object
) -> dict:
    config = pb.ContainerConfig()
    if namespace_option is not None:
        config.linux.security_context.namespace_options.CopyFrom(namespace_option)
    options = Options("c1", "/rootfs", machine=machine, target_pid_namespace=target)
    rows = namespaces(config, Pod("p1", pb.PodSandboxConfig(), PATHS), options)
    return {entry["type"]: entry.get("path") for entry in rows}


def test_a_container_joins_its_pods_namespaces_and_has_its_own_pid_namespace() -> None:
    assert joined(pb.NamespaceOption(pid=pb.CONTAINER)) == {
        "network": "/run/network",
        "ipc": "/run/ipc",
        "pid": None,
        "uts": "/run/uts",
        "mount": None,
    }


def test_a_container_on_the_node_has_only_a_mount_namespace() -> None:
    assert joined(pb.NamespaceOption(network=pb.NODE, ipc=pb.NODE, pid=pb.NODE)) == {"mount": None}


def test_by_default_a_container_has_its_pods_options() -> None:
    pod = pb.PodSandboxConfig()
    pod.linux.security_context.namespace_options.CopyFrom(pb.NamespaceOption(network=pb.NODE, ipc=pb.NODE, pid=pb.NODE))
    rows = namespaces(pb.ContainerConfig(), Pod("p1", pod), Options("c1", "/", machine=V1))
    assert rows == [{"type": "mount"}]


@pytest.mark.parametrize("mode", [pb.POD, pb.CONTAINER, pb.TARGET])
def test_every_network_and_ipc_mode_except_node_means_the_pods(mode: pb.NamespaceMode) -> None:
    paths = joined(pb.NamespaceOption(network=mode, ipc=mode, pid=pb.NODE))
    assert paths == {"network": "/run/network", "ipc": "/run/ipc", "uts": "/run/uts", "mount": None}


def test_a_container_uses_the_nodes_namespaces_if_its_pod_does() -> None:
    pod = pb.PodSandboxConfig()
    pod.linux.security_context.namespace_options.CopyFrom(pb.NamespaceOption(network=pb.NODE, ipc=pb.NODE, pid=pb.NODE))
    config = pb.ContainerConfig()
    config.linux.security_context.namespace_options.CopyFrom(pb.NamespaceOption())
    assert namespaces(config, Pod("p1", pod), Options("c1", "/", machine=V1)) == [{"type": "mount"}]


def test_the_pid_namespace_of_the_pod_or_a_target_can_be_shared() -> None:
    assert joined(pb.NamespaceOption(pid=pb.POD))["pid"] == "/run/pid"
    target = pb.NamespaceOption(pid=pb.TARGET, target_id="c2")
    assert joined(target, target="/proc/7/ns/pid")["pid"] == "/proc/7/ns/pid"
    with pytest.raises(RequestError, match=r'target_id: "c2": no running container'):
        joined(target)


def test_on_cgroup_v2_a_container_has_a_cgroup_namespace() -> None:
    assert "cgroup" in joined(pb.NamespaceOption(), machine=Machine())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (pb.NamespaceOption(network=9), r"network: 9: is not a mode of namespaces"),
        (pb.NamespaceOption(pid=9), r"pid: 9: is not a mode of namespaces"),
        (pb.NamespaceOption(userns_options=pb.UserNamespace(mode=pb.CONTAINER)), r"userns_options\.mode"),
    ],
)
def test_an_unknown_mode_is_an_error(name: pb.NamespaceOption, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        joined(name)


def test_the_sandbox_creates_shared_namespaces() -> None:
    config = pb.PodSandboxConfig()
    namespace_options = config.linux.security_context.namespace_options
    assert [pod_namespace["type"] for pod_namespace in pod_namespaces(config, V1)] == [
        "network",
        "ipc",
        "pid",
        "uts",
        "mount",
    ]
    namespace_options.network, namespace_options.pid = pb.NODE, pb.CONTAINER
    assert [pod_namespace["type"] for pod_namespace in pod_namespaces(config, V1)] == ["ipc", "pid", "mount"]


def test_ids_are_mapped_only_in_a_user_namespace() -> None:
    row = [pb.IDMapping(host_id=100000, container_id=0, length=65536)]
    namespace_option = pb.NamespaceOption(userns_options=pb.UserNamespace(mode=pb.POD, uids=row, gids=row))
    assert id_mappings(namespace_option)["gidMappings"] == [{"containerID": 0, "hostID": 100000, "size": 65536}]
    assert joined(namespace_option)["user"] == "/run/user"
    namespace_option.userns_options.mode = pb.NODE
    assert id_mappings(namespace_option) == {}
    assert "user" not in joined(namespace_option)
    namespace_option.userns_options.mode = pb.POD
    namespace_option.userns_options.gids[0].container_id = 1
    with pytest.raises(RequestError, match=r"userns_options\.gids: 1: must start at id 0"):
        id_mappings(namespace_option)
    del namespace_option.userns_options.uids[:]
    with pytest.raises(RequestError, match=r"userns_options\.uids: 0: must be exactly one mapping"):
        id_mappings(namespace_option)
