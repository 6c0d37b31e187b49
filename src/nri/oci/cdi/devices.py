"""The CDI devices of a machine: find their files, resolve conflicts, and inject devices into specs."""

from __future__ import annotations

import os
from typing import NamedTuple

from nri.config.root import resolve_below
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

#: The folders of the CDI library, lowest rank first: files of administrators, then files of programs.
FOLDERS = ("/etc/cdi", "/var/run/cdi")
_SUFFIXES = (".json", ".yaml")


class _Content(NamedTuple):
    """The content of the folders when they were last read."""

    fingerprints: tuple[object, ...]
    devices: dict[str, DeviceFile]
    conflicts: dict[str, list[str]]
    problems: tuple[ConfigError, ...]


class CdiDevices:
    """The CDI devices that the files in some folders describe.

    A device in a folder of higher rank hides a device of the same name in a folder of lower rank. Folders are checked
    for changes whenever devices are requested, so they do not need to be watched. Thread-safe.

    Args:
        folders: the folders, lowest rank first; a missing folder has no devices.
        root: the path of the host's root directory, for folders and device nodes.
    """

    def __init__(self, folders: Sequence[str] = FOLDERS, root: str = "/") -> None:
        self._folders = tuple(folders)
        self._root = root
        self._content: _Content | None = None

    @property
    def devices(self) -> dict[str, str]:
        """The qualified names of all devices, each with the path of its file."""
        return {name: file.path for name, file in sorted(self._current_content().devices.items())}

    @property
    def problems(self) -> tuple[ConfigError, ...]:
        """Files that cannot be used, and devices that several files of the same rank describe."""
        return self._current_content().problems

    def annotations(self, devices: Sequence[str], key: str) -> dict[str, str]:
        """Return the values of an annotation of devices, by qualified name; devices without it are left out."""
        content = self._current_content()
        values = {}
        for name in devices:
            file = content.devices.get(name)
            annotations = {} if file is None else file.annotations.get(name.partition("=")[2], {})
            if key in annotations:
                values[name] = annotations[key]
        return values

    def inject(self, spec: Spec, devices: Sequence[str]) -> Spec:
        """Return a copy of a spec with devices injected, given by their qualified names.

        A file's edits for all its devices are applied once, before the edits of its first device.

        Raises:
            SpecError: a device is unknown, or the host does not have a required device node.
        """
        content = self._current_content()
        missing = [name for name in devices if name not in content.devices]
        if missing:
            raise SpecError("", "; ".join(self._explain(name, content) for name in dict.fromkeys(missing)))
        edits = []
        files_done: set[str] = set()
        for name in devices:
            file = content.devices[name]
            if file.path not in files_done:
                files_done.add(file.path)
                edits.append(file.edits)
            edits.append(file.devices[name.partition("=")[2]])
        draft = Draft(spec)
        apply(draft, edits, self._root)
        return draft.spec

    def _explain(self, name: str, content: _Content) -> str:
        """Explain why a device cannot be resolved: its name is malformed, in conflict, or not in any file."""
        try:
            parse_name(name)
        except ValueError as error:
            return f"unresolvable CDI device: {error}"
        if name in content.conflicts:
            return f"unresolvable CDI device {name}: it is described by {' and by '.join(content.conflicts[name])}"
        text = f"unresolvable CDI device {name}: no file in {', '.join(self._folders)} describes it"
        broken = [problem.source for problem in content.problems if problem.source]
        return f"{text}; unusable files: {', '.join(dict.fromkeys(broken))}" if broken else text

    def _current_content(self) -> _Content:
        files = [(path, rank) for rank, folder in enumerate(self._folders) for path in self._files(folder)]
        fingerprints = tuple((path, rank, fingerprint(path)) for path, rank in files)
        content = self._content
        if content is None or content.fingerprints != fingerprints:
            content = self._content = _read(fingerprints, files)
        return content

    def _files(self, folder: str) -> list[str]:
        path = resolve_below(self._root, folder)
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError:
            return []
        return [f"{path}/{entry.name}" for entry in entries if entry.name.endswith(_SUFFIXES) and not entry.is_dir()]


def _read(fingerprints: tuple[object, ...], files: list[tuple[str, int]]) -> _Content:
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
                conflicts.pop(qualified, None)  # files of a lower rank no longer matter
            else:
                conflicts.setdefault(qualified, [other.path]).append(path)
    # Two files of the same rank hide each other, because the intended file is not known.
    for qualified, paths in conflicts.items():
        devices.pop(qualified)
        problems.append(ConfigError(paths[-1], "devices", f"{qualified} is also described by {paths[0]}"))
    return _Content(fingerprints, devices, conflicts, tuple(problems))
