"""Pods of a node: who is offline, and who is protected."""

from __future__ import annotations

import pytest

from nri.policies.rubik.pods import PREEMPTIBLE, Pod, offline, protected


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
