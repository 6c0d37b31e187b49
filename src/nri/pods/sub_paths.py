"""The `subPath` of a volume mount, opened so that no link leads out of the volume.

A container of the pod can write to the volume and replace a folder by a link at any moment (CVE-2017-1002101). So the
path is resolved as the kubelet does, opened again without following links, and bound by its descriptor onto a target in
the pod's private folder, whose path the runtime gets.
Source: pkg/volume/util/subpath of Kubernetes 1.34.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nri.engine.support.kernel import MS_BIND, mount
from nri.errors import NriError
from nri.host.root import open_below
from nri.text import plain

_KEY = "volumeMounts.subPath"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SubPath:
    """A path in a volume that a container mounts.

    Attributes:
        volume: the path of the volume on this machine.
        path: the relative path in the volume, without ``..``.
        target: the path that the runtime gets: `FOLDER/CONTAINER/NUMBER`.
        place: file and line of the mount, for errors.
    """

    volume: str
    path: str
    target: str
    place: str


def bind(sub_path: SubPath) -> None:
    """Create the target and bind the path in the volume onto it. A missing path is created as a folder.

    Raises NriError if the path leads out of the volume, cannot be opened, or cannot be bound.
    """
    try:
        with ExitStack() as stack:
            base = _close_later(stack, os.open(sub_path.volume, os.O_PATH | os.O_CLOEXEC))
            try:
                inside = _path_inside(base, sub_path.path)
            except FileNotFoundError:
                _create(base, sub_path.path)
                inside = _path_inside(base, sub_path.path)
            part = _close_later(stack, open_below(_of_descriptor(base), inside, os.O_PATH, follow=False))
            _make_target(Path(sub_path.target), is_folder=stat.S_ISDIR(os.fstat(part).st_mode))
            mount(_of_descriptor(part), Path(sub_path.target), flags=MS_BIND)
    except OSError as error:
        raise NriError(f"{sub_path.place}: {_KEY}: {plain(sub_path.path)}: {_reason(error)}") from None


def _close_later(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _of_descriptor(descriptor: int) -> str:
    """A path to an open file that stays valid when the file is moved."""
    return f"/proc/self/fd/{descriptor}"


def _path_inside(base: int, path: str) -> str:
    """Resolve links in a path below an open folder. Raises OSError (EXDEV) if the path leads out of the folder.

    Links are followed as on this machine, so that an absolute link may lead back into a hostPath volume.
    """
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=base)
    try:
        top, end = (os.readlink(_of_descriptor(number)) for number in (base, descriptor))
    finally:
        os.close(descriptor)
    if end != top and not end.startswith(f"{top.rstrip('/')}/"):
        raise OSError(errno.EXDEV, f"leads out of the volume, to {plain(end)}")
    return os.path.relpath(end, top)


def _create(base: int, path: str) -> None:
    """Create the missing folders of a path below an open folder. As in the kubelet, they have that folder's mode."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    mode = stat.S_IMODE(os.fstat(base).st_mode)
    existing = "."
    while names:
        try:
            existing = _path_inside(base, f"{existing}/{names[0]}")
        except FileNotFoundError:
            break
        del names[0]
    folder = open_below(_of_descriptor(base), existing, _FOLDER, follow=False)
    try:
        for name in names:
            os.mkdir(name, 0o700, dir_fd=folder)
            parent, folder = folder, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(parent)
            os.fchmod(folder, mode)
    finally:
        os.close(folder)


def _make_target(target: Path, *, is_folder: bool) -> None:
    """Create the mount point: a folder for a folder, else a file."""
    target.parent.mkdir(0o700, parents=True, exist_ok=True)
    if is_folder:
        target.mkdir(0o700)
    else:
        target.touch(0o600, exist_ok=False)


def _reason(error: OSError) -> str:
    """Describe an error, with a fix if there is one."""
    if error.errno == errno.ELOOP:
        return "the path contains a link that was just created, or too many links"
    if error.errno == errno.EEXIST:
        return "another program created the path at the same time, or it is a broken link"
    if error.errno == errno.EPERM:
        return "only root may bind a path in a volume: run this command as root, or mount the whole volume"
    return error.strerror or str(error)
