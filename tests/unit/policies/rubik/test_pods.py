"""Pods of a node: who is offline, who is protected, and what services are told as they come and go."""

from __future__ import annotations

import pytest

from nri.policies.rubik.pods import PREEMPTIBLE, Container, Mirror, Pod, from_manifest, offline, protected


@pytest.mark.parametrize(
    ("annotation", "label", "expected"),
    [("true", "", True), ("false", "true", True), ("", "true", True), ("True", "1", False), ("", "", False)],
)
def test_annotation_or_label_makes_a_pod_offline(annotation: str, label: str, expected: bool) -> None:
    assert offline(Pod("u", annotations={PREEMPTIBLE: annotation}, labels={PREEMPTIBLE: label})) is expected


def test_static_pods_mirrors_and_those_of_kube_system_are_protected() -> None:
    for pod in (
        Pod("u", namespace="kube-system"),
        Pod("u", annotations={"kubernetes.io/config.source": "file"}),
        Pod("u", annotations={"kubernetes.io/config.mirror": "x"}),
    ):
        assert protected(pod)
    assert not protected(Pod("u", namespace="default", annotations={"kubernetes.io/config.source": "api"}))


def test_services_are_told_of_containers_with_their_pod_and_of_each_pod_that_goes() -> None:
    mirror = Mirror()
    mirror.sandbox(Pod("a"))
    assert mirror.start("a", Container("c1")) == [("add", Pod("a", containers=(Container("c1"),)))]
    mirror.start("a", Container("c2"))
    mirror.stop("a", "c1")
    assert [each.id for each in mirror.pods["a"].containers] == ["c2"]
    assert mirror.start("gone", Container("c")) == []
    assert [(word, pod.uid) for word, pod in mirror.synchronize([Pod("b")])] == [("delete", "a")]
    assert mirror.remove("b") == [("delete", Pod("b"))]


def test_a_pod_that_no_longer_runs_is_deleted() -> None:
    mirror = Mirror()
    assert mirror.put(Pod("a"))[0][0] == "add"
    assert mirror.put(Pod("a"))[0][0] == "update"
    assert mirror.put(Pod("a"), new=True) == []
    assert mirror.put(Pod("a"), running=False)[0][0] == "delete"
    assert mirror.put(Pod("a"), running=False) == []


def test_a_static_pod_has_its_hash_and_a_foreign_container_id_is_left_out() -> None:
    ids = ("cri-o://1", "rkt://2", "containerd://../x", "")
    manifest = {
        "metadata": {"uid": "u", "annotations": {"kubernetes.io/config.hash": "h"}},
        "spec": {"containers": [{"name": "n", "resources": {"limits": {"cpu": "1500m"}}}]},
        "status": {"qosClass": "Burstable", "containerStatuses": [{"name": "n", "containerID": each} for each in ids]},
    }
    pod = from_manifest(manifest, "systemd")
    assert pod.folder.endswith("/kubepods-burstable-podh.slice")
    assert [(each.folder, each.cpu_limit) for each in pod.containers] == [(f"{pod.folder}/crio-1.scope", 1.5)]
    assert from_manifest(manifest, "cgroupfs").containers[0].folder == "kubepods/burstable/podh/crio-1"
