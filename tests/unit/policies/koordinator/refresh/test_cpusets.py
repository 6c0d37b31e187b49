"""CPUs of what runs; one bad pod stops no other."""

from typing import Any

from nri.policies.koordinator import names
from nri.policies.koordinator.refresh import cpusets
from nri.policies.koordinator.rules.node_topology import CpusetRule, SharePool
from nri.policies.running import RunningPod


def pod(
    name: str, qos: str = "", limits: dict[str, str] | None = None, phase: str = "Running", **more: str
) -> RunningPod:
    manifest: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "labels": {names.LABEL_QOS: qos}, "annotations": more},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits or {}}}]},
        "status": {
            "phase": phase,
            "qosClass": "Guaranteed",
            "containerStatuses": [{"name": "c", "containerID": f"containerd://{name}"}],
        },
    }
    return RunningPod(manifest, f"kubepods/pod{name}", f"containerd://{name}-pause")


def written(refresh: Any) -> dict[str, str]:
    return {write.folder: write.value for write in refresh.writes}


def test_one_bad_pod_keeps_what_it_has_and_the_others_get_their_cpus() -> None:
    bad = {names.ANNOTATION_STATUS: "bad-format"}
    kata = pod("vm", "LS")
    kata.pod["spec"]["runtimeClassName"] = "kata"  # type: ignore[index]
    refresh = cpusets.cpus([pod("bad", "LS", **bad), pod("ls", "LS"), kata], CpusetRule((SharePool(0, 0, "0-3"),)))
    assert written(refresh) == {
        "kubepods/podls/cri-containerd-ls.scope": "0-3",
        "kubepods/podls/cri-containerd-ls-pause.scope": "0-3",
        "kubepods/podvm/cri-containerd-vm-pause.scope": "0-3",
    }
    assert len(refresh.errors) == 2
