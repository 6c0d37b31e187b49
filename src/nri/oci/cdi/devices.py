"""The CDI devices of a machine: files found, conflicts settled, devices put into specs.

Folders have a rank, the last one the highest: a device of /var/run/cdi hides one of the same name in /etc/cdi. Two of
one rank hide each other, because nothing says which was meant. A file that is wrong counts for nothing, and is
in `problems`; the others count. Next: `nri.oci.cdi.file`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from nri.config.root import inside
from nri.config.watch import fingerprint
from nri.errors import ConfigError, SpecError
from nri.oci.cdi.edits import apply
from nri.oci.cdi.file import parse_name, read_device_file
from nri.oci.draft import Draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.oci.cdi.file import DeviceFile
    from nri.oci.draft import Spec

__all__ = ["CdiDevices"]

#: Where the CDI library looks, lowest rank first: what administrators write, and what programs write.
FOLDERS = ("/etc/cdi", "/var/run/cdi")
_SUFFIXES = (".json", ".yaml")


class _Known(NamedTuple):
    """The content of the folders when they were last read."""

    fingerprint: tuple[object, ...]
    devices: dict[str, DeviceFile]
    conflicts: dict[str, list[str]]
    problems: tuple[ConfigError, ...]


class CdiDevices:
    """The CDI devices that the files in some folders describe.

    Folders are looked at whenever devices are asked for, and read again if anything in them has changed. Any thread may
    ask.

    Args:
        folders: lowest rank first; one that is not there has no devices.
        root: where the host's / is, for folders and device nodes.
    """

    def __init__(self, folders: Sequence[str] = FOLDERS, root: str = "/") -> None:
        self._folders = tuple(folders)
        self._root = root
        self._known: _Known | None = None

    @property
    def devices(self) -> dict[str, str]:
        """The qualified names of all devices, each with the path of its file."""
        return {name: file.path for name, file in sorted(self._current().devices.items())}

    @property
    def problems(self) -> tuple[ConfigError, ...]:
        """The problems: each file that cannot be used, and each device that several files of one rank describe."""
        return self._current().problems

    def inject(self, spec: Spec, devices: Sequence[str]) -> Spec:
        """Put devices, by their qualified names, into a spec; return the new one. The spec given is not changed.

        The edits of a file for all of its devices are made once, before the first of them.

        Raises:
            SpecError: a device is not known, or the host lacks what it needs.
        """
        known = self._current()
        missing = [name for name in devices if name not in known.devices]
        if missing:
            raise SpecError("", "; ".join(self._why_not(name, known) for name in dict.fromkeys(missing)))
        edits = []
        seen: set[str] = set()
        for name in devices:
            file = known.devices[name]
            if file.path not in seen:
                seen.add(file.path)
                edits.append(file.edits)
            edits.append(file.devices[name.partition("=")[2]])
        draft = Draft(spec)
        apply(draft, edits, self._root)
        return draft.spec

    def _why_not(self, name: str, known: _Known) -> str:
        """Say why there is no such device: no name at all, a conflict, or nowhere, with the files that are wrong."""
        try:
            parse_name(name)
        except ValueError as error:
            return f"unresolvable CDI device: {error}"
        if name in known.conflicts:
            return f"unresolvable CDI device {name}: described by {' and by '.join(known.conflicts[name])}"
        text = f"unresolvable CDI device {name}: no file in {', '.join(self._folders)} describes it"
        broken = [problem.source for problem in known.problems if problem.source]
        return f"{text}; not usable: {', '.join(dict.fromkeys(broken))}" if broken else text

    def _current(self) -> _Known:
        files = [(path, rank) for rank, folder in enumerate(self._folders) for path in self._files(folder)]
        seen = tuple((path, rank, fingerprint(path)) for path, rank in files)
        known = self._known
        if known is None or known.fingerprint != seen:
            known = self._known = _read(seen, files)
        return known

    def _files(self, folder: str) -> list[str]:
        where = inside(self._root, folder)
        try:
            entries = sorted(os.scandir(where), key=lambda entry: entry.name)
        except OSError:
            return []
        return [f"{where}/{one.name}" for one in entries if one.name.endswith(_SUFFIXES) and not one.is_dir()]


def _read(seen: tuple[object, ...], files: list[tuple[str, int]]) -> _Known:
    devices: dict[str, DeviceFile] = {}
    conflicts: dict[str, list[str]] = {}
    problems: list[ConfigError] = []
    for path, rank in files:
        try:
            file = read_device_file(path, rank)
        except ConfigError as error:
            problems.append(error)
            continue
        for name in file.devices:
            qualified = file.qualified(name)
            other = devices.get(qualified)
            if other is None or other.priority < rank:
                devices[qualified] = file
                conflicts.pop(qualified, None)  # those of a lower rank are hidden, too
            else:
                conflicts.setdefault(qualified, [other.path]).append(path)
    for qualified, paths in conflicts.items():
        devices.pop(qualified)
        problems.append(ConfigError(paths[-1], "devices", f"{qualified} is described by {paths[0]}, too"))
    return _Known(seen, devices, conflicts, tuple(problems))
