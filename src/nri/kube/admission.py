"""Answers to an apiserver that asks before it takes a pod: the pod's resources as an annotation.

One job: :func:`answer`, of an AdmissionReview the one to send back. Pure. The annotation is what `nri.kube.requests`
reads on the node, exactly, where it would have to estimate from cgroups. A pod is never refused: one that cannot be
understood goes on as it is, with the reason for the log.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.kube.requests import ANNOTATION

__all__ = ["AdmissionAnswer", "annotation", "answer"]

_VERSION = "admission.k8s.io/v1"
#: The parts of a container's resources, in the order of the API.
_PARTS = ("limits", "requests", "claims")
_PLACE = "/metadata/annotations"


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
    except (AttributeError, TypeError, ValueError) as error:
        return AdmissionAnswer(made, f"pod {request.get('namespace')}/{request.get('name')} cannot be read: {error}")
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(json.dumps(operations).encode()).decode()
    return AdmissionAnswer(made)


def annotation(spec: Any) -> str:
    """The value of the annotation for a pod's spec. Raises ValueError, TypeError or AttributeError if it is none."""
    made: dict[str, Any] = {}
    if spec.get("initContainers"):
        made["initContainers"] = _resources(spec["initContainers"])
    made["containers"] = _resources(spec.get("containers") or []) or None
    return json.dumps(made, separators=(",", ":"))


def _resources(containers: Any) -> dict[str, Any]:
    found = {}
    for container in containers:
        given = container.get("resources") or {}
        parts = {part: given[part] for part in _PARTS if given.get(part)}
        parts = {part: dict(sorted(value.items())) if part != "claims" else value for part, value in parts.items()}
        found[_text(container.get("name"))] = parts
    return dict(sorted(found.items()))


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a container is called {name!r}")
    return name


def _operations(pod: Any) -> list[dict[str, Any]]:
    """The changes that annotate a pod; none if it is annotated so already."""
    annotations = (pod.get("metadata") or {}).get("annotations")
    value = annotation(pod.get("spec") or {})
    if annotations and annotations.get(ANNOTATION) == value:
        return []
    place = f"{_PLACE}/{ANNOTATION.replace('/', '~1')}"
    made: list[dict[str, Any]] = [] if annotations is not None else [{"op": "add", "path": _PLACE, "value": {}}]
    return [*made, {"op": "add", "path": place, "value": value}]
