"""Decide which images are pinned: the kubelet does not remove them when it frees disk space."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from nri.engine.images.image import Image
from nri.engine.images.reference import parse_reference
from nri.engine.support.errors import InvalidRequest


def is_pinned(image: Image, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches one of the image's names. Letter case is ignored.

    The patterns are CRI-O's: ``NAME`` matches a whole name, ``START*`` the beginning of a name, and ``*PART*`` a part
    of a name. NAME may be short, as in a pod: ``busybox`` is ``docker.io/library/busybox:latest``.
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
