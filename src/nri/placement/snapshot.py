"""Read a machine from a copy of its /sys: a folder, or an archive, which is not unpacked to disk."""

from __future__ import annotations

import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from nri.config.key_path import first_line
from nri.errors import ConfigError
from nri.host import Root
from nri.host.topology import Topology, read_topology

#: Maximum size of a file; files in /sys are much smaller.
_MAX_FILE_BYTES = 1 << 20
_MAX_UNPACKED_BYTES = 512 << 20
#: Maximum length of a path in characters; paths in /sys have about 200.
_MAX_PATH_LENGTH = 4096
#: The exceptions that a damaged archive causes.
_DAMAGE = (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError)
_MAX_LINKS = 40
_MAX_NAMES = 40
#: The file that identifies the root of a machine in an archive.
_ONLINE = "sys/devices/system/cpu/online"


def read_machine(path: str) -> Topology:
    """Read a machine from a root folder, or from an archive: FILE, or FILE:FOLDER if it contains several machines.

    Raises ConfigError if it cannot be read.
    """
    file, _, inside = path.rpartition(":") if not Path(path).exists() else (path, "", "")
    file = file or path
    if not Path(file).exists():
        raise ConfigError(path, "", "folder or archive not found", "specify a copy of a machine's root")
    try:
        if not Path(file).is_file():
            topology = read_topology(Root(path))
        else:
            with tarfile.open(file) as tar:
                topology = read_topology(_Snapshot(tar, inside or _only_machine(file, tar)))
    except _DAMAGE as error:
        reason = f"cannot read the machine: {first_line(error).rstrip(':')}"
        raise ConfigError(path, "", reason, "specify a copy of the machine's root, or an archive of it") from error
    if not topology.cpus:
        raise ConfigError(path, "", "no CPUs found in sys/devices/system/cpu", "specify a copy of a machine's root")
    return topology


def read_archive(archive: Path, inside: str) -> Topology:
    """Read a machine from a folder in an archive. Raises ConfigError if it cannot be read."""
    try:
        with tarfile.open(archive) as tar:
            return read_topology(_Snapshot(tar, inside))
    except _DAMAGE as error:
        raise ConfigError(str(archive), "", f"cannot read the machine: {first_line(error).rstrip(':')}") from error


def _only_machine(file: str, tar: tarfile.TarFile) -> str:
    """The folder of the only machine in an archive. Raises ConfigError if the archive has no machine, or several."""
    names = (posixpath.normpath(member.name) for member in _members(tar))
    roots = {posixpath.normpath(name.removesuffix(_ONLINE)) for name in names if name.endswith(_ONLINE)}
    if len(roots) != 1:
        listed = ", ".join(f"{file}:{root}" for root in sorted(roots)[:_MAX_NAMES])
        raise ConfigError(file, "", f"the archive has {len(roots)} machines", f"name one: {listed}" if roots else "")
    return roots.pop()


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive. Raises ValueError if it is too large for a machine."""
    remaining_bytes = _MAX_UNPACKED_BYTES
    for member in tar:
        remaining_bytes -= member.size + tarfile.BLOCKSIZE
        if remaining_bytes < 0:
            raise ValueError(f"more than {_MAX_UNPACKED_BYTES >> 20} MiB when unpacked")
        if len(member.name) + len(member.linkname) <= _MAX_PATH_LENGTH:
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
                text = content.read(_MAX_FILE_BYTES).partition(b"\0")[0]  # tar pads files shorter than their size
                self._texts[path] = text.decode(errors="replace")
            while name and name not in self._names.setdefault(
                folder, set()
            ):  # an archive need not have entries for folders
                self._names[folder].add(name)
                folder, name = posixpath.split(folder)

    def find(self, path: str) -> str | None:
        """The content of a file. Returns None if the file does not exist."""
        return self._texts.get(self._resolve(path))

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        return sorted(self._names.get(self._resolve(path), ()))

    def _resolve(self, path: str) -> str:
        """Follow the links in a path."""
        for _ in range(_MAX_LINKS):
            parts = path.split("/")
            for end in range(2, len(parts) + 1):
                target = self._links.get("/".join(parts[:end]))
                if target is not None:
                    path = posixpath.normpath(posixpath.join(target, *parts[end:]))
                    break
            else:
                return path
        return path
