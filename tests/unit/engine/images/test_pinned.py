"""Patterns of images that the kubelet keeps."""

from __future__ import annotations

import pytest

from nri.engine.images import Image
from nri.engine.images.pinned import is_pinned

IMAGE = Image(
    "sha256:1", ("docker.io/library/busybox:1", "quay.io/a/Tool:2"), (f"docker.io/library/busybox@sha256:{'a' * 64}",)
)


@pytest.mark.parametrize(
    ("pattern", "pinned"),
    [
        ("docker.io/library/busybox:1", True),
        ("busybox:1", True),
        ("busybox", False),
        (f"busybox@sha256:{'a' * 64}", True),
        ("docker.io/library/busybox", False),
        ("docker.io/library/*", True),
        ("library/*", False),
        ("*library*", True),
        ("*LIBRARY/busy*", True),
        ("QUAY.io/a/tool:2", True),
        ("**", True),
        ("*", True),
        ("*.*x", False),
    ],
)
def test_an_image_is_pinned_by_a_name_a_prefix_or_a_part(pattern: str, pinned: bool) -> None:
    assert is_pinned(IMAGE, ["other", pattern]) is pinned
    assert not is_pinned(IMAGE, [])
