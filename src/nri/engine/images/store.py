"""The images of this node: pulled, listed, removed, and mounted for containers.

An image is its configuration's digest; names point to ids in one file that is replaced whole. A pull works in a
folder of its own and renames it at the end. Two pulls of one image do the work once. The files that a
container uses stay on the disk until the container is gone, though its name is not listed any more.
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
from nri.engine.images.room import Limits, Room
from nri.engine.images.snapshots import Snapshots
from nri.engine.images.transport import OnProgress, Transport
from nri.engine.images.unpack import LayoutImage, in_place_of, read_layout, unpack
from nri.engine.support.command import end_left
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

_SHORTEST_PREFIX = 6
#: So many pulls at a time; the others wait, so that a node's disk and memory are not given to pulls alone.
_AT_ONCE = 4
#: So long they wait, in seconds, before they fail by name: what is under way may be slow on purpose.
_WAIT_S = 300.0
#: The record in an image's folder, and its name once the image is removed while containers use it.
_RECORD, _REMOVED = "image.json", "removed.json"
#: The longest of these files: a configuration is 4 MiB at most, and its record half as long again, escaped.
_FILE_BYTES = 1 << 26
_log = logging.getLogger(__name__)
#: Lists of manifests in lists: one is usual, two are allowed for.
_DEEPEST_INDEX = 3
#: Manifests that are looked at for one image; each is a request of the registry.
_MOST_LISTED = 24


class ImageStore:
    """The images below `root`. Raises EngineError if the folder cannot be used."""

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
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._under_way: set[str] = set()
        self._names: dict[str, str] = {}
        #: Removed, and still used by containers; removed in part, because files of theirs cannot be.
        self._removed: set[str] = set()
        self._halves: set[str] = set()
        self._known: dict[str, Image] = {}
        self.complaints = self._load()

    # --- bringing images here ---

    def pull(self, reference: str, credentials: Credentials | None = None, progress: OnProgress | None = None) -> Image:
        """Bring an image from its registry. Raises InvalidRequest, NotFound, CommandFailed, CommandTimeout, TooMany."""
        name = parse_reference(reference)
        with self._busy.hold(str(name)), self._folder(str(name)) as folder:
            room = Room(str(name), self.root, self.limits)
            raw = self.transport.manifest(name.pullable, folder, credentials)
            digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            if name.digest and digest != name.digest:
                raise EngineError(f"the registry sent {digest} for {name}")
            pinned, manifest = self._for_this_machine(name, digest, parse(raw, str(name)), folder, credentials)
            identity, found = config_digest(manifest, str(name)), layers(manifest, str(name))
            names = [f"{name.repository}@{digest}", *([f"{name.repository}:{name.tag}"] if name.tag else [])]
            with self._busy.hold(identity):
                if identity not in self._known or identity in self._halves:
                    self._need_room(found.size_bytes, str(name))
                    self.transport.copy(
                        pinned, folder / "layout", folder, credentials, progress, found.size_bytes, room.for_bytes
                    )
                    there = read_layout(folder / "layout", str(name))
                    if there.id != identity:  # skopeo has made OCI's configuration of one in Docker's format
                        raw = self.transport.manifest(pinned, folder, credentials, of_config=True)
                        there = in_place_of(there, identity, raw, str(name))
                    self._keep(folder, there, room)
                elif (known := self._known[identity].layers) not in (None, found.number):
                    raise InvalidRequest(
                        f"image {name}: its manifest has {found.number} layers and its configuration {known}"
                    )
                return self._name(identity, names)

    def _for_this_machine(
        self, name: Reference, digest: str, manifest: dict[str, Any], folder: Path, credentials: Credentials | None
    ) -> tuple[str, dict[str, Any]]:
        """The manifest for this machine, and its name by digest, through lists and lists in them: the first that fits.

        How deep lists are and how much is read of them is bounded: each costs a request of the registry.
        """
        waiting, others, read = [(Listed(digest, sure=True), 1)], list[str](), 0
        while waiting:
            listed, depth = waiting.pop()
            pinned = f"{name.repository}@{listed.digest}"
            if read == _MOST_LISTED:
                raise InvalidRequest(f"image {name}: none of {_MOST_LISTED} manifests in its lists is for this machine")
            if read:
                manifest = self._listed(pinned, name, folder, credentials)
            read += 1
            if is_index(manifest, str(name)):
                if depth > _DEEPEST_INDEX:
                    raise InvalidRequest(f"image {name}: lists of manifests in lists, more than {_DEEPEST_INDEX} deep")
                fitting, rest = for_this_machine(manifest, str(name))
                waiting += [(each, depth + 1) for each in reversed(fitting)]
                others += rest
                continue
            other = "" if listed.sure else self._other_machine(pinned, name, folder, credentials)
            if not other:
                return pinned, manifest
            others.append(other)
        raise not_for_this_machine(str(name), others)

    def _listed(self, pinned: str, name: Reference, folder: Path, credentials: Credentials | None) -> dict[str, Any]:
        raw = self.transport.manifest(pinned, folder, credentials)
        if "sha256:" + hashlib.sha256(raw).hexdigest() != pinned.rpartition("@")[2]:
            raise EngineError(f"the registry sent something else for {pinned}")
        return parse(raw, str(name))

    def _other_machine(self, pinned: str, name: Reference, folder: Path, credentials: Credentials | None) -> str:
        """For which other machine a manifest is whose list does not say; "" if it is for this one."""
        raw = self.transport.manifest(pinned, folder, credentials, of_config=True)
        return other_machine(parse(raw, str(name)), str(name))

    def load(self, source: str, reference: str, progress: OnProgress | None = None) -> Image:
        """Bring an image from an archive or a layout: ``oci-archive:/path[:name]``, or ``docker-archive:``, ``oci:``.

        For operators, never for a request's own text: a path is read as whom the engine runs as.
        """
        name = parse_reference(reference)
        if not source.startswith(("oci-archive:/", "docker-archive:/", "oci:/")):
            raise InvalidRequest(
                f"{source!r} is no archive: write oci-archive:, docker-archive: or oci: and a whole path"
            )
        with self._busy.hold(str(name)), self._folder(str(name)) as folder:
            room = Room(str(name), self.root, self.limits)
            self.transport.copy(source, folder / "layout", folder, progress=progress, on_size=room.for_bytes)
            found = read_layout(folder / "layout", str(name))
            with self._busy.hold(found.id):
                if found.id not in self._known or found.id in self._halves:
                    self._keep(folder, found, room)
                names = [f"{name.repository}@{found.manifest_digest}", f"{name.repository}:{name.tag}"]
                return self._name(found.id, names)

    def _need_room(self, size_bytes: int, name: str) -> None:
        free = shutil.disk_usage(self.root).free
        if size_bytes > free:
            raise EngineError(f"no space left for {name}: it is {size_bytes} bytes, and {self.root} has {free}")

    def _keep(self, folder: Path, found: LayoutImage, room: Room) -> None:
        """Unpack what was brought, and make it part of the store with one rename."""
        identity, made = found.id, folder / "image"
        made.mkdir()
        used = unpack(folder / "layout", made / "rootfs", room, self.umoci)
        count = len(found.diff_ids)
        image = Image(identity, (), (), used.size_bytes, used.inodes, found.config, time.time_ns(), count)
        row = {"id": identity, "size_bytes": image.size_bytes, "inodes": image.inodes, "config": found.config,
               "pulled_at_ns": image.pulled_at_ns, "layers": count}  # fmt: skip
        write_whole(made / _RECORD, json.dumps(row).encode())
        with self._lock:
            target = self._place(identity)
            self._clear_away(target)
            rename_into(made, target)
            self._known[identity] = image
            self._removed.discard(identity)
            self._halves.discard(identity)

    def _name(self, identity: str, names: Sequence[str]) -> Image:
        with self._lock:
            wanted = {**self._names, **dict.fromkeys(names, identity)}
            self._write_names(wanted)
            if identity in self._removed:
                os.rename(self._place(identity) / _REMOVED, self._place(identity) / _RECORD)
            self._names = wanted
            self._removed.discard(identity)
            return self._with_names(self._known[identity])

    # --- asking ---

    def list(self) -> Sequence[Image]:
        """All images, the newest first."""
        with self._lock:
            found = [self._with_names(image) for image in self._known.values() if image.id not in self._removed]
        return sorted(found, key=lambda image: -image.pulled_at_ns)

    def get(self, name: str) -> Image:
        """The image of a name, an id or the beginning of one. Raises NotFound."""
        with self._lock:
            return self._with_names(self._known[self._find(name)])

    def accounts(self, image: Image) -> tuple[str, str]:
        """The texts of an image's /etc/passwd and /etc/group, each "" if it has none. Raises NotFound, EngineError."""
        with self._lock:  # so that it is not removed meanwhile, and half an image has no users
            self._check_whole(image)
            rootfs = self._place(image.id) / "rootfs"
            return account_file(rootfs, "etc/passwd"), account_file(rootfs, "etc/group")

    def fs_info(self) -> Usage:
        """The room that all images take, also those that are only there for a container that runs."""
        with self._lock:
            rows = [*self._known.values()]
        return Usage(sum(row.size_bytes for row in rows), sum(row.inodes for row in rows))

    # --- removing ---

    def remove(self, name: str) -> None:
        """Remove an image with all its names; one that is not there is no error (CRI RemoveImage).

        One whose files cannot be removed stays in the list, and can be pulled or removed again. Raises EngineError.
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
        """The root file system of a container over an image, mounted; its ids mapped, if so. NotFound, EngineError."""
        with self._lock:
            self._check_whole(image)
            lower = self._place(image.id) / "rootfs"
            if self.snapshots.driver == "overlay":
                return self.snapshots.mount(lower, container_id, image.id, mapping)
        return self.snapshots.mount(lower, container_id, image.id, mapping)  # a copy takes long, and the others go on

    def unmount(self, container_id: str) -> None:
        """Take a container's root file system away, and its image if that was removed meanwhile."""
        self.snapshots.unmount(container_id)
        with self._lock:
            for complaint in self._delete_unused():
                _log.warning("%s", complaint)

    # --- inside ---

    def _check_whole(self, image: Image) -> None:
        if image.id not in self._known:
            raise NotFound("image", image.id)
        if image.id in self._halves:
            raise EngineError(f"image {image.id} is half removed: pull it again")

    def _retire(self, identity: str) -> None:
        """Take an image out of sight, for the next engine as well; its files stay. Raises OSError.

        Its record gets another name in its own folder, which needs no room on the disk.
        """
        folder = self._place(identity)
        with suppress(FileNotFoundError):  # an earlier removal got so far
            os.rename(folder / _RECORD, folder / _REMOVED)
            sync_folder(folder)
        self._removed.add(identity)
        self._names = {each: target for each, target in self._names.items() if target != identity}
        try:
            self._write_names(self._names)
        except OSError as error:  # a full disk; a name that leads to no image is passed over when they are read
            _log.warning("%s cannot be written: %s", self.root / "names.json", error.strerror)

    def _delete(self, identity: str) -> None:
        """Remove the files of an image that is out of sight, then forget it. Raises OSError."""
        self._removed.discard(identity)
        self._halves.add(identity)  # and listed again if this fails, so that it is not forgotten
        remove_tree(self._place(identity) / "rootfs")  # its record goes last: a kill leaves that
        remove_tree(self._place(identity))
        self._halves.discard(identity)
        self._known.pop(identity, None)

    def _delete_unused(self) -> Sequence[str]:
        """Remove what no container uses any more; returns a line for each image that cannot be."""
        complaints = []
        if not self._removed:
            return ()
        for identity in self._removed - set(self.snapshots.images().values()):
            try:
                self._delete(identity)
            except OSError as error:
                complaints.append(f"image {identity} is not removed: {error}")
        return complaints

    def _clear_away(self, path: Path) -> str:
        """Remove what is not needed, or set it aside if it cannot be; returns a line about that, or ""."""
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
            raise NotFound("image", name)
        return found[0]

    def _with_names(self, image: Image) -> Image:
        names = sorted(name for name, identity in self._names.items() if identity == image.id)
        tags = tuple(name for name in names if "@" not in name)
        digests = tuple(name for name in names if "@" in name)
        return Image(image.id, tags, digests, image.size_bytes, image.inodes, image.config, image.pulled_at_ns,
                     image.layers)  # fmt: skip

    def _place(self, identity: str) -> Path:
        if not DIGEST.fullmatch(identity):
            raise InvalidRequest(f"{identity!r} is no image's id")
        return self._images / identity.partition(":")[2]

    def _write_names(self, names: dict[str, str]) -> None:
        write_whole(self.root / "names.json", json.dumps({"names": names}, sort_keys=True).encode())

    def _load(self) -> Sequence[str]:
        """Read what is there, and remove what a kill left. A broken image keeps no other from being there."""
        complaints = []
        end_left(self._pulls)
        for folder in (self.root / "broken", self._pulls):
            if folder.exists():
                complaints += [self._clear_away(left) for left in folder.iterdir()]
        for folder in sorted(self._images.iterdir()):
            try:
                self._load_image(folder)
            except (OSError, ValueError, TypeError, EngineError) as error:
                complaints += [f"{folder}: {error}; removed, it has to be pulled again", self._clear_away(folder)]
        try:
            data = parse_json(read_regular(self.root / "names.json", _FILE_BYTES))
            self._names = {name: identity for name, identity in data["names"].items() if identity in self._known}
        except FileNotFoundError:
            pass  # a new store
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            complaints.append(f"{self.root / 'names.json'}: {error}; the images are there without names")
        return [*filter(None, complaints), *self._delete_unused()]

    def _load_image(self, folder: Path) -> None:
        removed = (folder / _REMOVED).exists()
        image = Image(**parse_json(read_regular(folder / (_REMOVED if removed else _RECORD), _FILE_BYTES)))
        container_config({"config": image.config}, image.id)
        if self._place(image.id) != folder:
            raise ValueError(f"it holds {image.id}")
        self._known[image.id] = image
        if removed:
            self._removed.add(image.id)

    @contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        """A folder of one pull, gone with it. Raises TooMany if others take too long."""
        if not self._slots.acquire(timeout=self.wait_s):
            others = ", ".join(sorted(self._under_way.copy()))
            raise TooMany(f"pulls for {name} to begin, these are under way: {others}", _AT_ONCE)
        try:
            self._under_way.add(name)
            folder = Path(tempfile.mkdtemp(dir=self._pulls))
            try:
                yield folder
            finally:
                if complaint := self._clear_away(folder):
                    _log.warning("%s", complaint)
        finally:
            self._under_way.discard(name)
            self._slots.release()


class KeyLocks:
    """One lock for each name that is being worked on: one at a time, and other names go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Have the lock of this name inside the block."""
        with self._lock:
            lock, waiting = self._held.get(key, (threading.Lock(), 0))
            self._held[key] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._held.pop(key)
                if waiting > 1:
                    self._held[key] = (lock, waiting - 1)
