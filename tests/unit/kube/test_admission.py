"""Reviews of pods: the annotation is what the node reads exactly, and nothing that is odd refuses a pod."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from nri.kube.admission import annotation, answer
from nri.kube.requests import ANNOTATION, Requests, annotated

SPEC = {
    "containers": [
        {"name": "app", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"cpu": "1"}}},
        {"name": "idle"},
    ],
    "initContainers": [{"name": "init", "resources": {"requests": {"memory": "1Gi"}}}],
}


def review(pod: Any, **fields: Any) -> bytes:
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return json.dumps({"request": {"uid": "u", "resource": resource, "object": pod, **fields}}).encode()


def test_the_node_reads_back_what_the_pod_asks_for() -> None:
    annotations = {ANNOTATION: annotation(SPEC)}
    assert annotated(annotations, "app") == Requests(200, 1000, 64 << 20, 0)
    assert annotated(annotations, "idle") == Requests()
    assert annotated(annotations, "init") == Requests(0, 0, 1 << 30, 0)
    assert annotated(annotations, "other") is None


def test_an_annotated_pod_is_left_as_it_is_and_one_that_was_annotated_by_hand_is_not() -> None:
    made = {"metadata": {"annotations": {ANNOTATION: annotation(SPEC)}}, "spec": SPEC}
    assert "patch" not in answer(review(made)).review["response"]
    made["metadata"]["annotations"][ANNOTATION] = "{}"
    (change,) = json.loads(b64decode(answer(review(made)).review["response"]["patch"]))
    assert change == {
        "op": "add", "path": "/metadata/annotations/noderesource.dev~1resources", "value": annotation(SPEC)
    }  # fmt: skip


@pytest.mark.parametrize(
    "pod",
    [
        5, [], "x", {"spec": {"containers": 5}}, {"spec": {"containers": [5]}},
        {"spec": {"containers": [{"name": 5}]}},
        {"spec": {"containers": [{"name": "a", "resources": {"limits": 5}}]}}, {"metadata": 5},
    ],
)  # fmt: skip
def test_a_pod_that_cannot_be_read_goes_on_as_it_is_and_is_told(pod: Any) -> None:
    found = answer(review(pod, namespace="ns", name="web"))
    assert found.review["response"] == {"uid": "u", "allowed": True}
    assert found.said.startswith("pod ns/web cannot be read: ")


def test_another_resource_goes_on_as_it_is() -> None:
    found = answer(review({}, resource={"group": "apps", "version": "v1", "resource": "deployments"}))
    assert found.review["response"]["allowed"] and "deployments" in found.said


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request": 1}', b"[" * 100_000, b"\xff"])
def test_what_is_no_review_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no|Expecting|nested|codec"):
        answer(body)
