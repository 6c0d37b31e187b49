"""Pods as standalone mode sees them."""

import json
from typing import Any

import pytest

from nri.policies.koordinator import names
from nri.policies.koordinator.pod_annotations import own_cpuset
from nri.policies.koordinator.refresh.running import reconciled_class
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


def test_a_pod_without_a_class_and_with_cpus_counts_as_lsr() -> None:
    assert reconciled_class(pod("a", **{names.ANNOTATION_STATUS: '{"cpuset":"1"}'}).context()) == "LSR"
    assert reconciled_class(pod("a", **{names.ANNOTATION_STATUS: "bad"}).context()) == ""
    assert reconciled_class(pod("a", "BE").context()) == "BE"


def test_long_annotations_are_not_read_again_for_each_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """An author writes 256 KiB and hundreds of containers: read for each, a round took twenty seconds."""
    read = 0
    loads = json.loads

    def counting(text: str, **how: Any) -> Any:
        nonlocal read
        read += len(text)
        return loads(text, **how)

    many = [f"c{number}" for number in range(100)]
    claims = {f"other{number}": {"requests": {"kubernetes.io/batch-cpu": "1"}} for number in range(1000)}
    annotations = {
        "node.koordinator.sh/extended-resource-spec": json.dumps({"containers": claims}),
        "scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": "0", "unknown": "x" * 50_000}),
    }
    manifest = {
        "metadata": {"uid": "u", "name": "p", "namespace": "n", "annotations": annotations},
        "spec": {"containers": [{"name": name} for name in many]},
        "status": {
            "qosClass": "BestEffort",
            "containerStatuses": [{"name": name, "containerID": f"containerd://{name}"} for name in many],
        },
    }
    monkeypatch.setattr(json, "loads", counting)
    for context in RunningPod(manifest, "kubepods/podu").main_containers():
        assert own_cpuset(context.pod.annotations) == "0"
    assert 0 < read <= sum(map(len, annotations.values()))
