"""Answers to an apiserver that asks before it takes a pod: the pod's resources as an annotation.

One job: :func:`answer`, of an AdmissionReview the one to send back. Pure. The annotation is what `nri.kube.requests`
reads on the node, exactly, where it would have to estimate from cgroups. A pod is never refused: one that cannot be
understood, or that an API server would refuse with the annotation, goes on as it is, with the reason for the log.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, NamedTuple

from nri.config.complaint import shorten
from nri.config.syntax import parse_json
from nri.kube.requests import ANNOTATION

__all__ = ["AdmissionAnswer", "annotation", "answer"]

_VERSION = "admission.k8s.io/v1"
#: The parts of a container's resources, in the order of the API.
_PARTS = ("limits", "requests", "claims")
_PLACE = "/metadata/annotations"
#: Bytes that all annotations of an object may have, keys and values together; an API server refuses more.
_MOST_BYTES = 256 << 10


class AdmissionAnswer(NamedTuple):
    """An answer: the review to send back, and what the log should say, or ""."""

    review: dict[str, Any]
    said: str = ""


def answer(body: bytes) -> AdmissionAnswer:
    """The answer to a request. Raises ValueError for what is no AdmissionReview."""
    review = parse_json(body)
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict):
        raise ValueError("it is no AdmissionReview with a request")  # noqa: TRY004 - one kind of error for the caller
    uid, resource = request.get("uid"), request.get("resource")
    response: dict[str, Any] = {"uid": uid if isinstance(uid, str) else "", "allowed": True}
    made = {"kind": "AdmissionReview", "apiVersion": _VERSION, "response": response}
    if resource != {"group": "", "version": "v1", "resource": "pods"}:
        return AdmissionAnswer(made, f"asked about {resource}, which is no pod of v1")
    try:
        operations = _operations(request.get("object"))
    except ValueError as error:
        name = f"{request.get('namespace')}/{request.get('name') or 'without a name'}"
        return AdmissionAnswer(made, f"pod {name} is not annotated: {error}")
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(json.dumps(operations).encode()).decode()
    return AdmissionAnswer(made)


def annotation(spec: Any) -> str:
    """The value of the annotation for a pod's spec. Raises ValueError if it is none."""
    made: dict[str, Any] = {}
    if initial := _part(spec, "initContainers", list):
        made["initContainers"] = _resources(initial)
    made["containers"] = _resources(_part(spec, "containers", list)) or None
    return json.dumps(made, separators=(",", ":"))


def _resources(containers: list[Any]) -> dict[str, Any]:
    found = {}
    for container in containers:
        given = _part(container, "resources", dict)
        parts: dict[str, Any] = {}
        for part in _PARTS:
            value = _part(given, part, list if part == "claims" else dict)
            if value:
                parts[part] = dict(sorted(value.items())) if isinstance(value, dict) else value
        name = container.get("name")
        if not isinstance(name, str):
            raise ValueError(f"a container is called {shorten(name)}")  # noqa: TRY004 - one kind of error
        found[name] = parts
    return dict(sorted(found.items()))


def _part(whole: Any, key: str, kind: type) -> Any:
    """What a table has under a key, empty if nothing. Raises ValueError for what is of another kind, or no table."""
    if not isinstance(whole, dict):
        raise ValueError(f"{key} would be in {shorten(whole)}, which is no table")  # noqa: TRY004 - one kind of error
    found = whole.get(key)
    if found is not None and not isinstance(found, kind):
        raise ValueError(f"{key} is {shorten(found)}, and should be a {'list' if kind is list else 'table'}")
    return found or kind()


def _operations(pod: Any) -> list[dict[str, Any]]:
    """The changes that annotate a pod; none if it is annotated so already."""
    metadata = _part(pod, "metadata", dict)
    annotations = _part(metadata, "annotations", dict)
    value = annotation(_part(pod, "spec", dict))
    if annotations.get(ANNOTATION) == value:
        return []
    after = {**annotations, ANNOTATION: value}
    size = sum(len(f"{key}{each}".encode()) for key, each in after.items())
    place = f"{_PLACE}/{ANNOTATION.replace('/', '~1')}"
    if size > _MOST_BYTES:
        if ANNOTATION in annotations:  # what somebody else says of its resources would be believed
            return [{"op": "remove", "path": place}]
        raise ValueError(f"its annotations would have {size} bytes, and may have {_MOST_BYTES}")
    there = metadata.get("annotations") is not None
    made: list[dict[str, Any]] = [] if there else [{"op": "add", "path": _PLACE, "value": {}}]
    return [*made, {"op": "add", "path": place, "value": value}]
