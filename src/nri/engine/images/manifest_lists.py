"""Find an image's manifest for this machine, which may be in nested lists of manifests for several machines."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from nri.engine.images.credentials import Credentials
from nri.engine.images.manifest import (
    ListedManifest,
    for_this_machine,
    is_index,
    not_for_this_machine,
    other_machine,
    parse,
)
from nri.engine.images.reference import Reference
from nri.engine.images.transport import Transport
from nri.engine.support.errors import EngineError, InvalidRequest

#: The maximum depth of nested lists of manifests. Usually there is one list.
_MAX_INDEX_DEPTH = 3
#: The maximum number of manifests that are checked for one image. Each is a request to the registry.
_MAX_LISTED = 24


def manifest_for_this_machine(
    transport: Transport, name: Reference, digest: str, raw: bytes, folder: Path, credentials: Credentials | None
) -> tuple[str, dict[str, Any]]:
    """Find the best manifest for this machine in the document `raw`: a manifest, or nested lists of manifests.

    Returns the image's name with the digest of the manifest, and the manifest. Raises InvalidRequest if no manifest is
    for this machine or the lists are too deep or long, and the errors of `Transport.manifest`.
    """
    manifest = parse(raw, str(name))
    pending, other_platforms, requests = [(ListedManifest(digest, sure=True), 1)], list[str](), 0
    while pending:
        listed, depth = pending.pop()
        pinned = f"{name.repository}@{listed.digest}"
        if requests == _MAX_LISTED:
            raise InvalidRequest(f"image {name}: none of {_MAX_LISTED} manifests in its lists is for this machine")
        if requests:
            manifest = _manifest_list(transport, pinned, name, folder, credentials)
        requests += 1
        if is_index(manifest, str(name)):
            if depth > _MAX_INDEX_DEPTH:
                raise InvalidRequest(f"image {name}: lists of manifests are nested more than {_MAX_INDEX_DEPTH} deep")
            fitting, rejected = for_this_machine(manifest, str(name))
            pending += [(entry, depth + 1) for entry in reversed(fitting)]
            other_platforms += rejected
            continue
        other_platform = "" if listed.sure else _other_machine(transport, pinned, name, folder, credentials)
        if not other_platform:
            return pinned, manifest
        other_platforms.append(other_platform)
    raise not_for_this_machine(str(name), other_platforms)


def _manifest_list(
    transport: Transport, pinned: str, name: Reference, folder: Path, credentials: Credentials | None
) -> dict[str, Any]:
    raw = transport.manifest(pinned, folder, credentials)
    if "sha256:" + hashlib.sha256(raw).hexdigest() != pinned.rpartition("@")[2]:
        raise EngineError(f"the registry sent another document for {pinned}")
    return parse(raw, str(name))


def _other_machine(
    transport: Transport, pinned: str, name: Reference, folder: Path, credentials: Credentials | None
) -> str:
    """Return the platform in a manifest's configuration, or "" if this machine can run the image."""
    raw = transport.manifest(pinned, folder, credentials, of_config=True)
    return other_machine(parse(raw, str(name)), str(name))
