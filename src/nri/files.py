"""Files: atomic writes, locks, records, opening only regular files; removing and walking trees.

A reader, even after a crash, gets the old content of a file or the new content, never a mixture. No function waits on a
pipe or a device in place of a file. A tree may have any depth and width: it is walked without recursion, without a
growing path and with one descriptor, never through a symlink and never into another mount. After "..", the folder is
compared with the parent that was left, so that a folder that is moved meanwhile cannot redirect the walk. Removing a
tree needs no new space on the disk, and removes files that were made immutable (`chattr +i`, `+a`), too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import threading
import time
from array import array
from contextlib import ExitStack, suppress
from math import inf
from typing import NamedTuple, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Final, Self

    StrPath = str | os.PathLike[str]

T = TypeVar("T")

#: The prefix of files that are being written. A file with this prefix at a start remains from a killed process.
TEMPORARY: Final = ".writing-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ATTEMPTS, _PAUSE_S = 100, 0.02
#: /dev/null, which users write for "no file".
_NULL: Final = os.makedev(1, 3)
#: Maximum number of subfolders that are listed at a time while a tree is removed.
BATCH: Final = 1000
#: A deeper folder is moved up before it is removed, if its new name can be created.
DEEPEST: Final = 4096
#: The ioctls for a file's flags, and the flags that prevent root from removing it: immutable, append only.
_GET_FLAGS, _SET_FLAGS, _FLAGS, _PROTECTING_FLAGS = 0x80086601, 0x40086602, struct.Struct("l"), 0x30
#: The errors for a folder that is not empty, for a mount point, and for a cgroup with children.
_OCCUPIED: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)


# --- one file ---------------------------------------------------------------------------------------------------------


def is_file(path: str) -> bool:
    """Whether a file exists. Raises PermissionError if that cannot be determined."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False


def instead_of_file(path: str) -> str:
    """The reason why `is_file` is false for a path: "a folder, not a file", or "no such file"."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return "no such file"
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return f"{kinds.get(stat.S_IFMT(mode), 'a device')}, not a file"


def open_regular(path: StrPath, flags: int = os.O_RDONLY, *, dir_fd: int | None = None) -> int:
    """Open an existing regular file, or /dev/null, without blocking. It is an opener for `open`.

    Raises OSError: IsADirectoryError for a folder; EINVAL for a pipe, a socket or a device, which is not opened; ELOOP
    for a symlink with `os.O_NOFOLLOW`.
    """
    follow = not flags & os.O_NOFOLLOW
    _refuse_irregular(path, os.stat(path, dir_fd=dir_fd, follow_symlinks=follow), follow)
    # The path may refer to another file by now.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        _refuse_irregular(path, os.fstat(descriptor), follow)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_irregular(path: StrPath, info: os.stat_result, follow: bool) -> None:
    mode = info.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if stat.S_ISLNK(mode) and not follow:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    if not stat.S_ISREG(mode) and not (stat.S_ISCHR(mode) and info.st_rdev == _NULL):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_regular(path: StrPath, most_bytes: int, *, follow: bool = True) -> bytes:
    """Read a regular file. Raises the OSErrors of `open_regular`, and EFBIG above `most_bytes`."""
    with open(open_regular(path, os.O_RDONLY if follow else os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"longer than {most_bytes} bytes", os.fspath(path))
    return content


def write_whole(
    path: StrPath, data: bytes, mode: int = 0o600, *, sync: bool = True, owner: tuple[int, int] | None = None
) -> None:
    """Write a file so that a reader, even after a crash, gets the old content or the new content, never a mixture.

    Without `sync` that is true for a crash of this process, not of the machine, and the call does not wait for the
    disk. `mode` is independent of the umask. `owner` has the file's user and group ids, or is None for the process's.
    """
    above, name = os.path.split(os.fspath(path))
    folder = os.open(above or ".", _FOLDER)
    try:
        write_in(folder, name, data, mode, sync=sync, owner=owner)
    except OSError as error:
        error.filename = os.fspath(path)
        del error.filename2  # otherwise None would appear in the message
        raise
    finally:
        os.close(folder)


def write_in(
    folder: int, name: str, data: bytes, mode: int = 0o600, *, sync: bool = True, owner: tuple[int, int] | None = None
) -> None:
    """Write a file like `write_whole`, into a folder that is open for reading."""
    temporary = f"{TEMPORARY}{name}.new"  # readers of a folder ignore this suffix
    try:
        with open(_create_locked(folder, temporary, mode), "wb") as file:
            try:
                if owner is not None:
                    # The owner is set before the mode, because setting the owner may clear setuid and setgid.
                    os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)  # a full disk: free the space of the attempt
                raise
    except OSError as error:
        error.filename = name
        del error.filename2
        raise
    if sync:
        os.fsync(folder)


def _create_locked(folder: int, name: str, mode: int) -> int:
    """Create an empty file, locked until it is closed, because another process may write the same file."""
    while True:
        try:
            descriptor = os.open(name, _WRITE, mode, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            os.unlink(name, dir_fd=folder)  # a link or a pipe, which this module never creates
            continue
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            opened, current = os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False)
            if (opened.st_dev, opened.st_ino) == (current.st_dev, current.st_ino) and opened.st_nlink == 1:
                os.ftruncate(descriptor, 0)
                return descriptor
            if opened.st_nlink > 1:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass  # another process has just renamed it
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def rename_into(source: StrPath, target: StrPath) -> None:
    """Move a finished file or folder to its final path, synced to the disk."""
    os.rename(source, target)
    sync_folder(os.path.dirname(os.fspath(target)) or ".")


def sync_folder(path: StrPath) -> None:
    """Sync a folder's entries to the disk."""
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> Path:
    """Create a folder that only this user can enter, with its parents. An existing folder is made private.

    Raises OSError if that fails: PermissionError for a folder that all users share, such as /tmp.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:  # "File exists" would be misleading
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", os.fspath(path)) from None
    mode = path.stat().st_mode
    if mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "all users share this folder; choose a folder below it", os.fspath(path))
    if mode & 0o777 != 0o700:
        path.chmod(0o700)
    return path


def set_aside(path: Path, folder: Path) -> Path:
    """Move an invalid file or tree to a private folder for later examination. Returns its new path.

    Earlier files stay: the next file of the same name gets a number. Raises OSError if the file cannot be moved.
    """
    target, number = private_folder(folder) / path.name, 0
    while os.path.lexists(target):
        number += 1
        target = folder / f"{path.name}.{number}"
    rename_into(path, target)
    sync_folder(path.parent)
    return target


class Lock:
    """A lock of one process at a time, which ends with the process. A context manager.

    Args:
        path: the lock file, which is created and stays. Only a holder that removes the whole folder may remove it.
        note: a line about the holder, for other processes.

    Raises:
        BlockingIOError: another process has the lock; the message is the holder's note.
        FileNotFoundError: its last holder has just removed the file.
        OSError: the file cannot be created, or its file system has no locks.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, path: StrPath, note: str = "") -> None:
        self._descriptor = os.open(path, _LOCK, 0o600)
        try:
            _refuse_irregular(path, os.fstat(self._descriptor), follow=False)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._descriptor).st_nlink:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
            if note:
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{note}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 80, 0).decode(errors="replace").strip()
            self.close()
            raise BlockingIOError(errno.EWOULDBLOCK, holder, os.fspath(path)) from None
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock. Calling it again has no effect."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Unreadable(NamedTuple):
    """An invalid record: its name, and a line with the error and the new path of its file."""

    name: str
    complaint: str


class Records:
    """A private folder with a JSON file for each record, all of one version.

    Args:
        folder: the folder, which is created if it is missing.
        aside: the folder for invalid files.
        most_bytes: the maximum length of a record.
    """

    __slots__ = ("_aside_folder", "_most_bytes", "_version", "_writing", "folder")

    def __init__(self, folder: Path, aside: Path, *, version: int = 1, most_bytes: int = 1 << 24) -> None:
        self.folder, self._aside_folder = private_folder(folder), aside
        self._version, self._most_bytes = version, most_bytes
        self._writing = threading.Lock()

    def put(self, name: str, row: dict[str, Any], *, sync: bool = True) -> None:
        """Write a record. Raises OSError if it cannot be written or is too long; then the earlier record is unchanged.

        Without `sync` the record survives a crash of the program, but perhaps not of the machine.
        """
        import json

        data = json.dumps({"version": self._version, **row}, sort_keys=True).encode()
        path = self.folder / f"{name}.json"
        if len(data) > self._most_bytes:
            raise OSError(errno.EFBIG, f"longer than {self._most_bytes} bytes", str(path))
        with self._writing:  # two threads may write the same record; the later thread wins
            if path.is_dir() and not path.is_symlink():  # a file cannot replace a folder
                remove_tree(path)
            write_whole(path, data, sync=sync)

    def remove(self, name: str, *, sync: bool = True) -> None:
        """Remove a record. A missing record is not an error."""
        path = self.folder / f"{name}.json"
        with self._writing:
            present = os.path.lexists(path)
            remove_tree(path)
            if sync and present:
                sync_folder(self.folder)

    def load(self, read: Callable[[str, dict[str, Any]], T]) -> tuple[list[T], list[Unreadable]]:
        """Read all records. Also returns the files that were set aside. Partly written files are deleted.

        `read` creates a record from its name and row, and raises ValueError if the row is invalid.
        """
        records: list[T] = []
        unreadable: list[Unreadable] = []
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(TEMPORARY):
                remove_tree(path)
            elif path.suffix == ".json":
                try:
                    records.append(read(path.stem, self._read_row(path)))
                except (ValueError, OSError, RecursionError) as error:
                    unreadable.append(Unreadable(path.stem, f"{path}: {error}; {self._set_aside_text(path)}"))
        return records, unreadable

    def set_aside(self, name: str) -> str:
        """Move an invalid record to the folder for later examination. Returns a message with its new path."""
        return self._set_aside_text(self.folder / f"{name}.json")

    def _read_row(self, path: Path) -> dict[str, Any]:
        import json

        row = json.loads(read_regular(path, self._most_bytes, follow=False))
        if not isinstance(row, dict):
            raise ValueError("not a mapping of keys to values")  # noqa: TRY004  callers expect one type of error
        if (version := row.pop("version", None)) != self._version:
            raise ValueError(f"version {version!r}; this program reads version {self._version}")
        return row

    def _set_aside_text(self, path: Path) -> str:
        try:
            return f"set aside as {set_aside(path, self._aside_folder)}"
        except OSError as error:
            return f"not set aside: {error}"


# --- a tree -----------------------------------------------------------------------------------------------------------


class _Climb:
    """A position in a tree that moves up and down by one folder. `folder` is its only descriptor."""

    __slots__ = ("_devices", "_inodes", "_path", "folder")

    def __init__(self, path: StrPath) -> None:
        self._path = os.fspath(path)
        self._devices, self._inodes = array("Q"), array("Q")  # a record of the folders above: 16 bytes for each level
        self.folder = os.open(self._path, _FOLDER | os.O_NOFOLLOW)

    @property
    def depth(self) -> int:
        """The number of folders above, up to the top of the tree."""
        return len(self._inodes)

    def down(self, name: str, inode: int) -> None:
        """Enter a folder that was listed with this inode. Raises OSError (EBUSY) for a mount point."""
        below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.folder)
        folder_info, below_info = os.fstat(self.folder), os.fstat(below)
        # A mount has another inode than its mount point. The reverse is not true on every file system.
        if (below_info.st_dev, below_info.st_ino) != (folder_info.st_dev, inode) and _mount_of(below) != _mount_of(
            self.folder
        ):
            os.close(below)
            raise OSError(errno.EBUSY, "a mount point", self.name(name))
        self._devices.append(folder_info.st_dev)
        self._inodes.append(folder_info.st_ino)
        os.close(self.folder)
        self.folder = below

    def up(self) -> None:
        """Return to the folder above. Raises OSError if this folder was moved meanwhile."""
        above = os.open("..", _FOLDER, dir_fd=self.folder)
        above_info = os.fstat(above)
        if (above_info.st_dev, above_info.st_ino) != (self._devices.pop(), self._inodes.pop()):
            os.close(above)
            raise OSError(errno.ESTALE, "a folder in it was moved meanwhile", self._path)
        os.close(self.folder)
        self.folder = above

    def name(self, name: str) -> str:
        """A file of this folder for messages: the full path may be too long."""
        return os.path.join(self._path, *([f"({self.depth} folders)"] if self.depth else []), name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.folder)


def _mount_of(descriptor: int) -> bytes:
    """The mount of an open file. Returns b"" if the kernel does not report it."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as rows:
        return next((row for row in rows if row.startswith(b"mnt_id:")), b"")


def remove_tree(path: StrPath, *, files: bool = True) -> None:
    """Remove a folder with its content, or a file. A missing path is not an error.

    Without `files` only folders are removed, for file systems like cgroups, in which files disappear with their folder.
    Raises OSError with the name of the entry that cannot be removed: EBUSY for a mount point or a cgroup in use.
    """
    for attempt in range(_ATTEMPTS):
        try:
            _remove(path, files)
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
        except OSError as error:
            # A killed program may have just written its last file, or may still be ending.
            if error.errno not in _OCCUPIED or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
    raise OSError(errno.ENOTEMPTY, "still being written", os.fspath(path))


def _remove(path: StrPath, files: bool) -> None:
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        _remove_entry(None, path, os.unlink)
        return
    with _Climb(path) as place, ExitStack() as stack:
        top = os.dup(place.folder)
        stack.callback(os.close, top)
        ways = [_clear(place, files)]  # for each folder on the path: its subfolders that are not empty
        while ways:
            occupied, more = ways[-1]
            if occupied and files and place.depth >= DEEPEST and _move_to_top(place.folder, occupied[-1][0], top):
                occupied.pop()
                ways[0] = ways[0]._replace(more=True)
            elif occupied:
                try:
                    place.down(*occupied[-1])
                    ways.append(_clear(place, files))
                except (FileNotFoundError, NotADirectoryError):  # removed, or another file by now
                    occupied.pop()
            elif more:
                ways[-1] = _clear(place, files)
            elif ways.pop() and ways:
                place.up()
                with suppress(FileNotFoundError):
                    os.rmdir(ways[-1].occupied.pop()[0], dir_fd=place.folder)
    _remove_entry(None, path, os.rmdir)


def _move_to_top(folder: int, name: str, top: int) -> bool:
    """Move a deep folder to the top of its tree, so that depth does not fill memory. Returns False if that fails."""
    try:
        os.rename(name, f"{TEMPORARY}{os.stat(name, dir_fd=folder).st_ino}", src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return False
    return True


class _Cleared(NamedTuple):
    """The subfolders of a folder that are not empty, with their inodes. `more`: there may be further subfolders."""

    occupied: list[tuple[str, int]]
    more: bool


def _clear(place: _Climb, files: bool) -> _Cleared:
    """Remove the files of a folder, and its empty subfolders."""
    occupied: list[tuple[str, int]] = []
    with os.scandir(place.folder) as entries:
        for entry in entries:
            try:
                folder = entry.is_dir(follow_symlinks=False)
                if folder or files:
                    _remove_entry(place.folder, entry.name, os.rmdir if folder else os.unlink)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in _OCCUPIED or not entry.is_dir(follow_symlinks=False):
                    error.filename = place.name(entry.name)
                    raise
                occupied.append((entry.name, entry.inode()))
                if len(occupied) == BATCH:
                    return _Cleared(occupied, more=True)
    return _Cleared(occupied, more=False)


def _remove_entry(folder: int | None, name: StrPath, remove: Callable[..., None]) -> None:
    """Remove an entry of a folder, even if the entry or the folder was made immutable.

    If `folder` is None, `name` is the path of a tree's top, and its parent must not be changed.
    """
    try:
        remove(name, dir_fd=folder)
    except PermissionError:
        above = folder is not None and _make_changeable(folder, ".")
        if not (_make_changeable(folder, name) or above):
            raise
        remove(name, dir_fd=folder)


def _make_changeable(folder: int | None, name: StrPath) -> bool:
    """Clear the flags that prevent changes of a file or folder. Returns False without such flags, or if that fails."""
    if stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        return False  # opening a device may have effects
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_FLAGS.size)))
        if flags & _PROTECTING_FLAGS:
            fcntl.ioctl(descriptor, _SET_FLAGS, _FLAGS.pack(flags & ~_PROTECTING_FLAGS))
        return bool(flags & _PROTECTING_FLAGS)
    except OSError:
        return False  # a file system without flags, or not root
    finally:
        os.close(descriptor)


class WalkEntry(NamedTuple):
    """An entry of a walked tree.

    Attributes:
        folder: a descriptor of its folder, valid until the walk continues.
        name: its name in the folder.
        status: its status; for a link the status of the link itself.
    """

    folder: int
    name: str
    status: os.stat_result


def walk(path: StrPath) -> Iterator[WalkEntry]:
    """Yield all entries of a folder at any depth, a folder before its content, without other mounts.

    Entries that vanish meanwhile, or are not accessible, are skipped. Raises OSError if `path` is not a folder, or if a
    folder is moved during the walk.
    """
    with _Climb(path) as place:
        # Folders that are not walked yet. None separates the subfolders of a folder from those of its parent.
        ways: list[tuple[str, int] | None] = []
        yield from _list_folder(place, ways)
        while ways or place.depth:
            way = ways.pop() if ways else None
            if way is None:
                place.up()
                continue
            try:
                place.down(*way)
            except OSError:
                continue
            ways.append(None)
            yield from _list_folder(place, ways)


def _list_folder(place: _Climb, ways: list[tuple[str, int] | None]) -> Iterator[WalkEntry]:
    """Yield the entries of a folder, and add its subfolders to `ways`."""
    with os.scandir(place.folder) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode):
                ways.append((entry.name, entry.inode()))
            yield WalkEntry(place.folder, entry.name, info)


def _stats(path: StrPath) -> Iterator[os.stat_result | None]:
    """Yield the status of all entries in a tree, and None at a premature end, because a folder was moved."""
    try:
        for entry in walk(path):
            yield entry.status
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        yield None


class Usage(NamedTuple):
    """The disk usage of files: bytes and inodes. Without `whole` it is a lower bound."""

    size_bytes: int
    inodes: int
    whole: bool = True


def usage(path: StrPath, *, most_entries: float = inf, within_s: float = inf) -> Usage:
    """The disk usage of a tree. Hard links count once, and vanished files do not count.

    The walk ends at `most_entries`, after `within_s` seconds, or when a folder is moved meanwhile. Raises OSError if
    the folder does not exist.
    """
    size, inodes, linked = os.lstat(path).st_blocks * 512, 1, set[tuple[int, int]]()
    end = time.monotonic() + within_s
    for number, info in enumerate(_stats(path), 1):
        if info is None:
            return Usage(size, inodes, whole=False)
        if number > most_entries or (number % BATCH == 0 and time.monotonic() > end):
            return Usage(size, inodes, whole=False)
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            if (info.st_dev, info.st_ino) in linked:
                continue
            linked.add((info.st_dev, info.st_ino))
        size, inodes = size + info.st_blocks * 512, inodes + 1
    return Usage(size, inodes)
