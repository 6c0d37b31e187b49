"""Reviews of pods: the node can read the annotation, and unusual pods are never refused."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from nri.kube.requests import ANNOTATION, Requests, annotated
from nri.plugins.resource_annotator.admission import MAX_TOKENS, answer

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


def annotation(spec: Any) -> str:
    """The annotation that a pod with this spec gets."""
    *_, change = json.loads(b64decode(answer(review({"spec": spec})).review["response"]["patch"]))
    return str(change["value"])


def test_the_node_reads_the_annotated_requests() -> None:
    annotations = {ANNOTATION: annotation(SPEC)}
    assert annotated(annotations, "app") == Requests(200, 1000, 64 << 20, 0)
    assert annotated(annotations, "idle") == Requests()
    assert annotated(annotations, "init") == Requests(0, 0, 1 << 30, 0)
    assert annotated(annotations, "other") is None


def test_a_correct_annotation_is_kept_and_a_wrong_one_replaced() -> None:
    built = {"metadata": {"annotations": {ANNOTATION: annotation(SPEC)}}, "spec": SPEC}
    assert "patch" not in answer(review(built)).review["response"]
    built["metadata"]["annotations"][ANNOTATION] = "{}"
    (change,) = json.loads(b64decode(answer(review(built)).review["response"]["patch"]))
    assert change == {
        "op": "add", "path": "/metadata/annotations/noderesource.dev~1resources", "value": annotation(SPEC)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (5, "Expected `object`, got `int`"),
        (None, "Expected `object`, got `null`"),
        ({"metadata": 5}, "Expected `object | null`, got `int` - at `$.metadata`"),
        ({"metadata": {"annotations": []}}, "Expected `object | null`, got `array` - at `$.metadata.annotations`"),
        ({"spec": "x"}, "Expected `object | null`, got `str` - at `$.spec`"),
        ({"spec": {"containers": {}}}, "Expected `array | null`, got `object` - at `$.spec.containers`"),
        ({"spec": {"initContainers": 5}}, "Expected `array | null`, got `int` - at `$.spec.initContainers`"),
        ({"spec": {"containers": [5]}}, "Expected `object`, got `int` - at `$.spec.containers[0]`"),
        ({"spec": {"containers": [{}]}}, "Object missing required field `name` - at `$.spec.containers[0]`"),
        (
            {"spec": {"containers": [{"name": "a", "resources": {"limits": 5}}]}},
            "Expected `object | null`, got `int` - at `$.spec.containers[0].resources.limits`",
        ),
    ],
)
def test_a_pod_with_a_wrong_type_is_admitted_unchanged_with_a_warning(pod: Any, reason: str) -> None:
    admission = answer(review(pod, namespace="ns", name="web"))
    assert admission.review["response"] == {"uid": "u", "allowed": True}
    assert admission.warning == f"pod ns/web is not annotated: {reason}"


def test_a_pod_without_room_for_the_annotation_is_admitted_without_it() -> None:
    room = (256 << 10) - len("note") - len(ANNOTATION) - len(annotation(SPEC))
    for size, patched in ((room, True), (room + 1, False)):
        rows = answer(
            review({"metadata": {"annotations": {"note": "é" * (size // 2) + "x" * (size % 2)}}, "spec": SPEC})
        )
        assert rows.review["response"]["allowed"] and ("patch" in rows.review["response"]) is patched
        assert rows.warning == (
            "" if patched else "pod /without a name is not annotated: "
            "its annotations would have 262145 bytes; the limit is 262144"
        )  # fmt: skip


def test_a_forged_annotation_is_removed_if_the_right_one_has_no_room() -> None:
    written = {ANNOTATION: "{}", "note": "x" * ((256 << 10) - len("note") - len(ANNOTATION) - 2)}
    rows = answer(review({"metadata": {"annotations": written}, "spec": SPEC}))
    patch = json.loads(b64decode(rows.review["response"]["patch"]))
    assert patch == [{"op": "remove", "path": f"/metadata/annotations/{ANNOTATION.replace('/', '~1')}"}]


def test_sidecars_are_annotated_and_ephemeral_containers_are_not() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}
    spec = {"containers": [{"name": "app"}], "initContainers": [sidecar], "ephemeralContainers": [{"name": "debug"}]}
    built = {"initContainers": {"proxy": {"limits": {"cpu": "1"}}}, "containers": {"app": {}}}
    assert json.loads(annotation(spec)) == built


def test_another_resource_is_admitted_unchanged() -> None:
    rows = answer(review({}, resource={"group": "apps", "version": "v1", "resource": "deployments"}))
    assert rows.review["response"]["allowed"] and "deployments" in rows.warning


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"request": 1}', b"[" * 100_000, b"\xff", b'{"request":{"object":' + b"[" * 100_000],
)
def test_a_body_that_is_not_a_review_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not (an AdmissionReview with a request|JSON): "):
        answer(body)


def test_values_are_counted_before_the_parse_and_texts_are_skipped() -> None:
    body = review({"spec": {"containers": [{"name": "a", "args": [","] * 1000}]}})
    too_many_texts = review({"spec": {"containers": [{"name": "a", "args": ["{[,"] * MAX_TOKENS}]}})
    one_text = review({"spec": {"containers": [{"name": "a", "args": ['\\",[{' * MAX_TOKENS]}]}})
    assert "patch" in answer(body).review["response"]
    assert "patch" in answer(one_text).review["response"]
    with pytest.raises(ValueError, match=f"the request has more than {MAX_TOKENS} strings"):
        answer(too_many_texts)
