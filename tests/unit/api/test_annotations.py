"""Which annotation of a pod holds for a container."""

from __future__ import annotations

from nri.api import messages as m
from nri.api.annotations import effective


def test_the_most_specific_annotation_counts() -> None:
    pod = m.PodSandbox(annotations={"k": "plain"})
    assert effective(pod, "k", "c") == "plain"
    pod.annotations["k/pod"] = "pod"
    assert effective(pod, "k", "c") == "pod"
    pod.annotations["k/container.c"] = ""
    assert effective(pod, "k", "c") == ""
    assert effective(pod, "k", "other") == "pod"
    assert effective(pod, "k") == "pod"
    assert effective(pod, "absent", "c") is None
