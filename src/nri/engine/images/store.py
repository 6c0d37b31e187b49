"""The images of this node: pull, list and remove them, and mount them for containers.

An image's id is the digest of its configuration; one file maps names to ids. Images share layers, so a pull copies and
unpacks only layers that do not exist. Concurrent pulls of one image, or of one layer, do the work once. A removed image
is no longer listed, but its files stay until no container uses them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nri.config.syntax import parse_json
from nri.engine.images.credentials import Credentials
from nri.engine.images.image import Image, account_file
from nri.engine.images.key_locks import KeyLocks
from nri.engine.images.layers import Layer, Layers, Lease, chain_ids
from nri.engine.images.manifest import Blob, config_digest, container_config, layers
from nri.engine.images.manifest_lists import manifest_for_this_machine
from nri.engine.images.mapping import IdMapping
from nri.engine.images.overlay import MAX_LAYERS, Stack
from nri.engine.images.pull_slots import PullSlots
from nri.engine.images.pull_timer import PullTimer
from nri.engine.images.reference import DIGEST, parse_reference
from nri.engine.images.snapshots import Snapshots
from nri.engine.images.space_budget import Limits, SpaceBudget
from nri.engine.images.transport import OnProgress, Transport, skip_blobs
from nri.engine.images.unpack import LayoutImage, read_layout, select_layer, unpack, with_registry_config
from nri.engine.support.command import end_leftovers
from nri.engine.support.errors import EngineError, InvalidRequest, NotFound
from nri.engine.support.kernel import detach_below, sync_filesystem
from nri.files import (
    Usage,
    private_folder,
    read_regular,
    remove_tree,
    rename_into,
    set_aside,
    sync_folder,
    write_whole,
)

_MIN_PREFIX_LENGTH = 6
#: How long a pull waits for other pulls before it fails. A registry may be slow on purpose.
_WAIT_S = 300.0
#: How long a pull waits for another pull that copies the same image or layer. Then it copies them itself, because any
#: registry can name them, and deliver them slowly on purpose.
_SHARED_WAIT_S = 60.0
#: The name of an image's record, and its name after the image was removed while containers use it.
_RECORD, _REMOVED = "image.json", "removed.json"
#: The maximum size of these files. A configuration has at most 4 MiB, and is longer in a record, where it is escaped.
_FILE_BYTES = 1 << 26
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """An image in a registry: its name with the digest of its manifest, its id, and the layers of its manifest."""

    name: str
    identity: str
    blobs: Sequence[Blob]
    credentials: Credentials | None
    progress: OnProgress | None


class ImageStore:
    """The images below `root`. The constructor raises EngineError if the folder cannot be used."""

    def __init__(
        self,
        root: Path,
        transport: Transport | None = None,
        *,
        umoci: str = "umoci",
        driver: str = "auto",
        limits: Limits | None = None,
    ) -> None:
        self.root = private_folder(root)
        self.transport = transport or Transport()
        self.umoci = umoci
        self.limits, self.wait_s, self.shared_wait_s = limits or Limits(), _WAIT_S, _SHARED_WAIT_S
        self.snapshots = Snapshots(root / "snapshots", driver)
        self._images = private_folder(root / "images")
        self._pulls = private_folder(root / "pulls")
        self._layers = Layers(root / "layers")
        self._lock = threading.RLock()
        self._key_locks = KeyLocks()
        self._slots = PullSlots()
        self._names: dict[str, str] = {}
        #: Removed images that containers still use, and images whose removal failed halfway.
        self._removed: set[str] = set()
        self._half_removed: set[str] = set()
        self._image_by_id: dict[str, Image] = {}
        #: The number of root file systems that are being mounted, by image.
        self._mount_counts: Counter[str] = Counter()
        self.complaints = self._load()

    # --- pulling ---

    def pull(self, reference: str, credentials: Credentials | None = None, progress: OnProgress | None = None) -> Image:
        """Pull an image from its registry.

        Raises InvalidRequest if the name or the image is invalid, NotFound if the registry does not have the image,
        CommandFailed or CommandTimeout if a program fails, and TooMany if other pulls take too long.
        """
        name = parse_reference(reference)
        with self._pull(str(name), name.domain) as (folder, timer):
            transport = self.transport.timed(timer)
            raw = transport.manifest(name.pullable, folder, credentials)
            digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            if name.digest and digest != name.digest:
                raise EngineError(f"the registry sent {digest} for {name}")
            pinned, manifest = manifest_for_this_machine(transport, name, digest, raw, folder, credentials)
            identity, blobs = config_digest(manifest, str(name)), layers(manifest, str(name))
            names = [f"{name.repository}@{digest}", *([f"{name.repository}:{name.tag}"] if name.tag else [])]
            with self._key_locks.hold(identity, self.shared_wait_s):
                while (image := self._add_names(identity, names, blobs)) is None:
                    budget = SpaceBudget(str(name), self.root, self.limits, timer)
                    self._pull_layers(Source(pinned, identity, blobs, credentials, progress), folder, budget)
                return image

    def _pull_layers(self, source: Source, folder: Path, budget: SpaceBudget) -> None:
        """Copy the layers that do not exist from a registry, and add the image to the store."""
        transport = self.transport.timed(budget.timer)
        with self._layer_lease() as lease, self._known_layers(source, lease) as known_ids:
            missing, layout = source.blobs[len(known_ids) :], folder / "layout"
            size_bytes = sum(blob.size_bytes for blob in missing)
            self._check_free_space(size_bytes, budget.name)
            remove_tree(layout)  # of an earlier attempt
            skipped = {blob.digest for blob in source.blobs[: len(known_ids)]} - {blob.digest for blob in missing}
            skip_blobs(layout, skipped)
            transport.copy(
                source.name, layout, folder, source.credentials, source.progress, size_bytes, budget.check_bytes
            )
            layout_image = read_layout(layout, budget.name)
            if layout_image.id != source.identity:  # skopeo has converted a configuration in Docker's format to OCI's
                raw = transport.manifest(source.name, folder, source.credentials, of_config=True)
                layout_image = with_registry_config(layout_image, source.identity, raw, budget.name)
            if chain_ids(layout_image.diff_ids)[: len(known_ids)] != known_ids:
                raise InvalidRequest(f"image {budget.name}: its layers differ from those in its configuration")
            self._store_image(folder, layout_image, source.blobs, budget, lease)

    @contextmanager
    def _known_layers(self, source: Source, lease: Lease) -> Iterator[list[str]]:
        """Yield the chain IDs of an image's lowest layers that already exist, and lease these layers.

        If another pull has begun to copy the next layer, this waits for that pull for a while, and uses its layers.
        """
        blobs = [blob.digest for blob in source.blobs] if self._shares_layers(len(source.blobs)) else []
        while True:
            known_ids = self._layers.take_known(blobs, lease)
            following = blobs[len(known_ids)] if len(known_ids) < len(blobs) else source.identity
            with self._key_locks.hold(" ".join(("layer", *known_ids[-1:], following)), self.shared_wait_s):
                if self._layers.take_known(blobs, lease) == known_ids:
                    yield known_ids
                    return

    def _shares_layers(self, number: int) -> bool:
        """Return whether an image with this number of layers is unpacked layer by layer."""
        return self.snapshots.driver == "overlay" and number <= MAX_LAYERS

    @contextmanager
    def _layer_lease(self) -> Iterator[Lease]:
        """Keep layers for a pull. At its end, layers that no image has are removed."""
        try:
            with self._layers.lease() as lease:
                yield lease
        finally:
            with self._lock:
                self._log_complaints(self._layers.remove_unused(self._used_layers()))

    def load(self, source: str, reference: str, progress: OnProgress | None = None) -> Image:
        """Load an image from ``oci-archive:/PATH[:NAME]``, ``docker-archive:/PATH[:NAME]`` or ``oci:/PATH[:NAME]``.

        The path is read with the engine's rights, so it must come from an operator and never from a pod.
        """
        name = parse_reference(reference)
        if not source.startswith(("oci-archive:/", "docker-archive:/", "oci:/")):
            raise InvalidRequest(
                f"{source!r} is not an archive: write oci-archive:, docker-archive: or oci: and an absolute path"
            )
        with self._pull(str(name), "an archive") as (folder, timer):
            budget = SpaceBudget(str(name), self.root, self.limits, timer)
            self.transport.timed(timer).copy(
                source, folder / "layout", folder, progress=progress, on_size=budget.check_bytes
            )
            layout_image = read_layout(folder / "layout", str(name))
            names = [f"{name.repository}@{layout_image.manifest_digest}", f"{name.repository}:{name.tag}"]
            with self._key_locks.hold(layout_image.id, self.shared_wait_s):
                while (image := self._add_names(layout_image.id, names, layout_image.layers)) is None:
                    budget = SpaceBudget(str(name), self.root, self.limits, timer)
                    with self._layer_lease() as lease:
                        self._store_image(folder, layout_image, layout_image.layers, budget, lease)
                return image

    def _check_free_space(self, size_bytes: int, name: str) -> None:
        free = shutil.disk_usage(self.root).free
        if size_bytes > free:
            raise EngineError(
                f"no space left for {name}: its new layers have {size_bytes} bytes, {self.root} has {free} free"
            )

    def _store_image(
        self, folder: Path, layout_image: LayoutImage, blobs: Sequence[Blob], budget: SpaceBudget, lease: Lease
    ) -> None:
        """Unpack a pulled image, and add it to the store by one rename. `blobs` are the layers of its manifest."""
        identity, image_folder = layout_image.id, folder / "image"
        image_folder.mkdir()
        chain, count = None, len(layout_image.diff_ids)
        if self._shares_layers(count):
            chain = tuple(chain_ids(layout_image.diff_ids))
            for number, blob in enumerate(blobs):
                self._add_layer(folder, layout_image, number, blob.digest, budget, lease)
        else:
            budget.spend(unpack(folder / "layout", image_folder / "rootfs", budget, self.umoci))
        size_bytes, inodes, _ = budget.spent
        image = Image(identity, (), (), size_bytes, inodes, layout_image.config, time.time_ns(), count, chain)
        row = {"id": identity, "size_bytes": image.size_bytes, "inodes": image.inodes, "config": layout_image.config,
               "pulled_at_ns": image.pulled_at_ns, "layers": count, "chain_ids": chain}  # fmt: skip
        sync_filesystem(self.root)  # otherwise a power failure could leave empty files in a complete image
        write_whole(image_folder / _RECORD, json.dumps(row).encode())
        with self._lock:
            if self._is_complete(identity):  # another pull was faster
                remove_tree(image_folder)
                return
            target = self._image_folder(identity)
            self._remove_or_set_aside(target)
            rename_into(image_folder, target)
            self._image_by_id[identity] = image
            self._removed.discard(identity)
            self._half_removed.discard(identity)

    def _add_layer(
        self, folder: Path, layout_image: LayoutImage, number: int, blob: str, budget: SpaceBudget, lease: Lease
    ) -> None:
        """Unpack one layer of an image over the layers below it, unless the layer exists."""
        chain, layer_folder = chain_ids(layout_image.diff_ids[: number + 1]), folder / f"layer-{number}"
        if not self._layers.take(chain[-1], lease):
            select_layer(folder / "layout", layout_image.layers[number], layout_image.diff_ids[number])
            with self._layers.build(layer_folder, chain[:-1]) as (merged, files):
                size_bytes, inodes, _ = unpack(folder / "layout", merged, budget, self.umoci, files=files)
            parent = chain[-2] if number else ""
            self._layers.add(chain[-1], layer_folder, Layer(parent, blob, size_bytes, inodes), lease)
        budget.spend(self._layers.usage(chain[-1:]))

    def _add_names(self, identity: str, names: Sequence[str], blobs: Sequence[Blob]) -> Image | None:
        """Add names to an image, and return it; None if it does not exist. `blobs` are the layers of its manifest.

        Raises InvalidRequest if the image has another number of layers.
        """
        with self._lock:
            if not self._is_complete(identity):
                return None
            if (known_layers := self._image_by_id[identity].layers) not in (None, len(blobs)):
                raise InvalidRequest(
                    f"image {names[-1]}: its manifest has {len(blobs)} layers, its configuration {known_layers}"
                )
            new_names = {**self._names, **dict.fromkeys(names, identity)}
            self._write_names(new_names)
            if identity in self._removed:
                os.rename(self._image_folder(identity) / _REMOVED, self._image_folder(identity) / _RECORD)
            self._names = new_names
            self._removed.discard(identity)
            return self._with_names(self._image_by_id[identity])

    # --- queries ---

    def list(self) -> Sequence[Image]:
        """Return all images, the newest first."""
        with self._lock:
            images = [self._with_names(image) for image in self._image_by_id.values() if image.id not in self._removed]
        return sorted(images, key=lambda image: -image.pulled_at_ns)

    def get(self, name: str) -> Image:
        """Return the image with a name, an id or a prefix of an id. Raises NotFound if there is no such image."""
        with self._lock:
            return self._with_names(self._image_by_id[self._find(name)])

    def accounts(self, image: Image) -> tuple[str, str]:
        """Return the contents of an image's /etc/passwd and /etc/group, each "" if it does not exist.

        Raises NotFound if the image does not exist, and EngineError if a file cannot be used.
        """
        with self._lock:  # so that the image is not removed at the same time
            self._check_complete(image)
            with self._stack(image).merged(self._pulls) as rootfs:
                return account_file(rootfs, "etc/passwd"), account_file(rootfs, "etc/group")

    def fs_info(self) -> Usage:
        """Return the disk space of all images, including removed images that containers still use."""
        with self._lock:
            size_bytes, inodes, _ = self._layers.usage()
            own_folders = [image for image in self._image_by_id.values() if image.chain_ids is None]
        return Usage(
            size_bytes + sum(image.size_bytes for image in own_folders),
            inodes + sum(image.inodes for image in own_folders),
        )

    # --- removing ---

    def remove(self, name: str) -> None:
        """Remove an image with all its names. No effect if the image does not exist.

        Raises EngineError if its files cannot be removed. Then the image stays in the list, and can be pulled or
        removed again.
        """
        with self._lock:
            try:
                identity = self._find(name)
            except NotFound:
                return
            try:
                self._hide_image(identity)
                if identity not in self._used_images():
                    self._delete(identity)
            except OSError as error:
                raise EngineError(f"image {identity} is not removed: {error}") from error

    # --- root file systems ---

    def mount(self, image: Image, container_id: str, mapping: IdMapping | None = None) -> Path:
        """Mount the root file system of a container. With `mapping`, the owners of files are mapped.

        Raises NotFound if the image does not exist, and EngineError if the mount fails.
        """
        with self._lock:
            self._check_complete(image)
            stack = self._stack(image)
            self._mount_counts[image.id] += 1
        try:  # done without the lock, because copying may take long
            return self.snapshots.mount(stack, container_id, image.id, mapping)
        finally:
            with self._lock:
                self._mount_counts -= Counter([image.id])
                self._log_complaints(self._delete_unused())

    def unmount(self, container_id: str) -> None:
        """Remove a container's root file system. Also remove images that were hidden until no container uses them."""
        self.snapshots.unmount(container_id)
        with self._lock:
            self._log_complaints(self._delete_unused())

    # --- implementation ---

    def _is_complete(self, identity: str) -> bool:
        return identity in self._image_by_id and identity not in self._half_removed

    def _check_complete(self, image: Image) -> None:
        if image.id not in self._image_by_id:
            raise NotFound("image", image.id)
        if image.id in self._half_removed:
            raise EngineError(f"image {image.id} is only partly removed. Pull it again")

    def _stack(self, image: Image) -> Stack:
        """Return the folders with the files of an image."""
        chain = self._image_by_id[image.id].chain_ids
        return Stack(self._image_folder(image.id), ["rootfs"]) if chain is None else self._layers.stack(chain)

    def _used_images(self) -> set[str]:
        """Return the ids of the images that containers use, or will use when they are mounted."""
        return {*self.snapshots.images().values(), *self._mount_counts}

    @staticmethod
    def _log_complaints(complaints: Sequence[str]) -> None:
        for complaint in complaints:
            _log.warning("%s", complaint)

    def _used_layers(self, except_image: str = "") -> set[str]:
        """Return the layers that are listed in the records of images, including removed images."""
        images = [image for image in self._image_by_id.values() if image.id != except_image]
        return {chain_id for image in images for chain_id in image.chain_ids or ()}

    def _hide_image(self, identity: str) -> None:
        """Hide an image from this and later engines. Its files stay. Raises OSError if that fails.

        The record is renamed within its folder, which works on a full disk.
        """
        folder = self._image_folder(identity)
        with suppress(FileNotFoundError):  # an earlier removal did this
            os.rename(folder / _RECORD, folder / _REMOVED)
            sync_folder(folder)
        self._removed.add(identity)
        self._names = {name: target for name, target in self._names.items() if target != identity}
        try:
            self._write_names(self._names)
        except OSError as error:  # a full disk; names without an image are ignored when they are read
            _log.warning("%s cannot be written: %s", self.root / "names.json", error.strerror)

    def _delete(self, identity: str) -> None:
        """Remove the files of a hidden image, then forget it. Raises OSError if that fails."""
        self._removed.discard(identity)
        self._half_removed.add(identity)  # so that the image is listed again if this fails
        used = self._used_layers(except_image=identity)
        for chain_id in reversed(self._image_by_id[identity].chain_ids or ()):
            self._layers.remove(chain_id, used)
        remove_tree(self._image_folder(identity) / "rootfs")  # the record goes last, so that it survives a crash
        remove_tree(self._image_folder(identity))
        self._half_removed.discard(identity)
        self._image_by_id.pop(identity, None)

    def _delete_unused(self) -> Sequence[str]:
        """Remove hidden images that no container uses. Returns a line for each failure."""
        complaints = []
        if not self._removed:
            return ()
        for identity in self._removed - self._used_images():
            try:
                self._delete(identity)
            except OSError as error:
                complaints.append(f"image {identity} is not removed: {error}")
        return complaints

    def _remove_or_set_aside(self, path: Path) -> str:
        """Remove a file or folder, or set it aside if that fails. Returns a line about the failure, or ""."""
        aside = self.root / "broken"
        try:
            remove_tree(path)
        except OSError as error:
            try:
                place = path if path.parent == aside else set_aside(path, aside)
            except OSError:
                place = path
            return f"{path} cannot be removed: {error}; its files are in {place}"
        return ""

    def _find(self, name: str) -> str:
        present = {identity for identity in self._image_by_id if identity not in self._removed}
        bare = name.removeprefix("sha256:")
        if f"sha256:{bare}" in present:
            return f"sha256:{bare}"
        for local_name in self.transport.registries.local_names(name):
            try:
                reference = parse_reference(local_name)
            except InvalidRequest:
                continue
            for candidate in (reference.pullable, f"{reference.repository}:{reference.tag}"):
                if self._names.get(candidate) in present:
                    return self._names[candidate]
        matches = [
            candidate
            for candidate in present
            if len(bare) >= _MIN_PREFIX_LENGTH and candidate.startswith(f"sha256:{bare}")
        ]
        if len(matches) != 1:
            raise NotFound("image", name)
        return matches[0]

    def _with_names(self, image: Image) -> Image:
        names = sorted(name for name, identity in self._names.items() if identity == image.id)
        tags = tuple(name for name in names if "@" not in name)
        digests = tuple(name for name in names if "@" in name)
        return replace(image, repo_tags=tags, repo_digests=digests)

    def _image_folder(self, identity: str) -> Path:
        if not DIGEST.fullmatch(identity):
            raise InvalidRequest(f"{identity!r} is not an image id")
        return self._images / identity.partition(":")[2]

    def _write_names(self, names: dict[str, str]) -> None:
        write_whole(self.root / "names.json", json.dumps({"names": names}, sort_keys=True).encode())

    def _load(self) -> Sequence[str]:
        """Load the images, and remove the remains of a crash. A broken image does not prevent loading others."""
        complaints = []
        end_leftovers(self._pulls)
        detach_below(self._pulls)
        for folder in (self.root / "broken", self._pulls):
            if folder.exists():
                complaints += [self._remove_or_set_aside(path) for path in folder.iterdir()]
        for folder in sorted(self._images.iterdir()):
            try:
                self._load_image(folder)
            except (OSError, ValueError, TypeError, EngineError) as error:
                complaints += [
                    f"{folder}: {error}; the image was removed and has to be pulled again",
                    self._remove_or_set_aside(folder),
                ]
        try:
            data = parse_json(read_regular(self.root / "names.json", _FILE_BYTES))
            self._names = {name: identity for name, identity in data["names"].items() if identity in self._image_by_id}
        except FileNotFoundError:
            pass  # a new store
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            complaints.append(f"{self.root / 'names.json'}: {error}; the images are kept without names")
        complaints += self._delete_unused()
        complaints += self._layers.remove_unused(self._used_layers())
        return [*filter(None, complaints)]

    def _load_image(self, folder: Path) -> None:
        removed = (folder / _REMOVED).exists()
        image = Image(**parse_json(read_regular(folder / (_REMOVED if removed else _RECORD), _FILE_BYTES)))
        container_config({"config": image.config}, image.id)
        if self._image_folder(image.id) != folder:
            raise ValueError(f"the folder contains the record of {image.id}")
        if not (isinstance(image.size_bytes, int) and isinstance(image.inodes, int)):
            raise TypeError("size_bytes and inodes must be numbers")
        if image.chain_ids is not None:
            chain = tuple(image.chain_ids)
            if not all(DIGEST.fullmatch(chain_id) for chain_id in chain):
                raise ValueError("chain_ids has an entry that is not a chain ID")
            if not removed and (missing := self._layers.missing(chain)):
                raise ValueError(f"its layer {missing[0]} is missing")
            image = replace(image, chain_ids=chain)
        self._image_by_id[image.id] = image
        if removed:
            self._removed.add(image.id)

    @contextmanager
    def _pull(self, name: str, registry: str) -> Iterator[tuple[Path, PullTimer]]:
        """Create a temporary folder and the deadlines of a pull. Raises TooMany if other pulls take too long."""
        timer = self.transport.timer(name)
        with self._key_locks.hold(name, self.wait_s), self._slots.hold(name, registry, timer, self.wait_s):
            folder = Path(tempfile.mkdtemp(dir=self._pulls))
            try:
                yield folder, timer
            finally:
                if complaint := self._remove_or_set_aside(folder):
                    _log.warning("%s", complaint)
