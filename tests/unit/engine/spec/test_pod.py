from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Machine, Options, pod_spec
from nri.errors import RequestError

OPTIONS = Options("p1", "/pause", machine=Machine(cgroup_v2=False, oom_score_floor=0))


def config(**linux: object) -> pb.PodSandboxConfig:
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid="u1"),
        hostname="web",
        linux=pb.LinuxPodSandboxConfig(cgroup_parent="/kubepods", **linux),  # type: ignore[arg-type]
    )


def test_the_sandbox_has_minimal_rights() -> None:
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


def test_a_pod_on_the_host_network_has_the_nodes_host_name() -> None:
    context = pb.LinuxSandboxSecurityContext(namespace_options=pb.NamespaceOption(network=pb.NODE))
    assert "hostname" not in pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS).spec


def test_the_sandbox_has_the_pods_user_and_groups() -> None:
    context = pb.LinuxSandboxSecurityContext(
        run_as_user=pb.Int64Value(value=5), run_as_group=pb.Int64Value(value=6), supplemental_groups=[7, 6]
    )
    spec = pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS).spec
    assert spec["process"]["user"] == {"uid": 5, "gid": 6, "additionalGids": [6, 7]}
    context.ClearField("run_as_user")
    with pytest.raises(RequestError, match="run_as_group: 6: requires run_as_user"):
        pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS)


def test_an_invalid_id_is_refused() -> None:
    context = pb.LinuxSandboxSecurityContext(run_as_user=pb.Int64Value(value=-5))
    with pytest.raises(RequestError, match="run_as_user: -5: must be between"):
        pod_spec("p1", config(security_context=context), ["/pause"], OPTIONS)
