"""The hook OOMScoreAdj: the OOM score of a container's processes, from the pod's annotations.

A value for a container takes precedence over the value for the pod. The pause container keeps the runtime's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nri.agent.hooks import CREATE, RECONCILE_CONTAINER, Hook
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.pod_annotations import read
from nri.agent.model import Changes, Container, Decision, HookError
from nri.agent.ownership import Level, OwnedKnob
from nri.kube.shapes import Table

NAME: Final = "OOMScoreAdj"
_MIN, _MAX = -1000, 1000
ANNOTATION_OOM_SCORE: Final = "koordinator.sh/oom-score-adj"
ANNOTATION_OOM_SCORES: Final = "koordinator.sh/oom-score-adj-spec"


def container(context: Container) -> Decision:
    """Decide a container's score. Raises HookError if an annotation is unreadable or out of range."""
    if context.sandbox:
        return Decision()
    value = requested_score(context.pod.annotations, context.name)
    if value is None:
        return Decision()
    if not _MIN <= value <= _MAX:
        raise HookError(NAME, f"score {value} is not between {_MIN} and {_MAX}")
    return Decision(Changes({"oom_score_adj": value}), "the pod's annotation")


def requested_score(annotations: Mapping[str, str], name: str) -> int | None:
    """Return a container's score in the annotations, or None. Raises HookError if an annotation is unreadable."""
    try:
        by_name: dict[str, int] = (
            read(annotations, ANNOTATION_OOM_SCORES, Table(int)) or {}
            if (annotations.get(ANNOTATION_OOM_SCORES))
            else {}
        )
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if name in by_name:
        return by_name[name]
    text = annotations.get(ANNOTATION_OOM_SCORE, "")
    if not text:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise HookError(NAME, f"annotation {ANNOTATION_OOM_SCORE}: {text[:40]!r} is not a whole number")
    return int(text)


def _at_creation(context: Container, node: Node) -> Decision:
    return container(context) if node.quirks.oom_score_at_creation else Decision()


HOOK: Final = Hook(
    NAME,
    False,
    ("pods",),
    (ANNOTATION_OOM_SCORE, ANNOTATION_OOM_SCORES),
    {CREATE: _at_creation, RECONCILE_CONTAINER: lambda context, _: container(context)},
    (OwnedKnob(Level.CONTAINER, "oom_score_adj"),),
)
