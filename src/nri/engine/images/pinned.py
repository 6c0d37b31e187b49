"""Images that the kubelet must not remove when it frees disk space: those of which a name matches a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from nri.engine.images.image import Image
from nri.engine.images.reference import parse_reference
from nri.engine.support.errors import InvalidRequest


def is_pinned(image: Image, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches one of the image's names, in any letter case.

    As in CRI-O: ``NAME`` is a whole name, ``START*`` the start of one, ``*PART*`` a part. A whole name may be short, as
    in a pod: ``busybox`` is ``docker.io/library/busybox:latest``.
    """
    names = [name.casefold() for name in (*image.repo_tags, *image.repo_digests)]
    return any(_matches(name, pattern) for pattern in patterns for name in names)


def _matches(name: str, pattern: str) -> bool:
    text = pattern.casefold()
    if len(text) > 1 and text.startswith("*") and text.endswith("*"):
        return text[1:-1] in name
    if text.endswith("*"):
        return name.startswith(text[:-1])
    with suppress(InvalidRequest):
        text = parse_reference(pattern).pullable.casefold()
    return name == text
