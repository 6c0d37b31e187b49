"""Quotas of what runs, when a rule has changed."""

from typing import Any

from nri.policies.koordinator import names
from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.refresh import quotas
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


def test_quotas_of_batch_pods_are_written_and_nothing_else() -> None:
    batch = pod("b", "BE", {names.BATCH_CPU: "500", names.BATCH_MEMORY: "1Gi"})
    refresh = quotas.batch([batch, pod("l", "LS", {"cpu": "1"})], BatchRule(ratio=2.0))
    assert written(refresh) == {"kubepods/podb": "25000", "kubepods/podb/cri-containerd-b.scope": "25000"}
    assert {write.knob for write in refresh.writes} == {"cpu.cfs_quota"}


def test_quotas_of_pods_that_share_cpus_are_scaled_if_they_run() -> None:
    own = {names.ANNOTATION_STATUS: '{"cpuset":"1"}'}
    pods = [
        pod("ls", "LS", {"cpu": "1"}),
        pod("plain", "", {"cpu": "1"}),
        pod("own", "", {"cpu": "1"}, **own),
        pod("lsr", "LSR", {"cpu": "1"}),
        pod("done", "LS", {"cpu": "1"}, "Succeeded"),
    ]
    assert set(written(quotas.normalized(pods, 2.0))) == {
        "kubepods/podls",
        "kubepods/podls/cri-containerd-ls.scope",
        "kubepods/podplain",
        "kubepods/podplain/cri-containerd-plain.scope",
    }
    assert set(written(quotas.normalized(pods, 2.0)).values()) == {"50000"}
    assert written(quotas.normalized(pods, -1)) == {}
