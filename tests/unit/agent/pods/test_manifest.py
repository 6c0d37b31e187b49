"""Contexts of pods in the format of Kubernetes."""

import json

import pytest

from nri.agent.koordinator import batch_resource, names
from nri.agent.koordinator.node import BatchRule
from nri.agent.model import Resources
from nri.agent.pods import manifest

SPEC = json.dumps({"containers": {"c": {"limits": {names.BATCH_CPU: "500"}}}})


def container(name: str, cpu: str = "", limit: str = "", **more: str) -> dict[str, object]:
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    limits = {"limits": {"cpu": limit, "memory": "1Gi"}} if limit else {}
    return {"name": name, "resources": {**requests, **limits}, **more}


def test_a_pods_resources_are_the_sum_or_the_largest_init_container_plus_overhead() -> None:
    pod = {
        "spec": {
            "containers": [container("a", "1", "2"), container("b", "500m", "1")],
            "initContainers": [container("i", "4"), container("side", "250m", restartPolicy="Always")],
            "overhead": {"cpu": "100m"},
        }
    }
    resources = manifest.listed_pod(pod, "").resources
    assert resources is not None
    assert resources.cpu_shares == 4100 * 1024 // 1000
    assert resources.cfs_quota == 310_000
    assert resources.memory_limit == 2 << 30


def test_a_container_without_limits_is_unlimited() -> None:
    assert manifest.container_resources(container("a")) == Resources(2, -1, None, -1)
    assert manifest.container_resources(container("a", "1", "2")) == Resources(1024, 200_000, None, 1 << 30)


@pytest.mark.parametrize(
    ("pod", "kube"),
    [
        ({"status": {"qosClass": "Burstable"}}, "Burstable"),
        ({}, "BestEffort"),
        ({"spec": {"containers": [container("a", "1")]}}, "Burstable"),
        ({"spec": {"containers": [{}], "resources": {"requests": {"cpu": "1"}}}}, "Burstable"),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1"}}}]}},
            "Guaranteed",
        ),
    ],
)
def test_a_pods_class_comes_from_its_status_or_its_containers(pod: dict[str, object], kube: str) -> None:
    assert manifest.kube_class(pod) == kube


def test_batch_resources_of_a_pod_include_its_sidecars() -> None:
    own_part = {"resources": {"limits": {names.BATCH_CPU: "1k"}, "requests": {names.BATCH_CPU: "1k"}}}
    pod = {
        "metadata": {"labels": {names.LABEL_QOS: names.BE}},
        "spec": {
            "containers": [{"name": "c", **own_part}],
            "initContainers": [{"name": "s", "restartPolicy": "Always", **own_part}, {"name": "i", **own_part}],
        },
    }
    decision = batch_resource.pod(manifest.listed_pod(pod, "kubepods/podu"), BatchRule())
    assert (decision.changes.knobs["cpu.shares"], decision.changes.knobs["cpu.cfs_quota"]) == (2048, 200_000)


def test_extended_resources_come_only_from_the_spec() -> None:
    own_part = {"name": "c", "resources": {"limits": {names.BATCH_CPU: "1k", "cpu": "1"}}}
    pod = {
        "metadata": {"annotations": {batch_resource.ANNOTATION_EXTENDED: SPEC}},
        "spec": {"containers": [own_part]},
        "status": {"containerStatuses": [{"name": "c", "containerID": "containerd://1"}, {"name": "gone"}]},
    }
    listed = manifest.listed_pod(pod, "kubepods/podu")
    (context,) = listed.containers
    assert context.extended is not None
    assert context.extended.limits == {names.BATCH_CPU: 1000}
    assert context.folder == "kubepods/podu/cri-containerd-1.scope"
    assert listed.main_containers == listed.containers
    assert listed.sandbox is not None
    assert listed.sandbox.folder == ""
    bare = {**pod, "spec": {"containers": [{"name": "c"}]}}
    (context,) = manifest.listed_pod(bare, "kubepods/podu").containers
    assert context.extended is None, "the hook that knows the annotation reads it"
