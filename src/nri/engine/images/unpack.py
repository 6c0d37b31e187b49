"""An image's layers as one root file system, by umoci.

Reads the OCI layout that skopeo wrote; umoci keeps layers inside the root file system whatever their symlinks
say, and fails for one whose content is not what the configuration lists at its place; sizes are what the disk gives.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.engine.images.manifest import LIMIT_BYTES, config_digest, container_config, diff_ids, layers, parse
from nri.engine.images.reference import DIGEST
from nri.engine.images.room import Room
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.files import Usage

_TIMEOUT_S = 1800.0


class LayoutImage(NamedTuple):
    """An image in an OCI layout: the digests of manifest and configuration, and what these two say."""

    manifest_digest: str
    id: str
    diff_ids: list[str]
    config: dict[str, Any]


def unpack(layout: Path, rootfs: Path, room: Room, umoci: str = "umoci") -> Usage:
    """Unpack the image ``pull`` of a layout into a new folder; returns what it takes there.

    Raises CommandFailed, CommandTimeout, and EngineError for more than there is room for.
    """
    argv = [umoci, "raw", "unpack", "--image", f"{layout}:pull", str(rootfs)]
    action = f"image {room.name}: unpacking its layers"
    watch = room.watch(rootfs, layout / "blobs")
    run(argv, timeout_s=_TIMEOUT_S, action=action, env={"TMPDIR": str(layout.parent)}, on_tick=watch)
    return room.for_tree(rootfs)


def read_layout(layout: Path, name: str) -> LayoutImage:
    """The one image of a layout, with what can be checked before it is unpacked. Raises InvalidRequest, EngineError."""
    try:
        index = parse_json((layout / "index.json").read_bytes())
        digest = str(index["manifests"][0]["digest"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"the image's layout cannot be read: {error!r}") from error
    document = parse(_blob(layout, digest, name), name)
    identity, found = config_digest(document, name), layers(document, name)
    config = parse(_blob(layout, identity, name), name)
    ids = diff_ids(config, name)
    if found.number != len(ids):
        raise InvalidRequest(f"image {name}: its manifest has {found.number} layers and its configuration {len(ids)}")
    return LayoutImage(digest, identity, ids, container_config(config, name))


def in_place_of(found: LayoutImage, identity: str, raw: bytes, name: str) -> LayoutImage:
    """The image of a layout under the id that its registry has for it, by the configuration `raw` of that id.

    Raises InvalidRequest unless that has this digest and lists the layers that the layout has.
    """
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != identity:
        raise InvalidRequest(f"image {name}: what is named {identity} has another digest")
    config = parse(raw, name)
    if diff_ids(config, name) != found.diff_ids:
        raise InvalidRequest(f"image {name}: its layers are not those that its configuration lists")
    return found._replace(id=identity, config=container_config(config, name))


def _blob(layout: Path, digest: str, name: str) -> bytes:
    """A document of a layout, whose content has its digest. Raises InvalidRequest, EngineError."""
    if not DIGEST.fullmatch(digest):
        raise InvalidRequest(f"image {name}: {digest[:80]!r} is not a digest")
    algorithm, _, value = digest.partition(":")
    try:
        with open(layout / "blobs" / algorithm / value, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise EngineError(f"image {name}: {digest} is not in what was pulled: {error.strerror}") from error
    if len(data) <= LIMIT_BYTES and hashlib.sha256(data).hexdigest() != value:
        raise InvalidRequest(f"image {name}: what is named {digest} has another digest")
    return data
