"""An image's layers as one root file system, by umoci.

Rules: reads the OCI layout that skopeo wrote; umoci keeps layers inside the root file system whatever their symlinks
say; sizes are what the disk gives for it.
Next: :mod:`nri.engine.images.snapshots`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest

__all__ = ["LayoutImage", "Usage", "choose_platform", "read_layout", "tree_usage", "unpack"]

_TIMEOUT_S = 1800.0
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x",
                  "riscv64": "riscv64"}  # fmt: skip


class Usage(NamedTuple):
    """The room that files take: bytes on the disk, and inodes."""

    size_bytes: int
    inodes: int


class LayoutImage(NamedTuple):
    """An image in an OCI layout: the digests of manifest and configuration, and the configuration."""

    manifest_digest: str
    config_digest: str
    config: dict[str, Any]


def unpack(layout: Path, rootfs: Path, umoci: str = "umoci") -> None:
    """Unpack the image ``pull`` of a layout into a new folder. Raises CommandFailed, CommandTimeout."""
    argv = [umoci, "raw", "unpack", "--image", f"{layout}:pull", str(rootfs)]
    run(argv, timeout_s=_TIMEOUT_S, action="unpacking the image's layers", env={"TMPDIR": str(layout.parent)})


def read_layout(layout: Path) -> LayoutImage:
    """The one image of a layout. Raises EngineError if the layout is not whole."""
    try:
        index = json.loads((layout / "index.json").read_bytes())
        digest = str(index["manifests"][0]["digest"])
        manifest = json.loads(_blob(layout, digest).read_bytes())
        config_digest = str(manifest["config"]["digest"])
        config = json.loads(_blob(layout, config_digest).read_bytes())
        return LayoutImage(digest, config_digest, dict(config))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"the image's layout cannot be read: {error!r}") from error


def choose_platform(manifest: Mapping[str, Any], name: str) -> str:
    """The digest of the manifest for this machine in a list of them; empty if `manifest` is one itself. Pure.

    Raises InvalidRequest if the image is for other machines, or of the first schema, which has no configuration.
    """
    if manifest.get("schemaVersion") == 1:
        raise InvalidRequest(f"{name} is of manifest schema 1, which no tool pulls any more: build it anew")
    if "manifests" not in manifest and manifest.get("mediaType") not in _INDEXES:
        return ""
    machine = os.uname().machine
    wanted = _ARCHITECTURES.get(machine, machine)
    rows = [row for row in manifest.get("manifests") or () if isinstance(row, dict)]
    for row in rows:
        platform = row.get("platform") or {}
        if (platform.get("os", "linux"), platform.get("architecture", wanted)) == ("linux", wanted):
            return str(row["digest"])
    there = sorted({"/".join(map(str, (row.get("platform") or {}).values())) for row in rows})
    raise InvalidRequest(f"{name} is not for linux/{wanted}; there is {', '.join(there) or 'nothing'}")


def tree_usage(folder: Path) -> Usage:
    """The room that a tree takes on the disk; hard links count once, and what vanishes meanwhile not at all."""
    size, seen = 0, set()
    for place, folders, files in os.walk(folder):
        for name in ("", *files, *(each for each in folders if os.path.islink(os.path.join(place, each)))):
            try:
                found = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                size += found.st_blocks * 512
    return Usage(size, len(seen))


def _blob(layout: Path, digest: str) -> Path:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or not value.isalnum():
        raise ValueError(f"{digest!r} is no digest")
    return layout / "blobs" / algorithm / value
