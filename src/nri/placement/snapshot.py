"""Machines from a copy of their /sys: a folder, or an archive, which is read without unpacking it to a disk."""

from __future__ import annotations

import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from nri.config.place import first_line
from nri.errors import ConfigError
from nri.host import Root
from nri.host.topology import Topology, read_topology

#: No file of /sys is as large.
_MOST_BYTES = 1 << 20
#: An archive has no more, unpacked, nor longer paths: those of /sys have some 200 characters.
_MOST_UNPACKED, _LONGEST_PATH = 512 << 20, 4096
#: Whatever reading of an archive raises that is broken or cut.
_BROKEN = (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError)
_MOST_LINKS = 40
#: The file by which a machine is found in an archive.
_ONLINE = "sys/devices/system/cpu/online"


def read_machine(path: str) -> Topology:
    """The machine of a root folder, or of an archive: FILE, or FILE:FOLDER if it has several machines.

    Raises ConfigError if there is none.
    """
    file, _, inside = path.rpartition(":") if not Path(path).exists() else (path, "", "")
    file = file or path
    if not Path(file).exists():
        raise ConfigError(path, "", "there is no such folder or archive", "name a copy of a machine's root")
    try:
        if not Path(file).is_file():
            topology = read_topology(Root(path))
        else:
            with tarfile.open(file) as tar:
                topology = read_topology(_Snapshot(tar, inside or _only_machine(file, tar)))
    except _BROKEN as error:
        reason = f"no snapshot of a machine: {first_line(error).rstrip(':')}"
        raise ConfigError(path, "", reason, "name a copy of its root, or an archive of one") from error
    if not topology.cpus:
        raise ConfigError(path, "", "there are no CPUs in sys/devices/system/cpu", "name a copy of a machine's root")
    return topology


def read_archive(archive: Path, inside: str) -> Topology:
    """The machine of a folder in an archive. Raises ConfigError if it cannot be read."""
    try:
        with tarfile.open(archive) as tar:
            return read_topology(_Snapshot(tar, inside))
    except _BROKEN as error:
        raise ConfigError(str(archive), "", f"no snapshot of a machine: {first_line(error).rstrip(':')}") from error


def _only_machine(file: str, tar: tarfile.TarFile) -> str:
    """The folder of the one machine in an archive."""
    names = (posixpath.normpath(member.name) for member in _members(tar))
    roots = {posixpath.normpath(name.removesuffix(_ONLINE)) for name in names if name.endswith(_ONLINE)}
    if len(roots) != 1:
        listed = ", ".join(f"{file}:{root}" for root in sorted(roots)[:_MOST_LINKS])
        raise ConfigError(file, "", f"there are {len(roots)} machines in it", f"name one: {listed}" if roots else "")
    return roots.pop()


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The content of an archive. Raises ValueError for more than a machine has."""
    left = _MOST_UNPACKED
    for member in tar:
        left -= member.size + tarfile.BLOCKSIZE
        if left < 0:
            raise ValueError(f"it has more than {_MOST_UNPACKED >> 20} MiB, unpacked")
        if len(member.name) + len(member.linkname) <= _LONGEST_PATH:
            yield member


class _Snapshot:
    """The files of a machine in an archive, below one of its folders."""

    def __init__(self, tar: tarfile.TarFile, inside: str) -> None:
        self._texts: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}
        for member in _members(tar):
            path = "/" + posixpath.relpath(member.name, inside)
            folder, name = posixpath.split(path)
            if member.issym():
                self._links[path] = posixpath.join(folder, member.linkname)
            elif member.isfile() and (content := tar.extractfile(member)) is not None:
                text = content.read(_MOST_BYTES).partition(b"\0")[0]  # tar fills up what is shorter than its size
                self._texts[path] = text.decode(errors="replace")
            while name and name not in self._names.setdefault(folder, set()):  # its folders may be in no entry
                self._names[folder].add(name)
                folder, name = posixpath.split(folder)

    def find(self, path: str) -> str | None:
        """The text of a file, None if it is not there."""
        return self._texts.get(self._followed(path))

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        return sorted(self._names.get(self._followed(path), ()))

    def _followed(self, path: str) -> str:
        """A path without links."""
        for _ in range(_MOST_LINKS):
            parts = path.split("/")
            for end in range(2, len(parts) + 1):
                target = self._links.get("/".join(parts[:end]))
                if target is not None:
                    path = posixpath.normpath(posixpath.join(target, *parts[end:]))
                    break
            else:
                return path
        return path
