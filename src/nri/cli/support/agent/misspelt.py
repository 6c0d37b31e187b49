"""Labels and annotations of a pod that look like Koordinator's, and that the agent would pass over without a word.

Rules: only what is close to a known key is told; Koordinator has more keys than the agent reads. Next:
`nri.policies.koordinator.names`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from nri.agent.loops.strategy import ANNOTATION_BLOCK_IO, ANNOTATION_BURST, ANNOTATION_MEMORY
from nri.policies.koordinator.names import LABEL_QOS, qos_class
from nri.policies.koordinator.profile import PROFILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["misspelt"]

_KNOWN = {key for row in PROFILE for key in row.keys} | {ANNOTATION_BLOCK_IO, ANNOTATION_BURST, ANNOTATION_MEMORY}
_CLASSES = ("LSE", "LSR", "LS", "BE", "SYSTEM")
#: How alike two names are that are told apart by a slip alone; device-allocate-hint, which is another one, is not.
_ALIKE = 0.88


def misspelt(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[str]:
    """Say what was most likely meant, a line for each key or class that nothing reads."""
    return [*_classes(labels, annotations), *_keys({**labels, **annotations})]


def _classes(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    given = labels.get(LABEL_QOS, "")
    if given and not qos_class(labels):
        yield f'{LABEL_QOS}: "{given}" is no class, so the pod has none; there are {", ".join(_CLASSES)}'
    if LABEL_QOS in annotations and LABEL_QOS not in labels:
        yield f"{LABEL_QOS}: without effect as an annotation; it is a label"


def _keys(given: Mapping[str, str]) -> Iterator[str]:
    names = {_plain(key): key for key in _KNOWN}
    for key in given:
        if key in _KNOWN or "koordinator" not in key:
            continue
        near = difflib.get_close_matches(_plain(key), names, 1, _ALIKE)
        if near and names[near[0]] not in given:
            yield f"{key}: without effect, nothing reads it; did you mean {names[near[0]]}?"


def _plain(key: str) -> str:
    """A key's name without its domain, and however it is written."""
    return key.rpartition("/")[2].lower().replace("-", "").replace("_", "")
