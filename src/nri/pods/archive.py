"""Tar archives of files that are copied to and from a container.

A container's archive is hostile. So its headers are read here with a limit for each of them, because `tarfile` reads
extended headers of any length into memory; every path is opened below the target without following links; and only
folders, regular files and hard links between unpacked files are created. A file is written under a temporary name and
renamed, so that an existing link at its place is replaced, not followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from nri.errors import NriError
from nri.host.root import open_below
from nri.text import plain

ReportLine = Callable[[str], None]
_BLOCK_BYTES = 512
_CHUNK_BYTES = 1 << 18
#: The most bytes of a long name or of a pax header.
_MAX_HEADER_BYTES = 64 << 10
_MAX_PATH_LENGTH = 4096
#: The most bytes after the end of an archive. GNU tar pads to 10 KiB by default.
_MAX_PADDING_BYTES = 1 << 20
#: The most headers of an archive, including extended headers.
_MAX_HEADERS = 1_000_000
#: The most folders that an archive may create: one entry can name two thousand of them.
MAX_FOLDERS = 1_000_000
#: The most bytes of the names of unpacked files, which are remembered for hard links.
_MAX_NAME_BYTES = 64 << 20
_MAX_SKIP_NOTES = 20
_FOLDER = os.O_PATH | os.O_DIRECTORY
#: Without O_NONBLOCK, a file that has become a pipe would wait for a writer.
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Destination(NamedTuple):
    """Where an archive is unpacked.

    Attributes:
        folder: the existing folder.
        base: the first component of all names in the archive, or "." if the archive has the content of a folder.
        name: the name that replaces `base` below `folder`.
        max_bytes: the most bytes of all files.
    """

    folder: str
    base: str
    name: str
    max_bytes: int


def unpack(archive: IO[bytes], destination: Destination, report: ReportLine) -> int:
    """Unpack an archive below a folder; returns the number of its files. `report` is called with skipped entries.

    Raises NriError if the archive is damaged, leads out of the folder or is too large, and OSError.
    """
    return _Unpacker(archive, destination, report).run()


class _Unpacker:
    def __init__(self, archive: IO[bytes], destination: Destination, report: ReportLine) -> None:
        self._archive, self._destination, self._report = archive, destination, report
        self._remaining_bytes = destination.max_bytes
        self._skipped = self._name_bytes = self._folders = 0
        self._files: set[str] = set()

    def run(self) -> int:
        for entry in self._entries():
            path = self._path(entry.name)
            if entry.isdir():
                self._make_folders(path, entry.mode)
            elif entry.isreg():
                self._write(path, entry)
                self._remember(path)
            elif entry.islnk() and (target := self._path(entry.linkname)) in self._files:
                self._link(target, path)
                self._remember(path)
            else:
                kind = "symbolic link" if entry.issym() else "hard link" if entry.islnk() else "special file"
                self._skip(f"skipped {plain(entry.name)}: {kind}")
        if self._skipped > _MAX_SKIP_NOTES:
            self._report(f"skipped {self._skipped - _MAX_SKIP_NOTES} more links and special files")
        return len(self._files)

    def _remember(self, path: str) -> None:
        self._files.add(path)
        self._name_bytes += len(path)
        if self._name_bytes > _MAX_NAME_BYTES:
            raise NriError(f"the container's tar archive has more than {_MAX_NAME_BYTES} bytes of names")

    def _skip(self, line: str) -> None:
        self._skipped += 1
        if self._skipped <= _MAX_SKIP_NOTES:
            self._report(line)

    # --- reading ---

    def _entries(self) -> Iterator[tarfile.TarInfo]:
        """The entries of the archive, with the names of extended headers applied. The caller reads their content."""
        names: dict[str, str] = {}
        for _ in range(_MAX_HEADERS):
            block = self._archive.read(_BLOCK_BYTES)
            try:
                entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                if not block or not any(block):
                    self._read_padding()
                    return
                raise NriError(f"the container's tar archive is damaged: {error}") from None
            if entry.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
                key = "path" if entry.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
                names[key] = os.fsdecode(self._extended_header(entry).partition(b"\0")[0])
            elif entry.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE):
                records = _pax_records(self._extended_header(entry))
                names |= records if entry.type != tarfile.XGLTYPE else {}
            else:
                yield _with_names(entry, names)
                names = {}
        raise NriError(f"the container's tar archive has more than {_MAX_HEADERS} entries")

    def _extended_header(self, entry: tarfile.TarInfo) -> bytes:
        if not 0 <= entry.size <= _MAX_HEADER_BYTES:
            raise NriError(f"the container's tar archive has a header of {entry.size} bytes")
        data = self._read(entry.size)
        self._read(-entry.size % _BLOCK_BYTES)
        return data

    def _read(self, size: int) -> bytes:
        data = self._archive.read(size)
        if len(data) < size:
            raise NriError("the container's tar archive ends too early")
        return data

    def _read_padding(self) -> None:
        """Read the bytes after the archive, so that `tar` can end."""
        if len(self._archive.read(_MAX_PADDING_BYTES + 1)) > _MAX_PADDING_BYTES:
            raise NriError(f"the container's tar archive has more than {_MAX_PADDING_BYTES} bytes after its end")

    # --- writing ---

    def _path(self, name: str) -> str:
        """The path below the folder for a name in the archive. Raises NriError if the name leads elsewhere."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        base, new_name = self._destination.base, self._destination.name
        is_inside = base == "." or parts[:1] == [base]
        if name.startswith("/") or ".." in parts or "\0" in name or not is_inside or len(name) > _MAX_PATH_LENGTH:
            raise NriError(f"the container's tar archive has {plain(name)}, which is outside of what was requested")
        return "/".join(parts if base == "." else [new_name, *parts[1:]])

    def _open_parent(self, path: str) -> tuple[int, str]:
        """Open the folder of a path, which is created if it is missing."""
        parent, _, name = path.rpartition("/")
        try:
            return open_below(self._destination.folder, parent or ".", _FOLDER, follow=False), name
        except FileNotFoundError:
            self._make_folders(parent, 0o755)
            return open_below(self._destination.folder, parent, _FOLDER, follow=False), name

    def _make_folders(self, path: str, mode: int) -> None:
        """Create a folder with its missing parents. Raises OSError if a part of the path is not a folder."""
        descriptor = open_below(self._destination.folder, ".", _FOLDER)
        try:
            parts = [part for part in path.split("/") if part]
            for number, part in enumerate(parts, 1):
                try:
                    os.mkdir(part, (mode & 0o777) | 0o700 if number == len(parts) else 0o755, dir_fd=descriptor)
                    self._folders += 1
                except FileExistsError:
                    pass
                if self._folders > MAX_FOLDERS:
                    raise NriError(f"the container's tar archive has more than {MAX_FOLDERS} folders")
                child = os.open(part, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = child
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.path.join(self._destination.folder, path)) from None
        finally:
            os.close(descriptor)

    def _write(self, path: str, entry: tarfile.TarInfo) -> None:
        """Write a regular file with the content that follows in the archive."""
        if not 0 <= entry.size <= self._remaining_bytes:
            limit = self._destination.max_bytes
            raise NriError(f"{plain(entry.name)}: more than {limit} bytes in total; set another limit with --max-size")
        self._remaining_bytes -= entry.size

        def create(name: str, parent: int) -> None:
            with open(os.open(name, _NEW_FILE, 0o600, dir_fd=parent), "wb") as file:
                remaining = entry.size
                while remaining:
                    file.write(self._read(min(remaining, _CHUNK_BYTES)))
                    remaining -= min(remaining, _CHUNK_BYTES)
                os.fchmod(file.fileno(), entry.mode & 0o777)

        self._replace(path, create)
        self._read(-entry.size % _BLOCK_BYTES)

    def _link(self, target: str, path: str) -> None:
        """Create a hard link to a file of this archive."""
        folder, source = self._open_parent(target)
        try:
            self._replace(
                path,
                lambda name, parent: os.link(source, name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False),
            )
        finally:
            os.close(folder)

    def _replace(self, path: str, create: Callable[[str, int], None]) -> None:
        """Create a file under a temporary name, and rename it to `path`. Errors name the path."""
        try:
            parent, name = self._open_parent(path)
            try:
                temporary = f".nri-cp-{secrets.token_hex(8)}"
                try:
                    create(temporary, parent)
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                except BaseException:
                    try:
                        os.unlink(temporary, dir_fd=parent)
                    except FileNotFoundError:
                        pass
                    raise
            finally:
                os.close(parent)
        except OSError as error:
            reason = "is a folder" if error.errno == errno.EISDIR else error.strerror
            raise OSError(error.errno, reason, os.path.join(self._destination.folder, path)) from None


def _pax_records(data: bytes) -> dict[str, str]:
    """The names in a pax header. Raises NriError if the header is invalid, or describes a sparse file."""
    records, position = {}, 0
    while position < len(data):
        number = data[position : position + 8].partition(b" ")[0]
        size = int(number) if number.isdigit() else 0
        key, equals, value = data[position + len(number) + 1 : position + size].partition(b"=")
        if not equals or not value.endswith(b"\n") or position + size > len(data):
            raise NriError("the container's tar archive has an invalid pax header")
        if key.startswith(b"GNU.sparse."):
            raise NriError("the container's tar archive has sparse files, which are not supported")
        if key in (b"path", b"linkpath", b"size"):
            records[key.decode()] = os.fsdecode(value[:-1])
        position += size
    return records


def _with_names(entry: tarfile.TarInfo, names: dict[str, str]) -> tarfile.TarInfo:
    """An entry with the names and the size of its extended headers."""
    if entry.type == tarfile.GNUTYPE_SPARSE:
        raise NriError("the container's tar archive has sparse files, which are not supported")
    entry.name, entry.linkname = names.get("path", entry.name), names.get("linkpath", entry.linkname)
    if "size" in names:
        if not names["size"].isdigit() or len(names["size"]) > 18:
            raise NriError("the container's tar archive has an invalid pax header")
        entry.size = int(names["size"])
    return entry


def pack(path: str, name: str, archive: IO[bytes], report: ReportLine) -> None:
    """Write a file, or a folder with its content, as an archive with the names `name` and ``name/...``.

    Symbolic links are archived as links and never followed, because a container may write to the folder meanwhile;
    `report` is called with sockets, pipes and devices, which are left out. Raises OSError.
    """
    root, base = os.path.split(path)
    with tarfile.open(fileobj=archive, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        pending = [base]  # os.walk would recurse, and a container can make a tree of any depth
        while pending:
            inside = pending.pop()
            folder, _, child = inside.rpartition("/")
            try:
                descriptor = open_below(root, folder or ".", _FOLDER, follow=False)
                try:
                    mode = _add(tar, descriptor, child or ".", name + inside[len(base) :])
                    children = _names(child or ".", descriptor) if stat.S_ISDIR(mode) else []
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise OSError(error.errno, error.strerror, os.path.join(root, inside)) from None
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                report(f"skipped {plain(os.path.join(root, inside))}: special file")
            pending += [f"{inside}/{name_}" for name_ in reversed(children)]
            tar.members.clear()  # type: ignore[attr-defined]  # tarfile would keep every entry


def _add(tar: tarfile.TarFile, folder: int, child: str, name: str) -> int:
    """Add the file `child` of an open folder unless it is special; returns its mode with the type.

    The names of its owner are left out, because they differ in the container.
    """
    status = os.stat(child, dir_fd=folder, follow_symlinks=False)
    entry = tarfile.TarInfo(name)
    entry.mode, entry.uid, entry.gid = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
    entry.mtime = int(status.st_mtime)
    if stat.S_ISREG(status.st_mode):
        with open(os.open(child, _OLD_FILE, dir_fd=folder), "rb") as file:
            entry.size = os.fstat(file.fileno()).st_size
            tar.addfile(entry, file)
    elif stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(child, dir_fd=folder)
        tar.addfile(entry)
    return status.st_mode


def _names(child: str, folder: int) -> list[str]:
    """The sorted names in the folder `child` of an open folder."""
    descriptor = os.open(child, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        return sorted(os.listdir(descriptor))
    finally:
        os.close(descriptor)
