"""The images of this node: pull, list and remove them, and mount them for containers.

An image's id is the digest of its configuration; one file maps names to ids. Concurrent pulls of one image do the work
once. A removed image is no longer listed, but its files stay until no container uses them.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.engine.images.image import Image, account_file
from nri.engine.images.manifest import (
    Listed,
    config_digest,
    container_config,
    for_this_machine,
    is_index,
    layers,
    not_for_this_machine,
    other_machine,
    parse,
)
from nri.engine.images.mapping import Mapping
from nri.engine.images.reference import DIGEST, Reference, parse_reference
from nri.engine.images.registries import Credentials
from nri.engine.images.snapshots import Snapshots
from nri.engine.images.space_budget import Limits, SpaceBudget
from nri.engine.images.transport import OnProgress, Transport
from nri.engine.images.unpack import LayoutImage, read_layout, unpack, with_registry_config
from nri.engine.support.command import end_leftovers
from nri.engine.support.errors import EngineError, InvalidRequest, NotFound, TooMany
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
#: The most pulls at a time; others wait, so that pulls do not take all of the node's disk and memory bandwidth.
_MAX_PULLS = 4
#: How long they wait before they fail, in seconds: running pulls may be slow on purpose.
_WAIT_S = 300.0
#: The record in an image's folder, and its name after the image was removed while containers use it.
_RECORD, _REMOVED = "image.json", "removed.json"
#: The longest of these files: a configuration has at most 4 MiB, and more in its record, where it is escaped.
_FILE_BYTES = 1 << 26
_log = logging.getLogger(__name__)
#: The most nested lists of manifests; one is usual.
_MAX_INDEX_DEPTH = 3
#: The most manifests to check for one image; each is a request to the registry.
_MAX_LISTED = 24


class ImageStore:
    """The images below `root`. EngineError if the folder cannot be used."""

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
        self.limits, self.wait_s = limits or Limits(), _WAIT_S
        self.snapshots = Snapshots(root / "snapshots", driver)
        self._images = private_folder(root / "images")
        self._pulls = private_folder(root / "pulls")
        self._lock = threading.RLock()
        self._busy = KeyLocks()
        self._slots = threading.BoundedSemaphore(_MAX_PULLS)
        self._under_way: set[str] = set()
        self._names: dict[str, str] = {}
        #: Removed images that containers still use, and images whose removal failed halfway.
        self._removed: set[str] = set()
        self._half_removed: set[str] = set()
        self._image_by_id: dict[str, Image] = {}
        self.complaints = self._load()

    # --- pulling ---

    def pull(self, reference: str, credentials: Credentials | None = None, progress: OnProgress | None = None) -> Image:
        """Pull an image from its registry. Raises InvalidRequest, NotFound, CommandFailed, CommandTimeout, TooMany."""
        name = parse_reference(reference)
        with self._busy.hold(str(name)), self._folder(str(name)) as folder:
            budget = SpaceBudget(str(name), self.root, self.limits)
            raw = self.transport.manifest(name.pullable, folder, credentials)
            digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            if name.digest and digest != name.digest:
                raise EngineError(f"the registry sent {digest} for {name}")
            pinned, manifest = self._for_this_machine(name, digest, parse(raw, str(name)), folder, credentials)
            identity, manifest_layers = config_digest(manifest, str(name)), layers(manifest, str(name))
            names = [f"{name.repository}@{digest}", *([f"{name.repository}:{name.tag}"] if name.tag else [])]
            with self._busy.hold(identity):
                if identity not in self._image_by_id or identity in self._half_removed:
                    self._check_free_space(manifest_layers.size_bytes, str(name))
                    self.transport.copy(
                        pinned,
                        folder / "layout",
                        folder,
                        credentials,
                        progress,
                        manifest_layers.size_bytes,
                        budget.check_bytes,
                    )
                    layout_image = read_layout(folder / "layout", str(name))
                    if layout_image.id != identity:  # skopeo has converted a configuration in Docker's format to OCI's
                        raw = self.transport.manifest(pinned, folder, credentials, of_config=True)
                        layout_image = with_registry_config(layout_image, identity, raw, str(name))
                    self._keep(folder, layout_image, budget)
                elif (known_layers := self._image_by_id[identity].layers) not in (None, manifest_layers.number):
                    raise InvalidRequest(
                        f"image {name}: its manifest has {manifest_layers.number} layers, its configuration "
                        f"{known_layers}"
                    )
                return self._name(identity, names)

    def _for_this_machine(
        self, name: Reference, digest: str, manifest: dict[str, Any], folder: Path, credentials: Credentials | None
    ) -> tuple[str, dict[str, Any]]:
        """The first fitting manifest for this machine, found through nested lists, and its name by digest."""
        pending, other_platforms, requests = [(Listed(digest, sure=True), 1)], list[str](), 0
        while pending:
            listed, depth = pending.pop()
            pinned = f"{name.repository}@{listed.digest}"
            if requests == _MAX_LISTED:
                raise InvalidRequest(f"image {name}: none of {_MAX_LISTED} manifests in its lists is for this machine")
            if requests:
                manifest = self._listed(pinned, name, folder, credentials)
            requests += 1
            if is_index(manifest, str(name)):
                if depth > _MAX_INDEX_DEPTH:
                    raise InvalidRequest(
                        f"image {name}: lists of manifests are nested more than {_MAX_INDEX_DEPTH} deep"
                    )
                fitting, rejected = for_this_machine(manifest, str(name))
                pending += [(entry, depth + 1) for entry in reversed(fitting)]
                other_platforms += rejected
                continue
            other_platform = "" if listed.sure else self._other_machine(pinned, name, folder, credentials)
            if not other_platform:
                return pinned, manifest
            other_platforms.append(other_platform)
        raise not_for_this_machine(str(name), other_platforms)

    def _listed(self, pinned: str, name: Reference, folder: Path, credentials: Credentials | None) -> dict[str, Any]:
        raw = self.transport.manifest(pinned, folder, credentials)
        if "sha256:" + hashlib.sha256(raw).hexdigest() != pinned.rpartition("@")[2]:
            raise EngineError(f"the registry sent another document for {pinned}")
        return parse(raw, str(name))

    def _other_machine(self, pinned: str, name: Reference, folder: Path, credentials: Credentials | None) -> str:
        """The other machine that a manifest is for, by its configuration; "" if it is for this one."""
        raw = self.transport.manifest(pinned, folder, credentials, of_config=True)
        return other_machine(parse(raw, str(name)), str(name))

    def load(self, source: str, reference: str, progress: OnProgress | None = None) -> Image:
        """Load an image from ``oci-archive:/path[:name]``, ``docker-archive:`` or ``oci:``, a layout.

        Only for operators, never for paths in requests: the path is read with the engine's rights.
        """
        name = parse_reference(reference)
        if not source.startswith(("oci-archive:/", "docker-archive:/", "oci:/")):
            raise InvalidRequest(
                f"{source!r} is not an archive: write oci-archive:, docker-archive: or oci: and an absolute path"
            )
        with self._busy.hold(str(name)), self._folder(str(name)) as folder:
            budget = SpaceBudget(str(name), self.root, self.limits)
            self.transport.copy(source, folder / "layout", folder, progress=progress, on_size=budget.check_bytes)
            layout_image = read_layout(folder / "layout", str(name))
            with self._busy.hold(layout_image.id):
                if layout_image.id not in self._image_by_id or layout_image.id in self._half_removed:
                    self._keep(folder, layout_image, budget)
                names = [f"{name.repository}@{layout_image.manifest_digest}", f"{name.repository}:{name.tag}"]
                return self._name(layout_image.id, names)

    def _check_free_space(self, size_bytes: int, name: str) -> None:
        free = shutil.disk_usage(self.root).free
        if size_bytes > free:
            raise EngineError(f"no space left for {name}: it has {size_bytes} bytes, {self.root} has {free} free")

    def _keep(self, folder: Path, layout_image: LayoutImage, budget: SpaceBudget) -> None:
        """Unpack a pulled image, and add it to the store by one rename."""
        identity, image_folder = layout_image.id, folder / "image"
        image_folder.mkdir()
        usage = unpack(folder / "layout", image_folder / "rootfs", budget, self.umoci)
        count = len(layout_image.diff_ids)
        image = Image(identity, (), (), usage.size_bytes, usage.inodes, layout_image.config, time.time_ns(), count)
        row = {"id": identity, "size_bytes": image.size_bytes, "inodes": image.inodes, "config": layout_image.config,
               "pulled_at_ns": image.pulled_at_ns, "layers": count}  # fmt: skip
        write_whole(image_folder / _RECORD, json.dumps(row).encode())
        with self._lock:
            target = self._place(identity)
            self._discard(target)
            rename_into(image_folder, target)
            self._image_by_id[identity] = image
            self._removed.discard(identity)
            self._half_removed.discard(identity)

    def _name(self, identity: str, names: Sequence[str]) -> Image:
        with self._lock:
            new_names = {**self._names, **dict.fromkeys(names, identity)}
            self._write_names(new_names)
            if identity in self._removed:
                os.rename(self._place(identity) / _REMOVED, self._place(identity) / _RECORD)
            self._names = new_names
            self._removed.discard(identity)
            return self._with_names(self._image_by_id[identity])

    # --- queries ---

    def list(self) -> Sequence[Image]:
        """All images, the newest first."""
        with self._lock:
            images = [self._with_names(image) for image in self._image_by_id.values() if image.id not in self._removed]
        return sorted(images, key=lambda image: -image.pulled_at_ns)

    def get(self, name: str) -> Image:
        """The image with a name, an id or a prefix of an id. Raises NotFound."""
        with self._lock:
            return self._with_names(self._image_by_id[self._find(name)])

    def accounts(self, image: Image) -> tuple[str, str]:
        """The texts of an image's /etc/passwd and /etc/group, each "" if missing. Raises NotFound, EngineError."""
        with self._lock:  # so that it is not removed meanwhile: half an image has no users
            self._check_complete(image)
            rootfs = self._place(image.id) / "rootfs"
            return account_file(rootfs, "etc/passwd"), account_file(rootfs, "etc/group")

    def fs_info(self) -> Usage:
        """The disk space of all images, including removed ones that a container still uses."""
        with self._lock:
            rows = [*self._image_by_id.values()]
        return Usage(sum(row.size_bytes for row in rows), sum(row.inodes for row in rows))

    # --- removing ---

    def remove(self, name: str) -> None:
        """Remove an image with all its names; no effect if there is none (the CRI's RemoveImage).

        If its files cannot be removed, it stays in the list, and can be pulled or removed again. Raises EngineError.
        """
        with self._lock:
            try:
                identity = self._find(name)
            except NotFound:
                return
            try:
                self._retire(identity)
                if identity not in self.snapshots.images().values():
                    self._delete(identity)
            except OSError as error:
                raise EngineError(f"image {identity} is not removed: {error}") from error

    # --- root file systems ---

    def mount(self, image: Image, container_id: str, mapping: Mapping | None = None) -> Path:
        """Mount the root file system of a container, with its IDs mapped if needed. Raises NotFound, EngineError."""
        with self._lock:
            self._check_complete(image)
            lower = self._place(image.id) / "rootfs"
            if self.snapshots.driver == "overlay":
                return self.snapshots.mount(lower, container_id, image.id, mapping)
        return self.snapshots.mount(
            lower, container_id, image.id, mapping
        )  # without the lock, because copying takes long

    def unmount(self, container_id: str) -> None:
        """Remove a container's root file system, and its image if that was removed meanwhile."""
        self.snapshots.unmount(container_id)
        with self._lock:
            for complaint in self._delete_unused():
                _log.warning("%s", complaint)

    # --- implementation ---

    def _check_complete(self, image: Image) -> None:
        if image.id not in self._image_by_id:
            raise NotFound("image", image.id)
        if image.id in self._half_removed:
            raise EngineError(f"image {image.id} is only half removed. Pull it again")

    def _retire(self, identity: str) -> None:
        """Hide an image, also from the next engine; its files stay. Raises OSError.

        Its record is renamed in its own folder, which works on a full disk.
        """
        folder = self._place(identity)
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
        """Remove the files of a hidden image, then forget it. Raises OSError."""
        self._removed.discard(identity)
        self._half_removed.add(identity)  # so that it is listed again if this fails
        remove_tree(self._place(identity) / "rootfs")  # the record goes last, so that it survives a crash
        remove_tree(self._place(identity))
        self._half_removed.discard(identity)
        self._image_by_id.pop(identity, None)

    def _delete_unused(self) -> Sequence[str]:
        """Remove hidden images that no container uses; returns a line for each failure."""
        complaints = []
        if not self._removed:
            return ()
        for identity in self._removed - set(self.snapshots.images().values()):
            try:
                self._delete(identity)
            except OSError as error:
                complaints.append(f"image {identity} is not removed: {error}")
        return complaints

    def _discard(self, path: Path) -> str:
        """Remove a file or folder, or set it aside if that fails; returns a line about the failure, or ""."""
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
        try:
            reference = parse_reference(name)
        except InvalidRequest:
            reference = None
        if reference is not None:
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
        return Image(image.id, tags, digests, image.size_bytes, image.inodes, image.config, image.pulled_at_ns,
                     image.layers)  # fmt: skip

    def _place(self, identity: str) -> Path:
        if not DIGEST.fullmatch(identity):
            raise InvalidRequest(f"{identity!r} is not an image id")
        return self._images / identity.partition(":")[2]

    def _write_names(self, names: dict[str, str]) -> None:
        write_whole(self.root / "names.json", json.dumps({"names": names}, sort_keys=True).encode())

    def _load(self) -> Sequence[str]:
        """Load the images, and remove the remains of a crash. A broken image does not prevent loading others."""
        complaints = []
        end_leftovers(self._pulls)
        for folder in (self.root / "broken", self._pulls):
            if folder.exists():
                complaints += [self._discard(path) for path in folder.iterdir()]
        for folder in sorted(self._images.iterdir()):
            try:
                self._load_image(folder)
            except (OSError, ValueError, TypeError, EngineError) as error:
                complaints += [f"{folder}: {error}; it was removed and has to be pulled again", self._discard(folder)]
        try:
            data = parse_json(read_regular(self.root / "names.json", _FILE_BYTES))
            self._names = {name: identity for name, identity in data["names"].items() if identity in self._image_by_id}
        except FileNotFoundError:
            pass  # a new store
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            complaints.append(f"{self.root / 'names.json'}: {error}; the images are kept without names")
        return [*filter(None, complaints), *self._delete_unused()]

    def _load_image(self, folder: Path) -> None:
        removed = (folder / _REMOVED).exists()
        image = Image(**parse_json(read_regular(folder / (_REMOVED if removed else _RECORD), _FILE_BYTES)))
        container_config({"config": image.config}, image.id)
        if self._place(image.id) != folder:
            raise ValueError(f"it contains the record of {image.id}")
        self._image_by_id[image.id] = image
        if removed:
            self._removed.add(image.id)

    @contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        """A temporary folder for one pull. TooMany if other pulls take too long."""
        if not self._slots.acquire(timeout=self.wait_s):
            running = ", ".join(sorted(self._under_way.copy()))
            raise TooMany(f"pulls to start {name}; running pulls: {running}", _MAX_PULLS)
        try:
            self._under_way.add(name)
            folder = Path(tempfile.mkdtemp(dir=self._pulls))
            try:
                yield folder
            finally:
                if complaint := self._discard(folder):
                    _log.warning("%s", complaint)
        finally:
            self._under_way.discard(name)
            self._slots.release()


class KeyLocks:
    """One lock per name, so that work on different names runs in parallel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Hold the lock of a name inside the block."""
        with self._lock:
            lock, waiting = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._locks.pop(key)
                if waiting > 1:
                    self._locks[key] = (lock, waiting - 1)
