from __future__ import annotations

import json

import pytest

from nri.cri.convert import container
from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Account, Base, ImageConfig, Machine, Options, Pod, container_spec
from nri.errors import RequestError

POD = Pod(
    "p1",
    pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid="u1"),
        hostname="web",
        linux=pb.LinuxPodSandboxConfig(cgroup_parent="/kubepods"),
    ),
    {kind: f"/run/{kind}" for kind in ("network", "ipc", "uts", "pid")},
)
IMAGE = ImageConfig(entrypoint=("/app",), env=("PATH=/bin",))


def config() -> pb.ContainerConfig:
    container_config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"),
        image=pb.ImageSpec(image="sha256:1", user_specified_image="busybox:1"),
        tty=True,
        mounts=[pb.Mount(container_path="/d", host_path="/h", propagation=pb.PROPAGATION_HOST_TO_CONTAINER)],
        linux=pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(cpu_shares=9, oom_score_adj=3)),
    )
    container_config.linux.security_context.namespace_options.pid = pb.CONTAINER
    container_config.linux.security_context.seccomp.profile_type = pb.SecurityProfile.RuntimeDefault
    return container_config


def test_a_spec_has_all_parts() -> None:
    options = Options("c1", "/rootfs", Account(1, 2), pids_limit=7, base=Base(annotations={"mine": "1"}))
    spec, notes = container_spec(POD, config(), IMAGE, options)
    assert spec["root"] == {"path": "/rootfs", "readonly": False}
    assert (spec["process"]["args"], spec["process"]["terminal"]) == (["/app"], True)
    assert (spec["process"]["user"]["uid"], spec["process"]["oomScoreAdj"]) == (1, 3)
    assert spec["annotations"]["io.kubernetes.cri.container-name"] == "app"
    assert spec["annotations"]["io.kubernetes.cri.sandbox-id"] == "p1"
    assert spec["annotations"]["mine"] == "1"
    linux = spec["linux"]
    assert (linux["cgroupsPath"], linux["rootfsPropagation"]) == ("/kubepods/c1", "rslave")
    assert (linux["resources"]["cpu"], linux["resources"]["pids"]) == ({"shares": 9}, {"limit": 7})
    assert linux["seccomp"]["defaultErrnoRet"] == 38
    assert notes == ()
    assert json.loads(json.dumps(spec)) == spec


def test_a_pod_on_the_host_network_has_the_nodes_host_name() -> None:
    options = Options("c1", "/rootfs", machine=Machine(hostname="node1"))
    pod = Pod("p1", pb.PodSandboxConfig(), POD.namespaces)
    assert "HOSTNAME=node1" in container_spec(pod, config(), IMAGE, options).spec["process"]["env"]
    assert "HOSTNAME=web" in container_spec(POD, config(), IMAGE, options).spec["process"]["env"]


def test_a_privileged_container_requires_a_privileged_pod() -> None:
    config_ = config()
    config_.linux.security_context.privileged = True
    with pytest.raises(
        RequestError, match=r"^linux\.security_context\.privileged: \"true\": requires a privileged pod$"
    ):
        container_spec(POD, config_, IMAGE, Options("c1", "/rootfs"))


def test_omitted_settings_are_noted() -> None:
    config_ = config()
    config_.windows.SetInParent()
    config_.linux.resources.unified["memory.high"] = "1"
    config_.linux.security_context.apparmor.profile_type = pb.SecurityProfile.RuntimeDefault
    notes = container_spec(POD, config_, IMAGE, Options("c1", "/rootfs", machine=Machine(cgroup_v2=False))).notes
    assert len(notes) == 3


def test_plugins_receive_the_values_of_the_spec() -> None:
    spec = container_spec(POD, config(), IMAGE, Options("c1", "/rootfs", Account(1, 2, (3,)))).spec
    pod_config = container(pb.ContainerStatus(id="c1"), config(), spec, pod_id="p1").value
    assert (list(pod_config.args), pod_config.user.uid, list(pod_config.user.additional_gids)) == (["/app"], 1, [2, 3])
    assert pod_config.linux.resources.cpu.shares.value == 9
    assert {one.type: one.path for one in pod_config.linux.namespaces}["network"] == "/run/network"
    assert pod_config.mounts[-1].destination in {mount["destination"] for mount in spec["mounts"]}
    assert pod_config.linux.seccomp_policy.default_errno.value == 38
