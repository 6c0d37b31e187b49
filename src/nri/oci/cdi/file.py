"""One CDI file: read, and checked as a whole before any of it counts. Next: `nri.oci.cdi.devices`, which finds them.

Every problem is a ConfigError with the file, the line, the key, the value, and what to write instead.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.config import read, read_file
from nri.config.place import Path, at, show
from nri.config.syntax import line_of
from nri.errors import ConfigError
from nri.oci.cdi import names
from nri.oci.cdi.format import Document, Edits
from nri.oci.cdi.versions import check_version
from nri.oci.process import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.config import Source

__all__ = ["DeviceFile", "read_device_file"]

HOOK_NAMES = tuple(name for _, name in HOOKS)
NODE_TYPES = ("", "b", "c", "u", "p")
NO_PERMISSIONS = "none"
_OCTAL = re.compile(r"0o?[0-7]{1,7}")


class DeviceFile(NamedTuple):
    """A file that is in order: its devices by their own names, and what is done once for any of them."""

    path: str
    priority: int
    vendor: str
    kind: str
    devices: dict[str, Edits]
    edits: Edits

    def qualified(self, name: str) -> str:
        """The qualified name of one of the devices."""
        return str(names.QualifiedName(self.vendor, self.kind, name))


class _Wrong(NamedTuple):
    path: Path
    reason: str
    suggestion: str = ""


def read_device_file(path: str, priority: int = 0) -> DeviceFile:
    """Read and check a file. ConfigError for the first problem, with the others in `others`."""
    source = read_file(path, ordinary=True)
    document = read(Document, [source])
    found = list(_problems(document))
    if found:
        errors = [_error(source, wrong) for wrong in found]
        first = errors[0]
        raise ConfigError(first.source, first.key, first.reason, first.suggestion, errors[1:])
    vendor, kind = names.check_kind(document.kind)
    devices = {device.name: device.containerEdits or Edits() for device in document.devices or ()}
    return DeviceFile(path, priority, vendor, kind, devices, document.containerEdits or Edits())


def _error(source: Source, wrong: _Wrong) -> ConfigError:
    return ConfigError(at(source, line_of(source, wrong.path)), show(wrong.path), wrong.reason, wrong.suggestion)


def _problems(document: Document) -> Iterator[_Wrong]:
    for path, check in (
        (("cdiVersion",), lambda: check_version(document)),
        (("kind",), lambda: names.check_kind(document.kind)),
    ):
        try:
            check()
        except ValueError as error:
            yield _Wrong(path, str(error))
    if not document.devices:
        yield _Wrong(("devices",), "there is no device in it")
    yield from _edits_problems(document.containerEdits or Edits(), ("containerEdits",))
    seen: set[str] = set()
    for place, device in enumerate(document.devices or ()):
        here: Path = ("devices", place)
        try:
            names.check_name(device.name)
        except ValueError as error:
            yield _Wrong((*here, "name"), str(error))
        if device.name in seen:
            yield _Wrong((*here, "name"), f'"{device.name}" is there twice', "give each device a name of its own")
        seen.add(device.name)
        edits = device.containerEdits or Edits()
        if edits.is_empty():
            yield _Wrong(here, f'device "{device.name}" has no containerEdits')
        yield from _edits_problems(edits, (*here, "containerEdits"))


def _edits_problems(edits: Edits, here: Path) -> Iterator[_Wrong]:
    yield from _env_problems(edits.env, (*here, "env"))
    yield from _node_problems(edits, (*here, "deviceNodes"))
    for place, hook in enumerate(edits.hooks or ()):
        at_hook: Path = (*here, "hooks", place)
        if hook.hookName not in HOOK_NAMES:
            yield _Wrong(
                (*at_hook, "hookName"), f'no hook is called "{hook.hookName}"', f"known: {', '.join(HOOK_NAMES)}"
            )
        if not hook.path:
            yield _Wrong((*at_hook, "path"), "is empty")
        yield from _env_problems(hook.env, (*at_hook, "env"))
    for place, mount in enumerate(edits.mounts or ()):
        for key in ("hostPath", "containerPath"):
            if not getattr(mount, key):
                yield _Wrong((*here, "mounts", place, key), "is empty")
    if edits.intelRdt and not is_clos_id(edits.intelRdt.closID):
        yield _Wrong((*here, "intelRdt", "closID"), f'"{edits.intelRdt.closID}" can be no name of a folder')
    yield from _net_problems(edits, (*here, "netDevices"))


def _env_problems(env: list[str] | None, here: Path) -> Iterator[_Wrong]:
    for place, entry in enumerate(env or ()):
        if entry.find("=") <= 0:
            yield _Wrong((*here, place), f'"{entry}" is no variable', "write NAME=value")


def _node_problems(edits: Edits, here: Path) -> Iterator[_Wrong]:
    for place, node in enumerate(edits.deviceNodes or ()):
        if not node.path:
            yield _Wrong((*here, place, "path"), "is empty")
        if node.type not in NODE_TYPES:
            yield _Wrong((*here, place, "type"), f'"{node.type}" is no type of device', "write b, c, u or p")
        if node.permissions != NO_PERMISSIONS and node.permissions.strip("rwm"):
            yield _Wrong((*here, place, "permissions"), f'"{node.permissions}" is none', "write some of rwm, or none")
        if isinstance(node.fileMode, str):
            if not _OCTAL.fullmatch(node.fileMode):
                yield _Wrong((*here, place, "fileMode"), f'"{node.fileMode}" is no file mode', "write such as 0o660")
            else:
                node.fileMode = int(node.fileMode.replace("o", ""), 8)


def _net_problems(edits: Edits, here: Path) -> Iterator[_Wrong]:
    for key in ("hostInterfaceName", "name"):
        seen: set[str] = set()
        for place, device in enumerate(edits.netDevices or ()):
            name = getattr(device, key)
            if not name:
                yield _Wrong((*here, place, key), "is empty")
            elif name in seen:
                yield _Wrong((*here, place, key), f'"{name}" is there twice')
            seen.add(name)


def is_clos_id(text: str) -> bool:
    """Whether a text can be the name of a group of resctrl: "/" is the root group, "" is none."""
    return text == "/" or not (len(text) >= 4096 or text in (".", "..") or "/" in text or "\n" in text)
