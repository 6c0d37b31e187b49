"""Put an adjustment into a CreateContainer request, and list what the CRI cannot express.

A plugin may set thousands of entries, so look-ups must not search lists.
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


class ByPath:
    """A repeated field whose entries have a `container_path`. `apply` writes the changes into the field."""

    def __init__(self, field: Any) -> None:
        self._field = field
        self._entries: dict[int, Any] = {}
        self._positions_by_path: dict[str, list[int]] = {}
        self._next = 0
        for entry in field:
            self.add(entry)

    def __contains__(self, path: str) -> bool:
        return path in self._positions_by_path

    def add(self, entry: Any) -> None:
        """Append an entry."""
        self._entries[self._next] = entry
        self._positions_by_path.setdefault(entry.container_path, []).append(self._next)
        self._next += 1

    def drop(self, path: str) -> None:
        """Drop all entries with a path."""
        for place in self._positions_by_path.pop(path, ()):
            del self._entries[place]

    def apply(self) -> None:
        """Replace the field's content by the entries."""
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
_KNOWN_OPTIONS = {"bind", "rbind", "rw", "ro", "rro", *_PROPAGATION}
_NO_OPTIONS = "the CRI's mounts do not have such options"
_NO_TYPE = "the CRI only has bind mounts"
_NOT_THERE = "the request does not contain it: the runtime adds it, and the CRI cannot remove it"


def put_mounts(config: pb.ContainerConfig, entry: Entry) -> list[tuple[str, object, str]]:
    """Put mounts into a container's configuration, in the plugins' order.

    Returns values that the CRI cannot express.
    """
    dropped: list[tuple[str, object, str]] = []
    set_again, mounts = set(entry.sets), ByPath(config.mounts)
    for mount in entry.value:
        destination, removed = split(mount.destination)
        if removed and destination not in mounts and destination not in set_again:
            dropped.append((destination, "removed", _NOT_THERE))
        if not removed and not _is_bind(mount):
            dropped.append((destination, f"type {mount.type or 'none'}", _NO_TYPE))
            continue
        mounts.drop(destination)
        if removed:
            continue
        mounts.add(_bind_mount(mount))
        if unsupported := [option for option in mount.options if option not in _KNOWN_OPTIONS]:
            dropped.append((destination, ",".join(unsupported), _NO_OPTIONS))
    mounts.apply()
    return dropped


def _is_bind(mount: m.Mount) -> bool:
    return mount.type in ("bind", "rbind") or bool({"bind", "rbind"} & set(mount.options))


def _bind_mount(mount: m.Mount) -> pb.Mount:
    cri_mount = pb.Mount(container_path=mount.destination, host_path=mount.source)
    for option in mount.options:  # the last option of a kind counts
        if option in _PROPAGATION:
            cri_mount.propagation = _PROPAGATION[option]
        elif option in ("ro", "rro", "rw"):
            cri_mount.readonly, cri_mount.recursive_read_only = option != "rw", option == "rro"
    return cri_mount


_FOLDERS = {"b": "block", "c": "char", "u": "char"}
_ALL = "rwm"
_NO_NODE = "the host has no node for this device"
_OF_THE_NODE = "the CRI uses the mode and owner of the host's node"


def put_devices(config: pb.ContainerConfig, entry: Entry) -> list[tuple[str, object, str]]:
    """Put devices into a container's configuration, in the plugins' order.

    Returns values that the CRI cannot express.
    """
    dropped: list[tuple[str, object, str]] = []
    set_again, devices = set(entry.sets), ByPath(config.devices)
    for device in entry.value:
        path, removed = split(device.path)
        if removed and path not in devices and path not in set_again:
            dropped.append((path, "removed", _NOT_THERE))
        node = "" if removed else node_of(device)
        if not (removed or node):
            dropped.append((path, f"{device.type} {device.major}:{device.minor}", _NO_NODE))
            continue
        devices.drop(path)
        if not removed:
            devices.add(pb.Device(container_path=path, host_path=node, permissions=_ALL))
            if difference := _node_differences(device, node):
                dropped.append((path, difference, _OF_THE_NODE))
    devices.apply()
    return dropped


def node_of(device: m.LinuxDevice, root: Path = Path("/")) -> str:
    """The path of the host's node of a device, or "". `root` is the root of the host's files."""
    if _is_node(root, device.path, device):
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
    return path if path and _is_node(root, path, device) else ""


def _is_node(root: Path, path: str, device: m.LinuxDevice) -> bool:
    try:
        status = os.stat(root / path.lstrip("/"))
    except (OSError, ValueError):
        return False
    kinds = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "u": stat.S_ISCHR}
    kind = kinds.get(device.type)
    numbers = os.major(status.st_rdev), os.minor(status.st_rdev)
    return kind is not None and kind(status.st_mode) and numbers == (device.major, device.minor)


def _node_differences(device: m.LinuxDevice, node: str) -> str:
    """The requested mode and owner of a device if they differ from the host's node, as text."""
    status = os.stat(node)
    rows = (
        ("file_mode", stat.S_IMODE(status.st_mode), "o"),
        ("uid", status.st_uid, "d"),
        ("gid", status.st_gid, "d"),
    )
    parts = []
    for name, is_so, form in rows:
        value = get(device, name)
        if value is not None and (stat.S_IMODE(value) if name == "file_mode" else value) != is_so:
            parts.append(f"{name} {value:{form}}")
    return ", ".join(parts)


_MAX_SHOWN_LENGTH = 120  # characters of a value
#: The annotation by which a plugin removes the CPUs that the kubelet requests, because NRI has no field for that.
CLEAR_CPUS = "nri.proxy/clear-cpus"
#: The reason why a 0 is not put into a request.
ZERO = '0 means "not set" in the CRI'


class UnsupportedEntry(NamedTuple):
    """An entry of an adjustment, or a value of an entry, that the CRI cannot express.

    Attributes:
        field: the field's path in the adjustment, with the key of the entry in brackets.
        value: the requested value, shortened.
        reason: why the CRI cannot express it.
        plugin: ``NN-name`` of the plugin that requested it, or "".
    """

    field: str
    value: str
    reason: str
    plugin: str = ""

    def __str__(self) -> str:
        whose = f" of plugin {self.plugin}" if self.plugin else ""
        return f"{self.field}{whose} ({self.value}): {self.reason}"


class Owners:
    """The plugins that set the fields of a container, from the reply to CreateContainer."""

    def __init__(self, owners: m.OwningPlugins, container_id: str) -> None:
        self._owners, self._id = owners, container_id
        self._entries: dict[int, dict[str, str]] = {}

    def of(self, row: Row, key: str = "") -> str:
        """The plugin that set a field, or an entry of a field, or ""."""
        if not row.claim:
            return ""
        if row.claim not in self._entries:  # copied once for each field, not for each of its thousands of entries
            self._entries[row.claim] = entry_owners(self._owners, self._id, row.claim)
        plugin = self._entries[row.claim].get(key) if key else None
        return (plugin or owner(self._owners, self._id, row.claim) or "").lstrip("-")


def wishes(adjustment: m.ContainerAdjustment) -> list[Entry]:
    """The entries of an adjustment. Empty hooks, which every adjustment without hooks has, are left out."""
    return [
        entry for entry in read(adjustment, TREE) if entry.row.kind is not Kind.ACCUMULATED or entry.value.ByteSize()
    ]


def adjust(config: pb.ContainerConfig, adjustment: m.ContainerAdjustment, owners: Owners) -> list[UnsupportedEntry]:
    """Put an adjustment into a container's configuration. Returns the values that the CRI cannot express."""
    unsaid: list[UnsupportedEntry] = []
    for entry in wishes(adjustment):
        row = entry.row
        write = _WRITERS.get(row.path)
        if write is not None:
            dropped = write(config, entry)
        elif TABLE[row.path].how:
            continue  # resources are handled below
        else:
            dropped = [(key, _value(entry, key), TABLE[row.path].limits) for key in _keys(entry) or [""]]
        unsaid += [_unsupported(row, key, value, reason, owners) for key, value, reason in dropped]
    if adjustment.linux.HasField("resources"):
        _resources(config, adjustment.linux.resources, owners, unsaid)
    return unsaid


def _keys(entry: Entry) -> list[str]:
    return list(getattr(entry, "keys", ()))


def _value(entry: Entry, key: str) -> str:
    value: Any = entry.value
    if key:
        value = (entry.sets | entry.removed).get(key.removeprefix("-"), value)
    return plain(str(value), _MAX_SHOWN_LENGTH) or "set, but empty"


def _unsupported(row: Row, key: str, value: object, reason: str, owners: Owners) -> UnsupportedEntry:
    name = f"{row.path}[{plain(key, _MAX_SHOWN_LENGTH)}]" if key else row.path
    return UnsupportedEntry(
        name, plain(str(value), _MAX_SHOWN_LENGTH) or "set, but empty", reason, owners.of(row, key.removeprefix("-"))
    )


# --- one function for each field that is not a resource; it returns dropped values as key, value and reason ---

Dropped = list[tuple[str, object, str]]


def _annotations(config: pb.ContainerConfig, entry: Entry) -> Dropped:
    dropped: Dropped = [(key, "removed", _NOT_THERE) for key in entry.unpaired if key not in config.annotations]
    for key in entry.removed:
        config.annotations.pop(key, None)
    for key, value in entry.sets.items():
        if key == CLEAR_CPUS:
            config.linux.resources.cpuset_cpus = ""
        else:
            config.annotations[key] = value
    return dropped


def _env(config: pb.ContainerConfig, entry: Entry) -> Dropped:
    keys = {variable.key for variable in config.envs}
    dropped: Dropped = [
        (key, "removed", "the request does not contain it: the image may set it, and the CRI cannot remove it")
        for key in entry.unpaired
        if key not in keys
    ]
    stay = [
        variable for variable in config.envs if variable.key not in entry.removed and variable.key not in entry.sets
    ]
    del config.envs[:]
    config.envs.extend(stay)
    config.envs.extend(pb.KeyValue(key=key, value=variable.value.encode()) for key, variable in entry.sets.items())
    return dropped


def _args(config: pb.ContainerConfig, entry: Entry) -> Dropped:
    words = list(entry.value)
    config.command[:] = words[1:] if words and not words[0] else words
    del config.args[:]
    return []


def _oom_score(config: pb.ContainerConfig, entry: Entry) -> Dropped:
    config.linux.resources.oom_score_adj = entry.value.value
    return []


def _cdi_devices(config: pb.ContainerConfig, entry: Entry) -> Dropped:
    names = {device.name for device in config.CDI_devices}
    config.CDI_devices.extend(pb.CDIDevice(name=name) for name in dict.fromkeys(entry.keys) if name not in names)
    return []


_WRITERS: dict[str, Callable[[pb.ContainerConfig, Entry], Dropped]] = {
    "annotations": _annotations,
    "mounts": put_mounts,
    "env": _env,
    "args": _args,
    "linux.devices": put_devices,
    "linux.oom_score_adj": _oom_score,
    "CDI_devices": _cdi_devices,
}


def zeros(resources: m.LinuxResources) -> list[str]:
    """The fields of resources whose value is 0, which means "not set" in the CRI, named as in results of updates."""
    names = []
    for entry in read(resources, RESOURCES_TREE):
        row = entry.row
        if row.is_wrapper and TABLE[row.path].how and not entry.value.value:
            names.append(row.path.removeprefix("linux.resources."))
    return names


def _resources(
    config: pb.ContainerConfig, resources: m.LinuxResources, owners: Owners, unsaid: list[UnsupportedEntry]
) -> None:
    """Put resources over the request's resources. Values that the CRI cannot express are added to `unsaid`."""
    converted = convert.to_cri(resources, config.linux.resources)
    config.linux.resources.CopyFrom(converted.value)
    nothing = {f"linux.resources.{name}" for name in zeros(resources)}
    for entry in read(resources, RESOURCES_TREE):
        row = entry.row
        if row.path in nothing:
            unsaid.append(_unsupported(row, "", 0, ZERO, owners))
        if TABLE[row.path].how:
            lost = [drop for drop in converted.dropped if f"linux.resources.{drop.field}" == row.path]
            unsaid += [_unsupported(row, "", drop.value, drop.reason, owners) for drop in lost]
