"""The images of this node: pulled, listed, removed, and mounted for containers.

Rules: an image is its configuration's digest; names point to ids in one file that is replaced whole. A pull works in a
folder of its own and renames it at the end. Two pulls of one image do the work once. What a container uses stays on the
disk until the container is gone, though its name is not listed any more.
Next: :mod:`nri.engine.images.snapshots`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nri.engine.images.image import Image
from nri.engine.images.mapping import Mapping
from nri.engine.images.reference import DIGEST, parse_reference
from nri.engine.images.registries import Credentials
from nri.engine.images.snapshots import Snapshots
from nri.engine.images.transport import OnProgress, Transport
from nri.engine.images.unpack import Usage, choose_platform, read_layout, tree_usage, unpack
from nri.engine.support.command import end_left
from nri.engine.support.errors import EngineError, InvalidRequest, NotThere
from nri.engine.support.files import private_folder, remove_tree, rename_into, sync_folder, write_whole
from nri.engine.support.locks import KeyLocks

__all__ = ["ImageStore"]

_SHORTEST_PREFIX = 6
#: So many pulls at a time; the others wait, so that a node's disk and memory are not given to pulls alone.
_AT_ONCE = 4


class ImageStore:
    """The images below `root`. Raises EngineError if the folder cannot be used."""

    def __init__(
        self, root: Path, transport: Transport | None = None, *, umoci: str = "umoci", driver: str = "auto"
    ) -> None:
        self.root = private_folder(root)
        self.transport = transport or Transport()
        self.umoci = umoci
        self.snapshots = Snapshots(root / "snapshots", driver)
        self._images = private_folder(root / "images")
        self._pulls = private_folder(root / "pulls")
        self._lock = threading.RLock()
        self._busy = KeyLocks()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._names: dict[str, str] = {}
        self._removed: set[str] = set()
        self._known: dict[str, Image] = {}
        self.complaints = self._load()

    # --- bringing images here ---

    def pull(self, reference: str, credentials: Credentials | None = None, progress: OnProgress | None = None) -> Image:
        """Bring an image from its registry. Raises InvalidRequest, NotThere, CommandFailed, CommandTimeout."""
        name = parse_reference(reference)
        with self._busy.hold(str(name)), self._folder() as folder:
            raw = self.transport.manifest(name.pullable, folder, credentials)
            digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            if name.digest and digest != name.digest:
                raise EngineError(f"the registry sent {digest} for {name}")
            manifest = _manifest(raw, str(name))
            pinned = f"{name.repository}@{digest}"
            if chosen := choose_platform(manifest, str(name)):
                pinned = f"{name.repository}@{chosen}"
                manifest = _manifest(self.transport.manifest(pinned, folder, credentials), pinned)
            identity = _config_digest(manifest, str(name))
            names = [f"{name.repository}@{digest}", *([f"{name.repository}:{name.tag}"] if name.tag else [])]
            total = sum(int(row.get("size", 0)) for row in manifest.get("layers") or ())
            with self._busy.hold(identity):
                if identity not in self._known:
                    self._need_room(total, str(name))
                    self.transport.copy(pinned, folder / "layout", folder, credentials, progress, total)
                    self._keep(folder, identity)
                return self._name(identity, names)

    def load(self, source: str, reference: str, progress: OnProgress | None = None) -> Image:
        """Bring an image from an archive or a layout: ``oci-archive:/path[:name]``, or ``docker-archive:``, ``oci:``.

        For operators, never for a request's own text: a path is read as whom the engine runs as.
        """
        name = parse_reference(reference)
        if not source.startswith(("oci-archive:/", "docker-archive:/", "oci:/")):
            raise InvalidRequest(
                f"{source!r} is no archive: write oci-archive:, docker-archive: or oci: and a whole path"
            )
        with self._busy.hold(str(name)), self._folder() as folder:
            self.transport.copy(source, folder / "layout", folder, progress=progress)
            found = read_layout(folder / "layout")
            with self._busy.hold(found.config_digest):
                if found.config_digest not in self._known:
                    self._keep(folder, found.config_digest)
                names = [f"{name.repository}@{found.manifest_digest}", f"{name.repository}:{name.tag}"]
                return self._name(found.config_digest, names)

    def _need_room(self, size_bytes: int, name: str) -> None:
        free = shutil.disk_usage(self.root).free
        if size_bytes > free:
            raise EngineError(f"no space left for {name}: it is {size_bytes} bytes, and {self.root} has {free}")

    def _keep(self, folder: Path, identity: str) -> None:
        """Unpack what was brought, and make it part of the store with one rename."""
        layout, made = folder / "layout", folder / "image"
        made.mkdir()
        unpack(layout, made / "rootfs", self.umoci)
        config = read_layout(layout).config.get("config") or {}
        usage = tree_usage(made / "rootfs")
        image = Image(identity, (), (), usage.size_bytes, usage.inodes, config, time.time_ns())
        row = {"id": identity, "size_bytes": image.size_bytes, "inodes": image.inodes, "config": config,
               "pulled_at_ns": image.pulled_at_ns}  # fmt: skip
        write_whole(made / "image.json", json.dumps(row).encode())
        with self._lock:
            target = self._place(identity)
            remove_tree(target)
            rename_into(made, target)
            self._known[identity] = image
            self._removed.discard(identity)

    def _name(self, identity: str, names: Sequence[str]) -> Image:
        with self._lock:
            self._names.update(dict.fromkeys(names, identity))
            self._removed.discard(identity)
            self._write_names()
            return self._with_names(self._known[identity])

    # --- asking ---

    def list(self) -> Sequence[Image]:
        """All images, the newest first."""
        with self._lock:
            found = [self._with_names(image) for image in self._known.values() if image.id not in self._removed]
        return sorted(found, key=lambda image: -image.pulled_at_ns)

    def get(self, name: str) -> Image:
        """The image of a name, an id or the beginning of one. Raises NotThere."""
        with self._lock:
            return self._with_names(self._known[self._find(name)])

    def fs_info(self) -> Usage:
        """The room that all images take, also those that are only there for a container that runs."""
        with self._lock:
            rows = [*self._known.values()]
        return Usage(sum(row.size_bytes for row in rows), sum(row.inodes for row in rows))

    # --- removing ---

    def remove(self, name: str) -> None:
        """Remove an image with all its names; one that is not there is no error (CRI RemoveImage)."""
        with self._lock:
            try:
                identity = self._find(name)
            except NotThere:
                return
            self._names = {each: target for each, target in self._names.items() if target != identity}
            self._removed.add(identity)
            self._write_names()
            self._delete_unused()

    # --- root file systems ---

    def mount(self, image: Image, container_id: str, mapping: Mapping | None = None) -> Path:
        """The root file system of a container over an image, mounted; its ids mapped, if so. NotThere, EngineError."""
        with self._lock:
            if image.id not in self._known:
                raise NotThere("image", image.id)
            lower = self._place(image.id) / "rootfs"
            if self.snapshots.driver == "overlay":
                return self.snapshots.mount(lower, container_id, image.id, mapping)
        return self.snapshots.mount(lower, container_id, image.id, mapping)  # a copy takes long, and the others go on

    def unmount(self, container_id: str) -> None:
        """Take a container's root file system away, and its image if that was removed meanwhile."""
        self.snapshots.unmount(container_id)
        with self._lock:
            self._delete_unused()

    # --- inside ---

    def _delete_unused(self) -> None:
        if not self._removed:
            return
        used = set(self.snapshots.images().values())
        for identity in self._removed - used:
            # Out of sight first: a removal that is cut short leaves a folder without image.json's place in the store.
            doomed = self._pulls / f"removed-{identity.partition(':')[2]}"
            if self._place(identity).exists():
                rename_into(self._place(identity), doomed)
                sync_folder(self._images)
            remove_tree(doomed)
            self._known.pop(identity, None)
        self._removed &= used
        self._write_names()

    def _find(self, name: str) -> str:
        there = {identity for identity in self._known if identity not in self._removed}
        bare = name.removeprefix("sha256:")
        if f"sha256:{bare}" in there:
            return f"sha256:{bare}"
        try:
            reference = parse_reference(name)
        except InvalidRequest:
            reference = None
        if reference is not None:
            for each in (reference.pullable, f"{reference.repository}:{reference.tag}"):
                if self._names.get(each) in there:
                    return self._names[each]
        found = [each for each in there if len(bare) >= _SHORTEST_PREFIX and each.startswith(f"sha256:{bare}")]
        if len(found) != 1:
            raise NotThere("image", name)
        return found[0]

    def _with_names(self, image: Image) -> Image:
        names = sorted(name for name, identity in self._names.items() if identity == image.id)
        tags = tuple(name for name in names if "@" not in name)
        digests = tuple(name for name in names if "@" in name)
        return Image(image.id, tags, digests, image.size_bytes, image.inodes, image.config, image.pulled_at_ns)

    def _place(self, identity: str) -> Path:
        if not DIGEST.fullmatch(identity):
            raise InvalidRequest(f"{identity!r} is no image's id")
        return self._images / identity.partition(":")[2]

    def _write_names(self) -> None:
        data = {"names": self._names, "removed": sorted(self._removed)}
        write_whole(self.root / "names.json", json.dumps(data, sort_keys=True).encode())

    def _load(self) -> Sequence[str]:
        """Read what is there, and remove what a kill left."""
        complaints = []
        end_left(self._pulls)
        for left in self._pulls.iterdir():
            remove_tree(left)
        for folder in sorted(self._images.iterdir()):
            try:
                image = Image(**json.loads((folder / "image.json").read_bytes()))
                if self._place(image.id) != folder:
                    raise ValueError(f"it holds {image.id}")
                self._known[image.id] = image
            except (OSError, ValueError, TypeError, EngineError) as error:
                complaints.append(f"{folder}: {error}; removed, it has to be pulled again")
                remove_tree(folder)
        try:
            data = json.loads((self.root / "names.json").read_bytes())
            self._names = {name: identity for name, identity in data["names"].items() if identity in self._known}
            self._removed = set(data["removed"]) & set(self._known)
        except FileNotFoundError:
            pass  # a new store
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            complaints.append(f"{self.root / 'names.json'}: {error}; the images are there without names")
        self._delete_unused()
        return complaints

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """A folder of one pull, gone with it."""
        with self._slots:
            folder = Path(tempfile.mkdtemp(dir=self._pulls))
            try:
                yield folder
            finally:
                remove_tree(folder)


def _manifest(raw: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise EngineError(f"the registry's manifest of {name} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise EngineError(f"the registry's manifest of {name} is none")
    return found


def _config_digest(manifest: dict[str, Any], name: str) -> str:
    digest = (manifest.get("config") or {}).get("digest", "")
    if not DIGEST.fullmatch(str(digest)):
        raise InvalidRequest(f"{name} is no image that runs: its manifest has no configuration")
    return str(digest)
