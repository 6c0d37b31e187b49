"""Unpack an image's layers into one root file system by umoci.

umoci keeps layers inside the root file system, whatever their symbolic links are, and compares each layer's content
with its digest in the configuration.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.engine.images.manifest import MAX_DOCUMENT_BYTES, config_digest, container_config, diff_ids, layers, parse
from nri.engine.images.reference import DIGEST
from nri.engine.images.space_budget import SpaceBudget
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.files import Usage

_TIMEOUT_S = 1800.0


class LayoutImage(NamedTuple):
    """An image in an OCI layout: the digests of its manifest and configuration, and values of the configuration."""

    manifest_digest: str
    id: str
    diff_ids: list[str]
    config: dict[str, Any]


def unpack(layout: Path, rootfs: Path, budget: SpaceBudget, umoci: str = "umoci") -> Usage:
    """Unpack the image ``pull`` of a layout into a new folder; returns its disk space.

    Raises CommandFailed, CommandTimeout, and EngineError if it exceeds its budget.
    """
    argv = [umoci, "raw", "unpack", "--image", f"{layout}:pull", str(rootfs)]
    action = f"image {budget.name}: unpacking its layers"
    watch = budget.watch(rootfs, layout / "blobs")
    run(argv, timeout_s=_TIMEOUT_S, action=action, env={"TMPDIR": str(layout.parent)}, on_tick=watch)
    return budget.check_tree(rootfs)


def read_layout(layout: Path, name: str) -> LayoutImage:
    """Read and check the only image of a layout. Raises InvalidRequest, EngineError."""
    try:
        index = parse_json((layout / "index.json").read_bytes())
        digest = str(index["manifests"][0]["digest"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"the image's layout cannot be read: {error!r}") from error
    document = parse(_blob(layout, digest, name), name)
    identity, manifest_layers = config_digest(document, name), layers(document, name)
    config = parse(_blob(layout, identity, name), name)
    ids = diff_ids(config, name)
    if manifest_layers.number != len(ids):
        raise InvalidRequest(
            f"image {name}: its manifest has {manifest_layers.number} layers, its configuration {len(ids)}"
        )
    return LayoutImage(digest, identity, ids, container_config(config, name))


def with_registry_config(layout_image: LayoutImage, identity: str, raw: bytes, name: str) -> LayoutImage:
    """Return a layout's image with the id and the configuration `raw` of the registry.

    InvalidRequest unless the configuration has this id as its digest, and lists the layout's layers.
    """
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != identity:
        raise InvalidRequest(f"image {name}: the document {identity} has another digest")
    config = parse(raw, name)
    if diff_ids(config, name) != layout_image.diff_ids:
        raise InvalidRequest(f"image {name}: its layers differ from those in its configuration")
    return layout_image._replace(id=identity, config=container_config(config, name))


def _blob(layout: Path, digest: str, name: str) -> bytes:
    """Read a document of a layout, and check its digest. Raises InvalidRequest, EngineError."""
    if not DIGEST.fullmatch(digest):
        raise InvalidRequest(f"image {name}: {digest[:80]!r} is not a digest")
    algorithm, _, value = digest.partition(":")
    try:
        with open(layout / "blobs" / algorithm / value, "rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise EngineError(f"image {name}: {digest} is missing in the pulled layout: {error.strerror}") from error
    if len(data) <= MAX_DOCUMENT_BYTES and hashlib.sha256(data).hexdigest() != value:
        raise InvalidRequest(f"image {name}: the document {digest} has another digest")
    return data
