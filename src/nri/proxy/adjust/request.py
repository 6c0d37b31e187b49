"""An adjustment put into the request that makes a container.

Rules: the request is changed in place; every entry of the adjustment is either in it afterwards or in the list that is
returned, with its plugin. Pure, but for the question which node of the host a device is. Next:
`nri.proxy.adjust.paths`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.fields import RESOURCES_TREE, TREE, Kind, Row
from nri.api import messages as m
from nri.api.owners import entry_owners, owner
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import devices, mounts
from nri.proxy.adjust.table import TABLE
from nri.text import plain

__all__ = ["CLEAR_CPUS", "ZERO", "Owners", "Unsaid", "adjust", "zeros"]

_SHOWN = 120  # characters of a value
#: The annotation with which a plugin takes the CPUs away that the kubelet asks for: NRI has no word for that.
CLEAR_CPUS = "nri.proxy/clear-cpus"
#: Why a 0 is not in a request.
ZERO = '0 says "not set" in the CRI'


class Unsaid(NamedTuple):
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


def adjust(config: pb.ContainerConfig, wanted: m.ContainerAdjustment, owners: Owners) -> list[Unsaid]:
    """Put all of an adjustment that the CRI can say into a container's configuration; returns the rest."""
    unsaid: list[Unsaid] = []
    for entry in read(wanted, TREE):
        row = entry.row
        say = _SAY.get(row.path)
        if say is not None:
            rest = say(config, entry)
        elif TABLE[row.path].how or (row.kind is Kind.ACCUMULATED and not entry.value.ByteSize()):
            continue  # resources, below; or hooks without one
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


def _unsaid(row: Row, key: str, value: object, reason: str, owners: Owners) -> Unsaid:
    name = f"{row.path}[{plain(key, _SHOWN)}]" if key else row.path
    return Unsaid(name, plain(str(value), _SHOWN) or "set, and empty", reason, owners.of(row, key.removeprefix("-")))


_NOT_THERE = "it is not in the request: runtimes add it, and the CRI cannot remove that"

# --- one function for each field that is not a resource: the rest is told as key, value and reason ---

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
    "mounts": mounts.say,
    "env": _env,
    "args": _args,
    "linux.devices": devices.say,
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


def _resources(config: pb.ContainerConfig, wanted: m.LinuxResources, owners: Owners, unsaid: list[Unsaid]) -> None:
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
