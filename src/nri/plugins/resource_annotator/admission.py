"""Answer admission reviews of pods: add a pod's resources as an annotation for `nri.kube.requests` on the node.

Pods are never refused: an invalid pod is admitted unchanged, with a warning. Every client of the cluster can send a
review, so the values of a review are counted before it is parsed, and only the needed fields are decoded.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from itertools import islice
from typing import Any, NamedTuple

from msgspec import DecodeError, Raw, Struct, ValidationError
from msgspec.json import Decoder

from nri.kube.requests import ANNOTATION

_VERSION = "admission.k8s.io/v1"
_ANNOTATIONS_POINTER = "/metadata/annotations"
#: Limit of an API server for all annotations of an object, keys and values together.
_MAX_ANNOTATIONS_BYTES = 256 << 10
#: Maximum number of strings, commas, and beginnings of lists and objects in a review. A pod of 1,000 containers has
#: some 150,000; an update sends two pods.
MAX_TOKENS = 1 << 19
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)


class _Resources(Struct):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None
    claims: list[Any] | None = None


class _Container(Struct):
    name: str
    resources: _Resources | None = None


class _Spec(Struct):
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None


class _Metadata(Struct):
    annotations: dict[str, str] | None = None


class _Pod(Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


class _Request(Struct):
    uid: str = ""
    resource: Raw = Raw(b"null")
    namespace: str = ""
    name: str = ""
    object: Raw = Raw(b"null")


class _Review(Struct):
    request: _Request


_REVIEW, _POD, _RESOURCE = Decoder(_Review), Decoder(_Pod), Decoder(dict[str, str])
_POD_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}


class AdmissionAnswer(NamedTuple):
    """The review to send back, and a warning for the log or ""."""

    review: dict[str, Any]
    warning: str = ""


def answer(body: bytes) -> AdmissionAnswer:
    """Answer a request. Raises ValueError if the body is not an AdmissionReview, or has too many values."""
    if _has_too_many_values(body):
        raise ValueError(f"the request has more than {MAX_TOKENS} strings, lists, objects and commas")
    try:
        request = _REVIEW.decode(body).request
    except ValidationError as error:
        raise ValueError(f"not an AdmissionReview with a request: {error}") from None
    except (DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    review = {"kind": "AdmissionReview", "apiVersion": _VERSION, "response": response}
    pod = f"pod {request.namespace}/{request.name or 'without a name'}"
    try:
        if _RESOURCE.decode(request.resource) != _POD_RESOURCE:
            raise ValidationError("another resource")
    except ValidationError:
        resource = bytes(request.resource)[:200].decode("utf-8", "replace")
        return AdmissionAnswer(review, f"the request is for {resource}, not for pods of v1")
    try:
        operations = _operations(_POD.decode(request.object))
    except (ValueError, RecursionError) as error:
        return AdmissionAnswer(review, f"{pod} is not annotated: {error}")
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(json.dumps(operations).encode()).decode()
    return AdmissionAnswer(review)


def _operations(pod: _Pod) -> list[dict[str, Any]]:
    """The JSON patch that annotates a pod. Returns an empty list if the annotation is already correct."""
    present = (pod.metadata or _Metadata()).annotations
    annotations = present or {}
    value = _annotation(pod.spec or _Spec())
    if annotations.get(ANNOTATION) == value:
        return []
    size = sum(len(f"{key}{text}".encode()) for key, text in {**annotations, ANNOTATION: value}.items())
    pointer = f"{_ANNOTATIONS_POINTER}/{ANNOTATION.replace('/', '~1')}"
    if size > _MAX_ANNOTATIONS_BYTES:
        if ANNOTATION in annotations:  # the node would trust a value that a user wrote
            return [{"op": "remove", "path": pointer}]
        raise ValueError(f"its annotations would have {size} bytes; the limit is {_MAX_ANNOTATIONS_BYTES}")
    parent = [{"op": "add", "path": _ANNOTATIONS_POINTER, "value": {}}] if present is None else []
    return [*parent, {"op": "add", "path": pointer, "value": value}]


def _annotation(spec: _Spec) -> str:
    """The value of the annotation in the format of nri-plugins: sorted keys, without empty objects."""
    value: dict[str, Any] = {}
    if spec.initContainers:
        value["initContainers"] = _resources_by_name(spec.initContainers)
    value["containers"] = _resources_by_name(spec.containers or []) or None
    return json.dumps(value, separators=(",", ":"))


def _resources_by_name(containers: list[_Container]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for container in containers:
        resources = container.resources or _Resources()
        parts = {"limits": resources.limits, "requests": resources.requests, "claims": resources.claims}
        by_name[container.name] = {
            name: dict(sorted(part.items())) if isinstance(part, dict) else part for name, part in parts.items() if part
        }
    return dict(sorted(by_name.items()))


def _has_too_many_values(body: bytes) -> bool:
    if sum(map(body.count, (b",", b"[", b"{", b'"'))) <= MAX_TOKENS:
        return False
    # Strings may contain commas and brackets. Stop at the limit: a list of all tokens needs as much memory as a parse.
    return next(islice(_TOKEN.finditer(body), MAX_TOKENS, None), None) is not None
