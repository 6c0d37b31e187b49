"""Unpack an image's layers by umoci: all of them into one folder, or one layer over the layers below it.

umoci writes no file outside of the target folder, even if a layer has symbolic links that lead out of it. It compares
each layer with its digest in the manifest, and the unpacked content with the digest in the configuration.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.engine.images.manifest import (
    MAX_DOCUMENT_BYTES,
    Blob,
    config_digest,
    container_config,
    diff_ids,
    layers,
    parse,
)
from nri.engine.images.reference import DIGEST
from nri.engine.images.space_budget import SpaceBudget
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.files import Usage


class LayoutImage(NamedTuple):
    """An image in an OCI layout. `id` is the digest of its configuration."""

    manifest_digest: str
    id: str
    layers: list[Blob]
    diff_ids: list[str]
    config: dict[str, Any]


def unpack(
    layout: Path, target: Path, budget: SpaceBudget, umoci: str = "umoci", *, files: Path | None = None
) -> Usage:
    """Unpack the image ``pull`` of a layout into a folder, and return the disk space of `files`.

    `files` is the folder that gets the unpacked files, by default `target`. Raises EngineError if the image exceeds its
    budget, and CommandFailed or CommandTimeout if umoci fails.
    """
    files = files or target
    argv = [umoci, "raw", "unpack", "--image", f"{layout}:pull", str(target)]
    action = f"image {budget.name}: unpacking its layers"
    watch = budget.watch(files, layout / "blobs")
    timeout_s = budget.timer.remaining_s()
    run(argv, timeout_s=timeout_s, action=action, env={"TMPDIR": str(layout.parent)}, on_tick=watch)
    return budget.check_tree(files)


def select_layer(layout: Path, blob: Blob, diff_id: str) -> None:
    """Make an image with only one layer the image ``pull`` of a layout."""

    def add(document: dict[str, Any], kind: str) -> dict[str, Any]:
        data = json.dumps(document).encode()
        value = hashlib.sha256(data).hexdigest()
        (layout / "blobs/sha256" / value).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}.v1+json", "digest": f"sha256:{value}",
                "size": len(data)}  # fmt: skip

    config = add({"rootfs": {"type": "layers", "diff_ids": [diff_id]}, "config": {}}, "config")
    layer = {"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size_bytes}
    manifest = add({"schemaVersion": 2, "config": config, "layers": [layer]}, "manifest")
    tag = {"org.opencontainers.image.ref.name": "pull"}
    (layout / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "manifests": [{**manifest, "annotations": tag}]})
    )


def read_layout(layout: Path, name: str) -> LayoutImage:
    """Read and check the only image of a layout.

    Raises InvalidRequest if the image is invalid, and EngineError if the layout cannot be read.
    """
    try:
        index = parse_json((layout / "index.json").read_bytes())
        digest = str(index["manifests"][0]["digest"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"the image's layout cannot be read: {error!r}") from error
    document = parse(_blob(layout, digest, name), name)
    identity, manifest_layers = config_digest(document, name), layers(document, name)
    config = parse(_blob(layout, identity, name), name)
    ids = diff_ids(config, name)
    if len(manifest_layers) != len(ids):
        raise InvalidRequest(
            f"image {name}: its manifest has {len(manifest_layers)} layers, its configuration {len(ids)}"
        )
    return LayoutImage(digest, identity, manifest_layers, ids, container_config(config, name))


def with_registry_config(layout_image: LayoutImage, identity: str, raw: bytes, name: str) -> LayoutImage:
    """Return a layout's image with the id and the configuration `raw` of the registry.

    Raises InvalidRequest if the digest of the configuration is not `identity`, or if it lists other layers.
    """
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != identity:
        raise InvalidRequest(f"image {name}: the document {identity} has another digest")
    config = parse(raw, name)
    if diff_ids(config, name) != layout_image.diff_ids:
        raise InvalidRequest(f"image {name}: its layers differ from those in its configuration")
    return layout_image._replace(id=identity, config=container_config(config, name))


def _blob(layout: Path, digest: str, name: str) -> bytes:
    """Read a document of a layout. Raises InvalidRequest if its digest differs, and EngineError if it is missing."""
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
