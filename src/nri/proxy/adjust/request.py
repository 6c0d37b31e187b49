"""An adjustment put into the request that makes a container.

Rules: the request is changed in place; every entry of the adjustment is either in it afterwards or in the list that is
returned, with its plugin. Pure, but for the question which node of the host a device is. A plugin
may set thousands of entries, so none of them is looked for by going through the others. Next: `nri.proxy.adjust.table`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nri.adaptation.merge import RESOURCES_TREE, TREE, Entry, Kind, Row, read
from nri.api import messages as m
from nri.api.optional import get
from nri.api.owners import entry_owners, owner
from nri.api.removal import split
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust.table import TABLE
from nri.text import plain

__all__ = [
    "CLEAR_CPUS",
    "ZERO",
    "ByPath",
    "Owners",
    "Unsupported",
    "adjust",
    "node_of",
    "put_devices",
    "put_mounts",
    "wishes",
    "zeros",
]


class ByPath:
    """A repeated field whose entries have a `container_path`; `done` puts the changes into it."""

    def __init__(self, field: Any) -> None:
        self._field = field
        self._entries: dict[int, Any] = {}
        self._places: dict[str, list[int]] = {}
        self._next = 0
        for entry in field:
            self.add(entry)

    def __contains__(self, path: str) -> bool:
        return path in self._places

    def add(self, entry: Any) -> None:
        """Add an entry as the last one."""
        self._entries[self._next] = entry
        self._places.setdefault(entry.container_path, []).append(self._next)
        self._next += 1

    def drop(self, path: str) -> None:
        """Drop all entries of a path."""
        for place in self._places.pop(path, ()):
            del self._entries[place]

    def done(self) -> None:
        """Make the field what the entries are now."""
        entries = list(self._entries.values())
        del self._field[:]
        self._field.extend(entries)


_PROPAGATION = {
    "private": pb.PROPAGATION_PRIVATE,
    "rprivate": pb.PROPAGATION_PRIVATE,
    "slave": pb.PROPAGATION_HOST_TO_CONTAINER,
    "rslave": pb.PROPAGATION_HOST_TO_CONTAINER,
    "shared": pb.PROPAGATION_BIDIRECTIONAL,
    "rshared": pb.PROPAGATION_BIDIRECTIONAL,
}
_SAID = {"bind", "rbind", "rw", "ro", "rro", *_PROPAGATION}
_NO_OPTIONS = "the CRI's mounts have no such options"
_NO_TYPE = "the CRI has bind mounts only"
_NOT_THERE = "it is not in the request: runtimes add it, and the CRI cannot remove that"


def put_mounts(config: pb.ContainerConfig, entry: Entry) -> list[tuple[str, object, str]]:
    """Put mounts into a container's configuration, in the order in which plugins gave them."""
    rest: list[tuple[str, object, str]] = []
    set_again, there = set(entry.sets), ByPath(config.mounts)
    for mount in entry.value:
        destination, removed = split(mount.destination)
        if removed and destination not in there and destination not in set_again:
            rest.append((destination, "removed", _NOT_THERE))
        if not removed and not _is_bind(mount):
            rest.append((destination, f"type {mount.type or 'none'}", _NO_TYPE))
            continue
        there.drop(destination)
        if removed:
            continue
        there.add(_bind(mount))
        if lost := [option for option in mount.options if option not in _SAID]:
            rest.append((destination, ",".join(lost), _NO_OPTIONS))
    there.done()
    return rest


def _is_bind(mount: m.Mount) -> bool:
    return mount.type in ("bind", "rbind") or bool({"bind", "rbind"} & set(mount.options))


def _bind(mount: m.Mount) -> pb.Mount:
    made = pb.Mount(container_path=mount.destination, host_path=mount.source)
    for option in mount.options:  # the last one of a kind counts
        if option in _PROPAGATION:
            made.propagation = _PROPAGATION[option]
        elif option in ("ro", "rro", "rw"):
            made.readonly, made.recursive_read_only = option != "rw", option == "rro"
    return made


_FOLDERS = {"b": "block", "c": "char", "u": "char"}
_ALL = "rwm"
_NO_NODE = "the host has no node of this device"
_OF_THE_NODE = "the CRI takes mode and owner of the host's node"


def put_devices(config: pb.ContainerConfig, entry: Entry) -> list[tuple[str, object, str]]:
    """Put devices into a container's configuration, in the order in which plugins gave them."""
    rest: list[tuple[str, object, str]] = []
    set_again, there = set(entry.sets), ByPath(config.devices)
    for device in entry.value:
        path, removed = split(device.path)
        if removed and path not in there and path not in set_again:
            rest.append((path, "removed", _NOT_THERE))
        node = "" if removed else node_of(device)
        if not (removed or node):
            rest.append((path, f"{device.type} {device.major}:{device.minor}", _NO_NODE))
            continue
        there.drop(path)
        if not removed:
            there.add(pb.Device(container_path=path, host_path=node, permissions=_ALL))
            if lost := _differs(device, node):
                rest.append((path, lost, _OF_THE_NODE))
    there.done()
    return rest


def node_of(device: m.LinuxDevice, root: Path = Path("/")) -> str:
    """The path of the host's node of a device; empty if there is none. `root` is where the host's files are."""
    if _is(root, device.path, device):
        return device.path
    folder = _FOLDERS.get(device.type)
    if folder is None:
        return ""
    try:
        text = (root / f"sys/dev/{folder}/{device.major}:{device.minor}/uevent").read_text()
    except OSError:
        return ""
    names = [line.removeprefix("DEVNAME=") for line in text.splitlines() if line.startswith("DEVNAME=")]
    path = f"/dev/{names[0]}" if names else ""
    return path if path and _is(root, path, device) else ""


def _is(root: Path, path: str, device: m.LinuxDevice) -> bool:
    try:
        found = os.stat(root / path.lstrip("/"))
    except (OSError, ValueError):
        return False
    kinds = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "u": stat.S_ISCHR}
    kind = kinds.get(device.type)
    numbers = os.major(found.st_rdev), os.minor(found.st_rdev)
    return kind is not None and kind(found.st_mode) and numbers == (device.major, device.minor)


def _differs(device: m.LinuxDevice, node: str) -> str:
    """Say what of a device's mode and owner the host's node has otherwise."""
    found = os.stat(node)
    rows = (
        ("file_mode", stat.S_IMODE(found.st_mode), "o"),
        ("uid", found.st_uid, "d"),
        ("gid", found.st_gid, "d"),
    )
    parts = []
    for name, is_so, form in rows:
        wanted = get(device, name)
        if wanted is not None and (stat.S_IMODE(wanted) if name == "file_mode" else wanted) != is_so:
            parts.append(f"{name} {wanted:{form}}")
    return ", ".join(parts)


_SHOWN = 120  # characters of a value
#: The annotation with which a plugin takes the CPUs away that the kubelet asks for: NRI has no word for that.
CLEAR_CPUS = "nri.proxy/clear-cpus"
#: Why a 0 is not in a request.
ZERO = '0 says "not set" in the CRI'


class Unsupported(NamedTuple):
    """An entry of an adjustment, or a part of one, that is not in the request. Its text is one line for people.

    Attributes:
        field: the field's path in the adjustment, with the key of its entry in brackets.
        value: what it held, shortened.
        reason: why the CRI cannot say it.
        plugin: ``NN-name`` of the plugin that asked for it; empty if that is not known.
    """

    field: str
    value: str
    reason: str
    plugin: str = ""

    def __str__(self) -> str:
        whose = f" of plugin {self.plugin}" if self.plugin else ""
        return f"{self.field}{whose} ({self.value}): {self.reason}"


class Owners:
    """The plugins that set the fields of one container, as the reply to CreateContainer tells it."""

    def __init__(self, owners: m.OwningPlugins, container_id: str) -> None:
        self._owners, self._id = owners, container_id
        self._entries: dict[int, dict[str, str]] = {}

    def of(self, row: Row, key: str = "") -> str:
        """The plugin of a field, or of one of its entries; empty if none is known."""
        if not row.claim:
            return ""
        if row.claim not in self._entries:  # one copy for each field, not for each of its thousands of entries
            self._entries[row.claim] = entry_owners(self._owners, self._id, row.claim)
        found = self._entries[row.claim].get(key) if key else None
        return (found or owner(self._owners, self._id, row.claim) or "").lstrip("-")


def wishes(wanted: m.ContainerAdjustment) -> list[Entry]:
    """The entries of an adjustment without hooks that are there and empty, as they are where no plugin wants any."""
    return [entry for entry in read(wanted, TREE) if entry.row.kind is not Kind.ACCUMULATED or entry.value.ByteSize()]


def adjust(config: pb.ContainerConfig, wanted: m.ContainerAdjustment, owners: Owners) -> list[Unsupported]:
    """Put all of an adjustment that the CRI can say into a container's configuration; returns the rest."""
    unsaid: list[Unsupported] = []
    for entry in wishes(wanted):
        row = entry.row
        say = _SAY.get(row.path)
        if say is not None:
            rest = say(config, entry)
        elif TABLE[row.path].how:
            continue  # resources, below
        else:
            rest = [(key, _value(entry, key), TABLE[row.path].limits) for key in _keys(entry) or [""]]
        unsaid += [_unsaid(row, key, value, reason, owners) for key, value, reason in rest]
    if wanted.linux.HasField("resources"):
        _resources(config, wanted.linux.resources, owners, unsaid)
    return unsaid


def _keys(entry: Entry) -> list[str]:
    return list(getattr(entry, "keys", ()))


def _value(entry: Entry, key: str) -> str:
    value: Any = entry.value
    if key:
        value = (entry.sets | entry.removed).get(key.removeprefix("-"), value)
    return plain(str(value), _SHOWN) or "set, and empty"


def _unsaid(row: Row, key: str, value: object, reason: str, owners: Owners) -> Unsupported:
    name = f"{row.path}[{plain(key, _SHOWN)}]" if key else row.path
    return Unsupported(
        name, plain(str(value), _SHOWN) or "set, and empty", reason, owners.of(row, key.removeprefix("-"))
    )


# --- one function for each field that is not a resource: the rest is reported as key, value and reason ---

Rest = list[tuple[str, object, str]]


def _annotations(config: pb.ContainerConfig, entry: Entry) -> Rest:
    rest: Rest = [(key, "removed", _NOT_THERE) for key in entry.unpaired if key not in config.annotations]
    for key in entry.removed:
        config.annotations.pop(key, None)
    for key, value in entry.sets.items():
        if key == CLEAR_CPUS:
            config.linux.resources.cpuset_cpus = ""
        else:
            config.annotations[key] = value
    return rest


def _env(config: pb.ContainerConfig, entry: Entry) -> Rest:
    there = {each.key for each in config.envs}
    rest: Rest = [
        (key, "removed", "it is not in the request: the image may set it, and the CRI cannot remove that")
        for key in entry.unpaired
        if key not in there
    ]
    stay = [each for each in config.envs if each.key not in entry.removed and each.key not in entry.sets]
    del config.envs[:]
    config.envs.extend(stay)
    config.envs.extend(pb.KeyValue(key=key, value=each.value.encode()) for key, each in entry.sets.items())
    return rest


def _args(config: pb.ContainerConfig, entry: Entry) -> Rest:
    words = list(entry.value)
    config.command[:] = words[1:] if words and not words[0] else words
    del config.args[:]
    return []


def _oom_score(config: pb.ContainerConfig, entry: Entry) -> Rest:
    config.linux.resources.oom_score_adj = entry.value.value
    return []


def _cdi_devices(config: pb.ContainerConfig, entry: Entry) -> Rest:
    there = {each.name for each in config.CDI_devices}
    config.CDI_devices.extend(pb.CDIDevice(name=name) for name in dict.fromkeys(entry.keys) if name not in there)
    return []


_SAY: dict[str, Callable[[pb.ContainerConfig, Entry], Rest]] = {
    "annotations": _annotations,
    "mounts": put_mounts,
    "env": _env,
    "args": _args,
    "linux.devices": put_devices,
    "linux.oom_score_adj": _oom_score,
    "CDI_devices": _cdi_devices,
}


def zeros(wanted: m.LinuxResources) -> list[str]:
    """The fields of resources whose value is 0, which in the CRI says "not set"; named as in results of updates."""
    found = []
    for entry in read(wanted, RESOURCES_TREE):
        row = entry.row
        if row.is_wrapper and TABLE[row.path].how and not entry.value.value:
            found.append(row.path.removeprefix("linux.resources."))
    return found


def _resources(config: pb.ContainerConfig, wanted: m.LinuxResources, owners: Owners, unsaid: list[Unsupported]) -> None:
    """All resources that the CRI has, over those of the request; values that it has no room for are unsaid."""
    made = convert.to_cri(wanted, config.linux.resources)
    config.linux.resources.CopyFrom(made.value)
    nothing = {f"linux.resources.{name}" for name in zeros(wanted)}
    for entry in read(wanted, RESOURCES_TREE):
        row = entry.row
        if row.path in nothing:
            unsaid.append(_unsaid(row, "", 0, ZERO, owners))
        if TABLE[row.path].how:
            lost = [each for each in made.dropped if f"linux.resources.{each.field}" == row.path]
            unsaid += [_unsaid(row, "", each.value, each.reason, owners) for each in lost]
