"""Files of ours and of others: written whole, locked, set aside, opened only if regular; trees removed and walked.

Rules: a reader, also one after a crash, sees the old content of a file or the new, never a part. Nothing waits on a
pipe or a device that has the name of a file. A tree that somebody else has made may be of any depth and any width: it
is gone through without recursion, without a path that grows and with one descriptor, never through a symlink and never
onto another mount. The way up is "..", which is compared with the folder that was left, so that a folder that is moved
meanwhile leads nowhere else. To remove needs no new space on the disk, and is not held up by files that were made
unchangeable (`chattr +i`, `+a`).
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

__all__ = [
    "TEMPORARY",
    "Lock",
    "Records",
    "Seen",
    "Unreadable",
    "Usage",
    "instead_of_file",
    "is_file",
    "open_regular",
    "private_folder",
    "read_regular",
    "remove_tree",
    "rename_into",
    "set_aside",
    "sync_folder",
    "usage",
    "walk",
    "write_in",
    "write_whole",
]

T = TypeVar("T")

#: How the name of a file that is being written begins; one that is found at a start is left over from a kill.
TEMPORARY: Final = ".writing-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ATTEMPTS, _PAUSE_S = 100, 0.02
#: /dev/null, by which people say "no file".
_NULL: Final = os.makedev(1, 3)
#: Folders of one folder that are noted at a time while a tree is removed.
BATCH: Final = 1000
#: A deeper folder is moved up before it is removed, if there is room for its name.
DEEPEST: Final = 4096
#: Reading and writing a file's flags, and those that keep root from removing it: immutable, append only.
_GET_FLAGS, _SET_FLAGS, _FLAGS, _KEEPING = 0x80086601, 0x40086602, struct.Struct("l"), 0x30
#: A folder that is not empty, or that something is mounted on; of cgroups, one that has others in it.
_OCCUPIED: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)


# --- one file ---------------------------------------------------------------------------------------------------------


def is_file(path: str) -> bool:
    """Whether a file is there. PermissionError if that may not be known: it is not the same as "no such file"."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False


def instead_of_file(path: str) -> str:
    """Say why `is_file` finds no file at a path: "a folder, not a file", or "no such file"."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return "no such file"
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return f"{kinds.get(stat.S_IFMT(mode), 'a device')}, not a file"


def open_regular(path: StrPath, flags: int = os.O_RDONLY, *, dir_fd: int | None = None) -> int:
    """Open a regular file that is there, or /dev/null, and nothing that would wait; an opener for `open`.

    Raises OSError: IsADirectoryError, EINVAL for a pipe, a socket or a device, which is not even opened; with
    `os.O_NOFOLLOW` ELOOP for a symlink.
    """
    follow = not flags & os.O_NOFOLLOW
    _refuse_irregular(path, os.stat(path, dir_fd=dir_fd, follow_symlinks=follow), follow)
    # It may be another one by now.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        _refuse_irregular(path, os.fstat(descriptor), follow)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_irregular(path: StrPath, found: os.stat_result, follow: bool) -> None:
    mode = found.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if stat.S_ISLNK(mode) and not follow:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    if not stat.S_ISREG(mode) and not (stat.S_ISCHR(mode) and found.st_rdev == _NULL):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_regular(path: StrPath, most_bytes: int, *, follow: bool = True) -> bytes:
    """The content of a regular file. Raises OSError as `open_regular`, and EFBIG for more than `most_bytes`."""
    with open(open_regular(path, os.O_RDONLY if follow else os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        raise OSError(errno.EFBIG, f"longer than {most_bytes} bytes", os.fspath(path))
    return found


def write_whole(
    path: StrPath, data: bytes, mode: int = 0o600, *, sync: bool = True, owner: tuple[int, int] | None = None
) -> None:
    """Write a file so that a reader, also one after a crash, sees the old content or the new, never a part.

    Without `sync` that holds for a crash of this process, not for one of the machine; it costs no wait for the disk.
    The mode is the file's, whatever the umask is. `owner`: user and group of the file, as numbers; None: the process's.
    """
    above, name = os.path.split(os.fspath(path))
    folder = os.open(above or ".", _FOLDER)
    try:
        write_in(folder, name, data, mode, sync=sync, owner=owner)
    except OSError as error:
        error.filename = os.fspath(path)
        del error.filename2  # as None it would be told, too
        raise
    finally:
        os.close(folder)


def write_in(
    folder: int, name: str, data: bytes, mode: int = 0o600, *, sync: bool = True, owner: tuple[int, int] | None = None
) -> None:
    """Write a file as `write_whole` does, into a folder that is open for reading."""
    temporary = f"{TEMPORARY}{name}.new"  # its end is none that readers of a folder look for
    try:
        with open(_begin(folder, temporary, mode), "wb") as file:
            try:
                if owner is not None:
                    os.fchown(file.fileno(), *owner)  # before the mode: it may take setuid and setgid away
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)  # a full disk: give back what the attempt took
                raise
    except OSError as error:
        error.filename = name
        del error.filename2
        raise
    if sync:
        os.fsync(folder)


def _begin(folder: int, name: str, mode: int) -> int:
    """An empty file of this name that is ours until it is closed: another process may be about to write the same."""
    while True:
        try:
            descriptor = os.open(name, _WRITE, mode, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            os.unlink(name, dir_fd=folder)  # a link or a pipe, which nobody has to put there
            continue
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            here, found = os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False)
            if (here.st_dev, here.st_ino) == (found.st_dev, found.st_ino) and here.st_nlink == 1:
                os.ftruncate(descriptor, 0)
                return descriptor
            if here.st_nlink > 1:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass  # the other one has just put it in its place
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def rename_into(source: StrPath, target: StrPath) -> None:
    """Move a finished file or folder to its place, for good."""
    os.rename(source, target)
    sync_folder(os.path.dirname(os.fspath(target)) or ".")


def sync_folder(path: StrPath) -> None:
    """Have the folder's entries on the disk."""
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> Path:
    """Create a folder that only this user can enter, with its parents; an existing one is made private.

    Raises OSError, PermissionError for a folder that all users share, such as /tmp.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:  # "File exists" would not say what is wrong with it
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder", os.fspath(path)) from None
    mode = path.stat().st_mode
    if mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "all users share this folder; name one below it", os.fspath(path))
    if mode & 0o777 != 0o700:
        path.chmod(0o700)
    return path


def set_aside(path: Path, folder: Path) -> Path:
    """Move a file or a tree that cannot be used into a private folder, for a person to look at; returns its new path.

    Files that were set aside before stay: the next one of the name gets a number. Raises OSError.
    """
    target, number = private_folder(folder) / path.name, 0
    while os.path.lexists(target):
        number += 1
        target = folder / f"{path.name}.{number}"
    rename_into(path, target)
    sync_folder(path.parent)
    return target


class Lock:
    """A lock that one process has at a time, and that dies with it. A context manager.

    Args:
        path: of a file, which is made, and stays; only a holder that removes the whole folder may remove it.
        note: a line about its holder, for those that do not get it.

    Raises:
        BlockingIOError: another process has it; its text is the holder's note.
        FileNotFoundError: its last holder has just removed the file.
        OSError: the file cannot be made, or its file system has no locks.
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
        """Give the lock back; a second call does nothing."""
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
    """A record that cannot be read: its name, and a line about its file: the error, and where the file is now."""

    name: str
    complaint: str


class Records:
    """A private folder with a JSON file for each record, replaced whole, as one version of a program writes them.

    Args:
        folder: made if it is not there.
        aside: the folder for files that cannot be read.
        most_bytes: no record is longer.
    """

    __slots__ = ("_aside", "_most_bytes", "_version", "_writing", "folder")

    def __init__(self, folder: Path, aside: Path, *, version: int = 1, most_bytes: int = 1 << 24) -> None:
        self.folder, self._aside = private_folder(folder), aside
        self._version, self._most_bytes = version, most_bytes
        self._writing = threading.Lock()

    def put(self, name: str, row: dict[str, Any], *, sync: bool = True) -> None:
        """Write a record. Raises OSError, and leaves the earlier one, if the disk does not take it or it is too long.

        Without `sync` it outlives the program, and perhaps not the machine's sudden end.
        """
        import json

        data = json.dumps({"version": self._version, **row}, sort_keys=True).encode()
        path = self.folder / f"{name}.json"
        if len(data) > self._most_bytes:
            raise OSError(errno.EFBIG, f"longer than {self._most_bytes} bytes", str(path))
        with self._writing:  # the same record by two threads: the later one wins whole
            if path.is_dir() and not path.is_symlink():  # a file cannot be renamed onto it
                remove_tree(path)
            write_whole(path, data, sync=sync)

    def remove(self, name: str, *, sync: bool = True) -> None:
        """Forget a record; one that is not there is no error."""
        path = self.folder / f"{name}.json"
        with self._writing:
            present = os.path.lexists(path)
            remove_tree(path)
            if sync and present:
                sync_folder(self.folder)

    def load(self, read: Callable[[str, dict[str, Any]], T]) -> tuple[list[T], list[Unreadable]]:
        """All records, and the files that were set aside. Files that a kill left half written are deleted.

        `read` makes one of its name and row, and raises ValueError for one that it cannot use.
        """
        found: list[T] = []
        unreadable: list[Unreadable] = []
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(TEMPORARY):
                remove_tree(path)
            elif path.suffix == ".json":
                try:
                    found.append(read(path.stem, self._row(path)))
                except (ValueError, OSError, RecursionError) as error:
                    unreadable.append(Unreadable(path.stem, f"{path}: {error}; {self._out_of_the_way(path)}"))
        return found, unreadable

    def set_aside(self, name: str) -> str:
        """Move a record that cannot be used out of the way, for a person to look at; returns a text about its place."""
        return self._out_of_the_way(self.folder / f"{name}.json")

    def _row(self, path: Path) -> dict[str, Any]:
        import json

        row = json.loads(read_regular(path, self._most_bytes, follow=False))
        if not isinstance(row, dict):
            raise ValueError("it is not a table of keys and values")  # noqa: TRY004  one kind of complaint for the reader
        if (version := row.pop("version", None)) != self._version:
            raise ValueError(f"it is of version {version!r}, and this program reads version {self._version}")
        return row

    def _out_of_the_way(self, path: Path) -> str:
        try:
            return f"set aside as {set_aside(path, self._aside)}"
        except OSError as error:
            return f"left there, because it cannot be set aside: {error}"


# --- a tree -----------------------------------------------------------------------------------------------------------


class _Climb:
    """A place in a tree, moved down and up by one folder at a time; `folder` is its one descriptor."""

    __slots__ = ("_devices", "_inodes", "_path", "folder")

    def __init__(self, path: StrPath) -> None:
        self._path = os.fspath(path)
        self._devices, self._inodes = array("Q"), array("Q")  # of the folders above: 16 bytes for each level
        self.folder = os.open(self._path, _FOLDER | os.O_NOFOLLOW)

    @property
    def depth(self) -> int:
        """The number of folders above, up to the one that was begun with."""
        return len(self._inodes)

    def down(self, name: str, inode: int) -> None:
        """Go into a folder, which the listing has with this inode. Raises OSError: EBUSY where something is mounted."""
        below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.folder)
        here, found = os.fstat(self.folder), os.fstat(below)
        # A mount has another inode than the folder below it. The reverse is not so on every file system.
        if (found.st_dev, found.st_ino) != (here.st_dev, inode) and _mount_of(below) != _mount_of(self.folder):
            os.close(below)
            raise OSError(errno.EBUSY, "something is mounted there", self.name(name))
        self._devices.append(here.st_dev)
        self._inodes.append(here.st_ino)
        os.close(self.folder)
        self.folder = below

    def up(self) -> None:
        """Go back to the folder above. Raises OSError if the one that is left was moved away."""
        above = os.open("..", _FOLDER, dir_fd=self.folder)
        found = os.fstat(above)
        if (found.st_dev, found.st_ino) != (self._devices.pop(), self._inodes.pop()):
            os.close(above)
            raise OSError(errno.ESTALE, "a folder in it was moved away meanwhile", self._path)
        os.close(self.folder)
        self.folder = above

    def name(self, name: str) -> str:
        """A file of this folder for a person: all of the way to it may be too long to be said."""
        return os.path.join(self._path, *([f"({self.depth} folders)"] if self.depth else []), name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.folder)


def _mount_of(descriptor: int) -> bytes:
    """The mount that an open file is on; empty where the kernel does not say."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as rows:
        return next((row for row in rows if row.startswith(b"mnt_id:")), b"")


def remove_tree(path: StrPath, *, files: bool = True) -> None:
    """Remove a folder with all that is in it, or a file; one that is not there is no error.

    Without `files` folders alone are removed, of a file system whose files go with them, as a cgroup's do.
    Raises OSError with the name of what cannot be removed; EBUSY where something is mounted or, in a cgroup, runs.
    """
    for attempt in range(_ATTEMPTS):
        try:
            _remove(path, files)
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
        except OSError as error:
            # A program that was killed wrote its last file just now, or is not quite gone.
            if error.errno not in _OCCUPIED or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
    raise OSError(errno.ENOTEMPTY, "it is still written to", os.fspath(path))


def _remove(path: StrPath, files: bool) -> None:
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        _drop(None, path, os.unlink)
        return
    with _Climb(path) as place, ExitStack() as stack:
        top = os.dup(place.folder)
        stack.callback(os.close, top)
        ways = [_clear(place, files)]  # for each folder on the way: those in it that are not empty
        while ways:
            occupied, more = ways[-1]
            if occupied and files and place.depth >= DEEPEST and _lift(place.folder, occupied[-1][0], top):
                occupied.pop()
                ways[0] = ways[0]._replace(more=True)
            elif occupied:
                try:
                    place.down(*occupied[-1])
                    ways.append(_clear(place, files))
                except (FileNotFoundError, NotADirectoryError):  # gone, or another file by now
                    occupied.pop()
            elif more:
                ways[-1] = _clear(place, files)
            elif ways.pop() and ways:
                place.up()
                with suppress(FileNotFoundError):
                    os.rmdir(ways[-1].occupied.pop()[0], dir_fd=place.folder)
    _drop(None, path, os.rmdir)


def _lift(folder: int, name: str, top: int) -> bool:
    """Move a folder from deep below to the top of its tree, so that no depth fills memory; False if that cannot be."""
    try:
        os.rename(name, f"{TEMPORARY}{os.stat(name, dir_fd=folder).st_ino}", src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return False
    return True


class _Cleared(NamedTuple):
    """The folders of a folder that are not empty, each with its inode; `more`: there may be others."""

    occupied: list[tuple[str, int]]
    more: bool


def _clear(place: _Climb, files: bool) -> _Cleared:
    """Remove the files of a folder, and the folders in it that are empty."""
    occupied: list[tuple[str, int]] = []
    with os.scandir(place.folder) as entries:
        for entry in entries:
            try:
                folder = entry.is_dir(follow_symlinks=False)
                if folder or files:
                    _drop(place.folder, entry.name, os.rmdir if folder else os.unlink)
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


def _drop(folder: int | None, name: StrPath, remove: Callable[..., None]) -> None:
    """Remove an entry of a folder, also where it or the folder was made unchangeable.

    None for the top of a tree, which `name` is the path of: the folder that it is in is not ours to change.
    """
    try:
        remove(name, dir_fd=folder)
    except PermissionError:
        above = folder is not None and _let_change(folder, ".")
        if not (_let_change(folder, name) or above):
            raise
        remove(name, dir_fd=folder)


def _let_change(folder: int | None, name: StrPath) -> bool:
    """Take the flags from a file or folder that keep it from being changed; False if it has none, or keeps them."""
    if stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        return False  # a device does something when it is opened
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_FLAGS.size)))
        if flags & _KEEPING:
            fcntl.ioctl(descriptor, _SET_FLAGS, _FLAGS.pack(flags & ~_KEEPING))
        return bool(flags & _KEEPING)
    except OSError:
        return False  # a file system without flags, or we are not root
    finally:
        os.close(descriptor)


class Seen(NamedTuple):
    """An entry of a tree that is walked.

    Attributes:
        folder: a descriptor of the folder that it is in, good until the walk goes on.
        name: its name there.
        found: of itself, not of the target of a link.
    """

    folder: int
    name: str
    found: os.stat_result


def walk(path: StrPath) -> Iterator[Seen]:
    """All that is in a folder at any depth, a folder before what is in it; files of other mounts are left out.

    Files that vanish meanwhile, or may not be read, are left out as well. Raises OSError if `path` is not a folder, or
    if a folder is moved away while it is walked.
    """
    with _Climb(path) as place:
        # Folders that are not walked yet; None parts those of one folder from those of the folder above it.
        ways: list[tuple[str, int] | None] = []
        yield from _seen(place, ways)
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
            yield from _seen(place, ways)


def _seen(place: _Climb, ways: list[tuple[str, int] | None]) -> Iterator[Seen]:
    """The entries of one folder; those that are folders are noted."""
    with os.scandir(place.folder) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                ways.append((entry.name, entry.inode()))
            yield Seen(place.folder, entry.name, found)


def _stats(path: StrPath) -> Iterator[os.stat_result | None]:
    """The facts about everything in a folder; None if that ends too early, because a folder was moved away."""
    try:
        for seen in walk(path):
            yield seen.found
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        yield None


class Usage(NamedTuple):
    """The room that files take: bytes on the disk, and inodes. Without `whole` it is at least this much."""

    size_bytes: int
    inodes: int
    whole: bool = True


def usage(path: StrPath, *, most_entries: float = inf, within_s: float = inf) -> Usage:
    """The room that a tree takes on the disk; hard links count once, and what vanishes meanwhile not at all.

    It ends at `most_entries`, after `within_s` seconds, or where a folder is moved away while it is walked.
    Raises OSError if there is no such folder.
    """
    size, inodes, linked = os.lstat(path).st_blocks * 512, 1, set[tuple[int, int]]()
    end = time.monotonic() + within_s
    for number, found in enumerate(_stats(path), 1):
        if found is None:
            return Usage(size, inodes, whole=False)
        if number > most_entries or (number % BATCH == 0 and time.monotonic() > end):
            return Usage(size, inodes, whole=False)
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            if (found.st_dev, found.st_ino) in linked:
                continue
            linked.add((found.st_dev, found.st_ino))
        size, inodes = size + found.st_blocks * 512, inodes + 1
    return Usage(size, inodes)
