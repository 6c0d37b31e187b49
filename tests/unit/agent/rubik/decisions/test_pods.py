"""Pods of a node: who is offline, and who is protected."""

from __future__ import annotations

import pytest

from nri.agent.rubik.decisions.pods import PREEMPTIBLE, Pod, offline, protected


@pytest.mark.parametrize(
    ("annotation", "label", "expected"),
    [("true", "", True), ("false", "true", False), ("", "true", True), ("True", "1", False), ("", "", False)],
)
def test_a_pod_is_offline_by_annotation_or_label_unless_the_annotation_is_false(
    annotation: str, label: str, expected: bool
) -> None:
    assert offline(Pod("u", annotations={PREEMPTIBLE: annotation}, labels={PREEMPTIBLE: label})) is expected


MIRROR = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}


@pytest.mark.parametrize(
    ("pod", "from_kubelet", "from_apiserver"),
    [
        (Pod("u", namespace="kube-system"), True, True),
        (Pod("u", annotations=MIRROR), True, True),
        (Pod("u", annotations={"kubernetes.io/config.source": "file"}), True, False),
        (Pod("u", namespace="default", annotations={"kubernetes.io/config.source": "api"}), False, False),
    ],
)
def test_only_the_kubelet_s_own_source_annotation_protects_a_pod(
    pod: Pod, from_kubelet: bool, from_apiserver: bool
) -> None:
    assert protected(pod, from_apiserver=False) is from_kubelet
    assert protected(pod, from_apiserver=True) is from_apiserver
