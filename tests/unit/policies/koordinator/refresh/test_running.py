"""Pods as standalone mode sees them."""

from typing import Any

from nri.policies.koordinator import names
from nri.policies.koordinator.refresh.running import RunningPod, reconciled_class


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


def test_a_pod_without_a_class_and_with_cpus_counts_as_lsr() -> None:
    assert reconciled_class(pod("a", **{names.ANNOTATION_STATUS: '{"cpuset":"1"}'}).context()) == "LSR"
    assert reconciled_class(pod("a", **{names.ANNOTATION_STATUS: "bad"}).context()) == ""
    assert reconciled_class(pod("a", "BE").context()) == "BE"
