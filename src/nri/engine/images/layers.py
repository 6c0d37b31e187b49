"""The unpacked layers of images, each in its own folder, so that images share them.

A layer's folder is named after its chain ID, which depends on the layer and on all layers below it. The folder has the
layer's files in `fs`, as overlayfs expects them in a lower folder, and the record layer.json. A layer exists if its
record does: the record is complete before the folder is moved to its path, and a removal deletes the record first.
So a kill at any time leaves whole layers, and folders without a record, which are removed later.

No count of references is stored. A layer is in use if an image's record lists it, or while a pull has a lease on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nri.config.syntax import parse_json
from nri.engine.images.overlay import Stack, copy_attributes, mount_overlay
from nri.engine.images.reference import DIGEST
from nri.engine.support.kernel import unmount
from nri.files import Usage, private_folder, read_regular, remove_tree, rename_into, sync_folder, write_whole

_RECORD, _FILES = "layer.json", "fs"
_RECORD_BYTES = 1 << 16
#: An empty folder, over which the lowest layer of each image is mounted.
_EMPTY = "empty"
#: The mode of a new layer's root folder, until the layer sets another mode.
_UNSET_MODE = 0o1003


class Layer(NamedTuple):
    """The record of a layer.

    Attributes:
        parent: the chain ID of the layer below, or "" for the lowest layer.
        blob: the digest of the compressed layer in the image's manifest.
    """

    parent: str
    blob: str
    size_bytes: int
    inodes: int


#: The layers that a pull uses.
Lease = Counter[str]


def chain_ids(diff_ids: Sequence[str]) -> list[str]:
    """Return the chain IDs of layers, the lowest first. Source: OCI image specification, config.md, "Layer ChainID"."""
    chain: list[str] = []
    for diff_id in diff_ids:
        text = f"{chain[-1]} {diff_id}" if chain else ""
        chain.append(f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if text else diff_id)
    return chain


class Layers:
    """The layers below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)
        empty = self.root / _EMPTY / _FILES
        empty.mkdir(parents=True, exist_ok=True)
        empty.chmod(0o755)
        os.utime(empty, (0, 0))  # as umoci does for an image that does not describe its root folder
        self._lock = threading.RLock()
        self._layers: dict[str, Layer] = {}
        #: Folders without a record: the remains of a removal.
        self._remains: dict[str, Usage] = {}
        self._leases: Counter[str] = Counter()
        for folder in self.root.iterdir():
            if DIGEST.fullmatch(f"sha256:{folder.name}"):  # others are not the engine's, for example lost+found
                self._load(folder)

    def _load(self, folder: Path) -> None:
        chain_id = f"sha256:{folder.name}"
        try:
            self._layers[chain_id] = _read_record(folder)
        except (OSError, ValueError, TypeError):
            self._remains[chain_id] = Usage(0, 0)

    def missing(self, chain: Sequence[str]) -> list[str]:
        """Return the layers that do not exist."""
        return [chain_id for chain_id in chain if chain_id not in self._layers]

    def stack(self, chain: Sequence[str]) -> Stack:
        """Return the folders of layers, the lowest first."""
        folders = [chain_id.partition(":")[2] for chain_id in chain] or [_EMPTY]
        return Stack(self.root, [f"{folder}/{_FILES}" for folder in folders])

    def usage(self, chain: Sequence[str] | None = None) -> Usage:
        """Return the disk space of some layers, or of all layers, including the remains of removals that failed."""
        with self._lock:
            layers = self._layers.values() if chain is None else [self._layers[chain_id] for chain_id in chain]
            rows = [Usage(layer.size_bytes, layer.inodes) for layer in layers]
            rows += self._remains.values() if chain is None else ()
        return Usage(sum(row.size_bytes for row in rows), sum(row.inodes for row in rows))

    # --- adding ---

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """Keep the layers that are taken with the lease inside the block, even if no image lists them."""
        lease: Lease = Counter()
        try:
            yield lease
        finally:
            with self._lock:
                self._leases -= lease

    def take(self, chain_id: str, lease: Lease) -> bool:
        """Add a layer to a lease. Returns False if the layer does not exist."""
        with self._lock:
            if chain_id not in self._layers:
                return False
            lease[chain_id] += 1
            self._leases[chain_id] += 1
            return True

    def take_known(self, blobs: Sequence[str], lease: Lease) -> list[str]:
        """Add the lowest layers of a manifest to a lease, as far as they exist. Returns their chain IDs."""
        with self._lock:
            children = {(layer.parent, layer.blob): chain_id for chain_id, layer in self._layers.items()}
            chain: list[str] = []
            for blob in blobs:
                chain_id = children.get((chain[-1] if chain else "", blob))
                if chain_id is None:
                    break
                chain.append(chain_id)
                self.take(chain_id, lease)
            return chain

    @contextmanager
    def build(self, folder: Path, chain: Sequence[str]) -> Iterator[tuple[Path, Path]]:
        """Mount a new layer in `folder` over the layers `chain`. Yields the mount point and the new layer's files.

        Programs that unpack at the mount point see the files of all layers, and overlayfs keeps what differs, with its
        own marks for removed files. Raises OSError if the mount fails.
        """
        files, work, merged = (folder / name for name in (_FILES, "work", "merged"))
        stack = self.stack(chain)
        for path in (files, work, merged):
            path.mkdir(parents=True)
        files.chmod(_UNSET_MODE)
        mount_overlay(merged, stack, files, work, volatile=True)
        try:
            yield merged, files
        finally:
            unmount(merged, lazily=True)
        if stat.S_IMODE(files.stat().st_mode) == _UNSET_MODE:
            copy_attributes(stack.top, files)  # because umoci changes the owner and the time
        remove_tree(work)
        merged.rmdir()

    def add(self, chain_id: str, folder: Path, layer: Layer, lease: Lease) -> None:
        """Move the folder of `build` to its path, and take the layer. If the layer exists, the folder is removed."""
        with self._lock:
            if self.take(chain_id, lease):
                remove_tree(folder)
                return
            write_whole(folder / _RECORD, json.dumps(layer._asdict()).encode())
            target = self._folder(chain_id)
            remove_tree(target)
            self._remains.pop(chain_id, None)
            rename_into(folder, target)
            self._layers[chain_id] = layer
            self.take(chain_id, lease)

    # --- removing ---

    def remove_unused(self, used: Collection[str]) -> list[str]:
        """Remove all layers that are neither in `used` nor leased. Returns a line for each failure."""
        complaints = []
        with self._lock:
            for chain_id in [*self._layers, *self._remains]:
                try:
                    self.remove(chain_id, used)
                except OSError as error:
                    complaints.append(f"layer {chain_id} is not removed: {error}")
        return complaints

    def remove(self, chain_id: str, used: Collection[str]) -> None:
        """Remove a layer, unless it is in `used` or leased. Raises OSError if files remain; the layer is gone then.

        Deleting the record needs no space, so this works on a full disk.
        """
        with self._lock:
            if chain_id in used or self._leases[chain_id] > 0:
                return
            folder = self._folder(chain_id)
            layer = self._layers.pop(chain_id, None)
            if layer is not None:
                self._remains[chain_id] = Usage(layer.size_bytes, layer.inodes)
                with suppress(FileNotFoundError):
                    os.unlink(folder / _RECORD)
                    sync_folder(folder)
            remove_tree(folder)
            self._remains.pop(chain_id, None)

    def _folder(self, chain_id: str) -> Path:
        if not DIGEST.fullmatch(chain_id):
            raise ValueError(f"{chain_id!r} is not a chain ID")
        return self.root / chain_id.partition(":")[2]


def _read_record(folder: Path) -> Layer:
    """Read the record of a layer. Raises OSError if it is missing, and ValueError or TypeError if it is invalid."""
    layer = Layer(**parse_json(read_regular(folder / _RECORD, _RECORD_BYTES)))
    if [*map(type, layer)] != [str, str, int, int]:
        raise TypeError("parent and blob must be strings, size_bytes and inodes numbers")
    return layer
