"""The effective annotation of a pod for a container."""

from __future__ import annotations

from nri.api import messages as m
from nri.api.annotations import effective_annotation


def test_the_most_specific_annotation_wins() -> None:
    pod = m.PodSandbox(annotations={"k": "plain"})
    assert effective_annotation(pod, "k", "c") == "plain"
    pod.annotations["k/pod"] = "pod"
    assert effective_annotation(pod, "k", "c") == "pod"
    pod.annotations["k/container.c"] = ""
    assert effective_annotation(pod, "k", "c") == ""
    assert effective_annotation(pod, "k", "other") == "pod"
    assert effective_annotation(pod, "k") == "pod"
    assert effective_annotation(pod, "absent", "c") is None
