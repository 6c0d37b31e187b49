"""Read and validate a CDI file. The classes define the file format: their attributes are the keys."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from nri.config import Between, read, read_file
from nri.config.key_path import Path, location, path_text
from nri.config.syntax import line_of
from nri.errors import ConfigError
from nri.oci.process import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.config import Source

_Number = Annotated[int, Between(0, (1 << 63) - 1)]
_Id = Annotated[int, Between(0, (1 << 32) - 1)]


class DeviceNode:
    """A device node of the container. Missing fields are taken from the host's node."""

    path: str
    hostPath: str = ""  # noqa: N815  (the format's keys, here and below)
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
    """A hook, with the name of the lifecycle event at which it runs."""

    hookName: str  # noqa: N815
    path: str
    args: list[str] | None = None
    env: list[str] | None = None
    timeout: int | None = None


class IntelRdt:
    """Settings for Intel RDT."""

    closID: str = ""  # noqa: N815
    l3CacheSchema: str = ""  # noqa: N815
    memBwSchema: str = ""  # noqa: N815
    schemata: list[str] | None = None
    enableMonitoring: bool = False  # noqa: N815


class Edits:
    """Changes to a spec."""

    env: list[str] | None = None
    deviceNodes: list[DeviceNode] | None = None  # noqa: N815
    netDevices: list[NetDevice] | None = None  # noqa: N815
    hooks: list[Hook] | None = None
    mounts: list[Mount] | None = None
    intelRdt: IntelRdt | None = None  # noqa: N815
    additionalGids: list[_Id] | None = None  # noqa: N815

    def is_empty(self) -> bool:
        """Whether there are no changes."""
        return not (self.intelRdt or any(getattr(self, name) for name in Edits.__annotations__))


class Device:
    """A device, by its unqualified name."""

    name: str
    annotations: dict[str, str] | None = None
    containerEdits: Edits | None = None  # noqa: N815


class Document:
    """A CDI file: devices of a vendor and class, and edits that apply once for all these devices."""

    cdiVersion: str  # noqa: N815
    kind: str
    annotations: dict[str, str] | None = None
    devices: list[Device] | None = None
    containerEdits: Edits | None = None  # noqa: N815


_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class QualifiedName(NamedTuple):
    """The parts of a qualified name; `str` joins them again."""

    vendor: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.kind}={self.name}"


def parse_name(text: str) -> QualifiedName:
    """Split a qualified name. Raises ValueError, with the reason, if it is invalid."""
    kind, sign, name = text.partition("=")
    if not sign or text.startswith("/"):
        raise ValueError(f'"{text}" is not a qualified name; write vendor.com/class=name')
    vendor, kind = check_kind(kind)
    return QualifiedName(vendor, kind, check_name(name))


def check_kind(text: str) -> tuple[str, str]:
    """Return vendor and class of ``vendor.com/class``. Raises ValueError, with the reason, if they are invalid."""
    vendor, sign, kind = text.partition("/")
    if not sign:
        raise ValueError(f'"{text}" has no "/"; write vendor.com/class')
    for part_name, part in (("vendor", vendor), ("class", kind)):
        if not _KIND_PART.fullmatch(part):
            raise ValueError(
                f'the {part_name} "{part}" must begin with a letter, end with a letter or digit, and contain only '
                f"letters, digits, _, - and ."
            )
    return vendor, kind


def check_name(name: str) -> str:
    """Return a device's unqualified name. Raises ValueError, with the reason, if it is invalid."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'the name "{name}" must begin and end with a letter or digit, and contain only letters, digits, '
            "_, -, . and :"
        )
    return name


def _edits(document: Document) -> Iterator[Edits]:
    """Yield all edits of a file."""
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


#: The features that require a version, newest first: (version, feature, function that checks a document for it).
_FEATURES: tuple[tuple[str, str, Callable[[Document], bool]], ...] = (
    ("1.1.0", "netDevices", lambda document: any(edits.netDevices for edits in _edits(document))),
    ("1.1.0", "intelRdt.schemata and intelRdt.enableMonitoring", _newer_rdt),
    ("0.7.0", "intelRdt", lambda document: any(edits.intelRdt for edits in _edits(document))),
    ("0.7.0", "additionalGids", lambda document: any(edits.additionalGids for edits in _edits(document))),
    (
        "0.6.0",
        "annotations",
        lambda document: bool(document.annotations or any(d.annotations for d in document.devices or ())),
    ),
    ("0.6.0", "a class with a dot", _dotted_class),
    ("0.5.0", "a device name that begins with a digit", _digit_first),
    (
        "0.5.0",
        "hostPath of a device node",
        lambda document: any(node.hostPath for edits in _edits(document) for node in edits.deviceNodes or ()),
    ),
    (
        "0.4.0",
        "type of a mount",
        lambda document: any(mount.type for edits in _edits(document) for mount in edits.mounts or ()),
    ),
)
#: Every released version, oldest first. Versions before _OLDEST are known, but files must not use them.
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_OLDEST = "0.3.0"


def check_version(document: Document) -> None:
    """Check that a file's version exists and has the used features. Raises ValueError, with the reason, if not."""
    version = document.cdiVersion.removeprefix("v")
    if version not in VERSIONS:
        raise ValueError(f'"{document.cdiVersion}" is not a version of CDI; known versions: {", ".join(VERSIONS[2:])}')
    needed, part_name = next(
        ((since, name) for since, name, used in _FEATURES if used(document)), (_OLDEST, "the format")
    )
    if VERSIONS.index(version) < VERSIONS.index(needed):
        raise ValueError(f'"{document.cdiVersion}" is too old: {part_name} requires {needed}')


HOOK_NAMES = tuple(name for _, name in HOOKS)
NODE_TYPES = ("", "b", "c", "u", "p")
NO_PERMISSIONS = "none"
_OCTAL = re.compile(r"0o?[0-7]{1,7}")


class DeviceFile(NamedTuple):
    """A valid file.

    Attributes:
        path: the path of the file.
        priority: the rank of the file's folder.
        vendor, kind: the vendor and the class of its devices.
        devices: the edits of each device, by unqualified name.
        edits: the edits that apply once for all devices.
        annotations: the annotations of devices, including the file's annotations, by unqualified name.
    """

    path: str
    priority: int
    vendor: str
    kind: str
    devices: dict[str, Edits]
    edits: Edits
    annotations: dict[str, dict[str, str]]

    def qualified(self, name: str) -> str:
        """The qualified name of a device of this file."""
        return str(QualifiedName(self.vendor, self.kind, name))


class _Problem(NamedTuple):
    path: Path
    reason: str
    suggestion: str = ""


def read_device_file(path: str, priority: int = 0) -> DeviceFile:
    """Read and check a file. Raises ConfigError for the first problem, with the other problems in `others`."""
    source = read_file(path)
    document = read(Document, [source])
    problems = list(_problems(document))
    if problems:
        errors = [_error(source, problem) for problem in problems]
        first = errors[0]
        raise ConfigError(first.source, first.key, first.reason, first.suggestion, errors[1:])
    vendor, kind = check_kind(document.kind)
    devices = {device.name: device.containerEdits or Edits() for device in document.devices or ()}
    annotations = {
        device.name: {**(document.annotations or {}), **(device.annotations or {})}
        for device in document.devices or ()
        if document.annotations or device.annotations
    }
    return DeviceFile(path, priority, vendor, kind, devices, document.containerEdits or Edits(), annotations)


def _error(source: Source, problem: _Problem) -> ConfigError:
    return ConfigError(
        location(source, line_of(source, problem.path)), path_text(problem.path), problem.reason, problem.suggestion
    )


def _problems(document: Document) -> Iterator[_Problem]:
    for path, check in (
        (("cdiVersion",), lambda: check_version(document)),
        (("kind",), lambda: check_kind(document.kind)),
    ):
        try:
            check()
        except ValueError as error:
            yield _Problem(path, str(error))
    if not document.devices:
        yield _Problem(("devices",), "there are no devices")
    yield from _edits_problems(document.containerEdits or Edits(), ("containerEdits",))
    names: set[str] = set()
    for place, device in enumerate(document.devices or ()):
        device_path: Path = ("devices", place)
        try:
            check_name(device.name)
        except ValueError as error:
            yield _Problem((*device_path, "name"), str(error))
        if device.name in names:
            yield _Problem((*device_path, "name"), f'"{device.name}" is used twice', "give each device its own name")
        names.add(device.name)
        edits = device.containerEdits or Edits()
        if edits.is_empty():
            yield _Problem(device_path, f'device "{device.name}" has no containerEdits')
        yield from _edits_problems(edits, (*device_path, "containerEdits"))


def _edits_problems(edits: Edits, path: Path) -> Iterator[_Problem]:
    yield from _env_problems(edits.env, (*path, "env"))
    yield from _node_problems(edits, (*path, "deviceNodes"))
    for place, hook in enumerate(edits.hooks or ()):
        hook_path: Path = (*path, "hooks", place)
        if hook.hookName not in HOOK_NAMES:
            yield _Problem(
                (*hook_path, "hookName"), f'"{hook.hookName}" is not a hook', f"known: {', '.join(HOOK_NAMES)}"
            )
        if not hook.path:
            yield _Problem((*hook_path, "path"), "is empty")
        yield from _env_problems(hook.env, (*hook_path, "env"))
    for place, mount in enumerate(edits.mounts or ()):
        for key in ("hostPath", "containerPath"):
            if not getattr(mount, key):
                yield _Problem((*path, "mounts", place, key), "is empty")
    if edits.intelRdt and not is_clos_id(edits.intelRdt.closID):
        yield _Problem((*path, "intelRdt", "closID"), f'"{edits.intelRdt.closID}" is not a valid folder name')
    yield from _net_problems(edits, (*path, "netDevices"))


def _env_problems(env: list[str] | None, path: Path) -> Iterator[_Problem]:
    for place, entry in enumerate(env or ()):
        if entry.find("=") <= 0:
            yield _Problem((*path, place), f'"{entry}" is not an environment variable', "write NAME=value")


def _node_problems(edits: Edits, path: Path) -> Iterator[_Problem]:
    for place, node in enumerate(edits.deviceNodes or ()):
        if not node.path:
            yield _Problem((*path, place, "path"), "is empty")
        if node.type not in NODE_TYPES:
            yield _Problem((*path, place, "type"), f'"{node.type}" is not a device type', "write b, c, u or p")
        if node.permissions != NO_PERMISSIONS and node.permissions.strip("rwm"):
            yield _Problem(
                (*path, place, "permissions"),
                f'"{node.permissions}" is not a combination of r, w and m',
                "write a combination of r, w and m, or none",
            )
        if isinstance(node.fileMode, str):
            if not _OCTAL.fullmatch(node.fileMode):
                yield _Problem(
                    (*path, place, "fileMode"), f'"{node.fileMode}" is not a file mode', "write it like 0o660"
                )
            else:
                node.fileMode = int(node.fileMode.replace("o", ""), 8)


def _net_problems(edits: Edits, path: Path) -> Iterator[_Problem]:
    for key in ("hostInterfaceName", "name"):
        names: set[str] = set()
        for place, device in enumerate(edits.netDevices or ()):
            name = getattr(device, key)
            if not name:
                yield _Problem((*path, place, key), "is empty")
            elif name in names:
                yield _Problem((*path, place, key), f'"{name}" is used twice')
            names.add(name)


def is_clos_id(text: str) -> bool:
    """Whether a string can name a resctrl group: "/" is the root group, "" means no group."""
    return text == "/" or not (len(text) >= 4096 or text in (".", "..") or "/" in text or "\n" in text)
