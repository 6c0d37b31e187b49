"""Pods as rubik's services see them: offline and protected pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.model import Pod
from nri.agent.pods.running import running
from nri.agent.rubik.pods import PREEMPTIBLE, class_of, offline, protected
from tests.support.rubik_world import RubikWorld, pod


def test_a_pod_has_its_folders_limits_and_network(tmp_path: Path) -> None:
    manifest = pod("a", cpu="1500m", quota_turbo="true")
    manifest["spec"]["hostNetwork"] = True
    world = RubikWorld(tmp_path)
    (one,) = running([manifest], world.parts.executor.hierarchies, paths.CGROUPFS)
    actual = one
    assert (actual.uid, actual.namespace, actual.name, actual.host_network) == ("uid-a", "shop", "a", True)
    assert [(container.folder, container.cpu_limit) for container in actual.containers] == [(world.app(manifest), 1.5)]
    (one,) = running([pod("b")], world.parts.executor.hierarchies, paths.CGROUPFS)
    assert [container.cpu_limit for container in one.containers] == [0.0]


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_pod_is_offline_by_label_or_annotation(where: str) -> None:
    assert class_of(Pod(**{where: {PREEMPTIBLE: "true"}})) == "offline"  # type: ignore[arg-type]
    assert class_of(Pod(**{where: {PREEMPTIBLE: "True"}})) == "online"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("annotation", "label", "expected"),
    [("true", "", True), ("false", "true", False), ("", "true", True), ("True", "1", False), ("", "", False)],
)
def test_a_pod_is_offline_by_annotation_or_label_unless_the_annotation_is_false(
    annotation: str, label: str, expected: bool
) -> None:
    assert offline(Pod(uid="u", annotations={PREEMPTIBLE: annotation}, labels={PREEMPTIBLE: label})) is expected


MIRROR = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}


@pytest.mark.parametrize(
    ("pod", "from_kubelet", "from_apiserver"),
    [
        (Pod(uid="u", namespace="kube-system"), True, True),
        (Pod(uid="u", annotations=MIRROR), True, True),
        (Pod(uid="u", annotations={"kubernetes.io/config.source": "file"}), True, False),
        (Pod(uid="u", namespace="default", annotations={"kubernetes.io/config.source": "api"}), False, False),
    ],
)
def test_only_the_kubelets_own_source_annotation_protects_a_pod(
    pod: Pod, from_kubelet: bool, from_apiserver: bool
) -> None:
    assert protected(pod, from_apiserver=False) is from_kubelet
    assert protected(pod, from_apiserver=True) is from_apiserver
