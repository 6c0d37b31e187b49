from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Machine, Options, pod_spec, pod_sysctls
from nri.errors import RequestError

OPTIONS = Options("p1", "/pause", machine=Machine(cgroup_v2=False, oom_score_floor=0))


def config(**linux: object) -> pb.PodSandboxConfig:
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid="u1"),
        hostname="web",
        linux=pb.LinuxPodSandboxConfig(cgroup_parent="/kubepods", **linux),  # type: ignore[arg-type]
    )


def test_what_holds_a_pod_can_do_as_little_as_possible() -> None:
    spec, notes = pod_spec("p1", config(), ["/pause"], OPTIONS)
    process = spec["process"]
    assert (spec["root"], process["args"]) == ({"path": "/pause", "readonly": True}, ["/pause"])
    assert process["capabilities"] == {"bounding": [], "effective": [], "permitted": []}
    assert (process["noNewPrivileges"], process["oomScoreAdj"]) == (True, 0)
    assert spec["hostname"] == "web"
    assert spec["linux"]["cgroupsPath"] == "/kubepods/p1"
    assert spec["annotations"]["io.kubernetes.cri.sandbox-name"] == "web"
    assert "/proc/keys" in spec["linux"]["maskedPaths"]
    assert notes == ()


def test_a_pod_of_the_nodes_network_has_the_nodes_name() -> None:
    context = pb.LinuxSandboxSecurityContext(namespace_options=pb.NamespaceOption(network=pb.NODE))
    assert "hostname" not in pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS).spec


def test_the_pods_user_and_groups() -> None:
    context = pb.LinuxSandboxSecurityContext(
        run_as_user=pb.Int64Value(value=5), run_as_group=pb.Int64Value(value=6), supplemental_groups=[7, 6]
    )
    spec = pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS).spec
    assert spec["process"]["user"] == {"uid": 5, "gid": 6, "additionalGids": [6, 7]}
    context.ClearField("run_as_user")
    with pytest.raises(RequestError, match="run_as_group: 6: needs run_as_user"):
        pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS)


def test_an_id_that_is_none_is_refused() -> None:
    context = pb.LinuxSandboxSecurityContext(run_as_user=pb.Int64Value(value=-5))
    with pytest.raises(RequestError, match="run_as_user: -5: is no id"):
        pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS)


def test_sysctls_of_a_pods_namespaces_are_set_in_either_form() -> None:
    asked = {"net/ipv4/conf/eth0.1/forwarding": "1", "kernel.shm_rmid_forced": "0", "fs.mqueue.msg_max": "9"}
    assert pod_sysctls(config(sysctls=asked)) == {
        "net.ipv4.conf.eth0/1.forwarding": "1",
        "kernel.shm_rmid_forced": "0",
        "fs.mqueue.msg_max": "9",
    }


@pytest.mark.parametrize(
    "name", ["vm.swappiness", "kernel.panic", "net", "net..x", "net.a/../b", "net.", "/etc/passwd"]
)
def test_a_setting_of_the_whole_node_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is a setting of the whole node, not of a pod"):
        pod_sysctls(config(sysctls={name: "1"}))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("net.ipv4.ip_forward", pb.NamespaceOption(network=pb.NODE)),
        ("kernel.msgmax", pb.NamespaceOption(ipc=pb.NODE)),
        ("kernel.domainname", pb.NamespaceOption(network=pb.NODE)),
    ],
)
def test_a_sysctl_of_a_namespace_that_is_the_nodes_is_refused(name: str, options: pb.NamespaceOption) -> None:
    context = pb.LinuxSandboxSecurityContext(namespace_options=options)
    with pytest.raises(RequestError, match=r'"1": the pod shares its \w+ namespace with the node'):
        pod_sysctls(config(sysctls={name: "1"}, security_context=context))
