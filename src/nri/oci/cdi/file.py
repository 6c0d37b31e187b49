"""One CDI file: read, and checked as a whole before any of it counts. Next: `nri.oci.cdi.devices`, which finds them.

Every problem is a ConfigError with the file, the line, the key, the value, and what to write instead. The classes are
the format: their attributes are its keys.
"""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from nri.config import Between, read, read_file
from nri.config.place import Path, at, show
from nri.config.syntax import line_of
from nri.errors import ConfigError
from nri.oci.process import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.config import Source

__all__ = [
    "VERSIONS",
    "DeviceFile",
    "Document",
    "Edits",
    "check_kind",
    "check_name",
    "check_version",
    "parse_name",
    "read_device_file",
]

_Number = Annotated[int, Between(0, (1 << 63) - 1)]
_Id = Annotated[int, Between(0, (1 << 32) - 1)]


class DeviceNode:
    """A device node of the container. The host is asked for what is not given."""

    path: str
    hostPath: str = ""  # noqa: N815  (the format's words, here and below)
    type: str = ""
    major: _Number = 0
    minor: _Number = 0
    fileMode: int | str | None = None  # noqa: N815
    permissions: str = ""
    uid: _Id | None = None
    gid: _Id | None = None


class NetDevice:
    """A network device of the host that moves into the container."""

    hostInterfaceName: str  # noqa: N815
    name: str


class Mount:
    """A mount of the container."""

    hostPath: str  # noqa: N815
    containerPath: str  # noqa: N815
    options: list[str] | None = None
    type: str = ""


class Hook:
    """A hook, with the name of the moment at which it runs."""

    hookName: str  # noqa: N815
    path: str
    args: list[str] | None = None
    env: list[str] | None = None
    timeout: int | None = None


class IntelRdt:
    """RDT settings."""

    closID: str = ""  # noqa: N815
    l3CacheSchema: str = ""  # noqa: N815
    memBwSchema: str = ""  # noqa: N815
    schemata: list[str] | None = None
    enableMonitoring: bool = False  # noqa: N815


class Edits:
    """The changes of a spec."""

    env: list[str] | None = None
    deviceNodes: list[DeviceNode] | None = None  # noqa: N815
    netDevices: list[NetDevice] | None = None  # noqa: N815
    hooks: list[Hook] | None = None
    mounts: list[Mount] | None = None
    intelRdt: IntelRdt | None = None  # noqa: N815
    additionalGids: list[_Id] | None = None  # noqa: N815

    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return not (self.intelRdt or any(getattr(self, name) for name in Edits.__annotations__))


class Device:
    """A device by its own name."""

    name: str
    annotations: dict[str, str] | None = None
    containerEdits: Edits | None = None  # noqa: N815


class Document:
    """The whole file: devices of one vendor and class, and what is done once for all of them."""

    cdiVersion: str  # noqa: N815
    kind: str
    annotations: dict[str, str] | None = None
    devices: list[Device] | None = None
    containerEdits: Edits | None = None  # noqa: N815


_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class QualifiedName(NamedTuple):
    """A name in its parts; `str` puts it together again."""

    vendor: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.kind}={self.name}"


def parse_name(text: str) -> QualifiedName:
    """Take a qualified name apart. ValueError says what is wrong with it."""
    kind, sign, name = text.partition("=")
    if not sign or text.startswith("/"):
        raise ValueError(f'"{text}" is no qualified name; write vendor.com/class=name')
    vendor, kind = check_kind(kind)
    return QualifiedName(vendor, kind, check_name(name))


def check_kind(text: str) -> tuple[str, str]:
    """Return vendor and class of ``vendor.com/class``. ValueError says what is wrong with them."""
    vendor, sign, kind = text.partition("/")
    if not sign:
        raise ValueError(f'"{text}" has no "/"; write vendor.com/class')
    for what, part in (("vendor", vendor), ("class", kind)):
        if not _KIND_PART.fullmatch(part):
            raise ValueError(
                f'the {what} "{part}" must begin with a letter, end with a letter or digit, and have letters, digits, '
                f"_, - and . only"
            )
    return vendor, kind


def check_name(name: str) -> str:
    """Return a device's own name. ValueError says what is wrong with it."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'the name "{name}" must begin and end with a letter or digit, and have letters, digits, _, -, . and : only'
        )
    return name


def _edits(document: Document) -> Iterator[Edits]:
    """All edits of a file."""
    for edits in (document.containerEdits, *(device.containerEdits for device in document.devices or ())):
        if edits is not None:
            yield edits


def _newer_rdt(document: Document) -> bool:
    rdts = (edits.intelRdt for edits in _edits(document))
    return any(rdt and (rdt.schemata is not None or rdt.enableMonitoring) for rdt in rdts)


def _dotted_class(document: Document) -> bool:
    return "." in document.kind.partition("/")[2]


def _digit_first(document: Document) -> bool:
    return any(device.name[:1].isdigit() for device in document.devices or ())


#: The features of each version, newest first: (version, what, whether a file uses it).
_FEATURES: tuple[tuple[str, str, Callable[[Document], bool]], ...] = (
    ("1.1.0", "netDevices", lambda one: any(edits.netDevices for edits in _edits(one))),
    ("1.1.0", "intelRdt.schemata and intelRdt.enableMonitoring", _newer_rdt),
    ("0.7.0", "intelRdt", lambda one: any(edits.intelRdt for edits in _edits(one))),
    ("0.7.0", "additionalGids", lambda one: any(edits.additionalGids for edits in _edits(one))),
    ("0.6.0", "annotations", lambda one: bool(one.annotations or any(each.annotations for each in one.devices or ()))),
    ("0.6.0", "a class with a dot", _dotted_class),
    ("0.5.0", "a device name that begins with a digit", _digit_first),
    (
        "0.5.0",
        "hostPath of a device node",
        lambda one: any(node.hostPath for edits in _edits(one) for node in edits.deviceNodes or ()),
    ),
    ("0.4.0", "type of a mount", lambda one: any(mount.type for edits in _edits(one) for mount in edits.mounts or ())),
)
#: Every released version, oldest first. Those before 0.3.0 are known, and no file may be of them.
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_OLDEST = "0.3.0"


def check_version(document: Document) -> None:
    """Check that a file's version exists and has what the file uses. ValueError says what is wrong."""
    version = document.cdiVersion.removeprefix("v")
    if version not in VERSIONS:
        raise ValueError(f'"{document.cdiVersion}" is no version; known are {", ".join(VERSIONS[2:])}')
    needed, what = next(((since, name) for since, name, used in _FEATURES if used(document)), (_OLDEST, "the format"))
    if VERSIONS.index(version) < VERSIONS.index(needed):
        raise ValueError(f'"{document.cdiVersion}" is too old: {what} came with {needed}')


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
        return str(QualifiedName(self.vendor, self.kind, name))


class _Wrong(NamedTuple):
    path: Path
    reason: str
    suggestion: str = ""


def read_device_file(path: str, priority: int = 0) -> DeviceFile:
    """Read and check a file. ConfigError for the first problem, with the others in `others`."""
    source = read_file(path)
    document = read(Document, [source])
    found = list(_problems(document))
    if found:
        errors = [_error(source, wrong) for wrong in found]
        first = errors[0]
        raise ConfigError(first.source, first.key, first.reason, first.suggestion, errors[1:])
    vendor, kind = check_kind(document.kind)
    devices = {device.name: device.containerEdits or Edits() for device in document.devices or ()}
    return DeviceFile(path, priority, vendor, kind, devices, document.containerEdits or Edits())


def _error(source: Source, wrong: _Wrong) -> ConfigError:
    return ConfigError(at(source, line_of(source, wrong.path)), show(wrong.path), wrong.reason, wrong.suggestion)


def _problems(document: Document) -> Iterator[_Wrong]:
    for path, check in (
        (("cdiVersion",), lambda: check_version(document)),
        (("kind",), lambda: check_kind(document.kind)),
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
            check_name(device.name)
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
                yield _Wrong((*here, place, "fileMode"), f'"{node.fileMode}" is not a file mode', "write such as 0o660")
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
