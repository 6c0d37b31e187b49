"""`device-injector`: give containers devices, mounts, priorities, sysctls and more that annotations ask for.

One job: go through the kinds of annotations in the reference's order, and build one adjustment of all. How
annotations are found and read is in `nri.plugins.annotated`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import nri
from nri.plugins.annotated import Mode, find
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import ClassVar

    from nri.api.builders.adjustment import Adjustment
    from nri.plugins.annotated import Annotation

__all__ = ["KINDS", "DeviceInjector", "Kind"]


class Device(NamedTuple):
    """A device node. Zeros of the last three leave them to the runtime."""

    path: str
    type: str
    major: int = 0
    minor: int = 0
    file_mode: Mode = Mode(0)
    uid: int = 0
    gid: int = 0


class Mount(NamedTuple):
    """A mount; file systems like tmpfs need no source."""

    destination: str
    source: str = ""
    type: str = ""
    options: tuple[str, ...] = ()


class IoPriority(NamedTuple):
    """An I/O priority; `class` is a word of Python's."""

    class_: str
    priority: int = 0


class Scheduler(NamedTuple):
    """Attributes of the CPU scheduler; times in nanoseconds."""

    policy: str
    nice: int = 0
    priority: int = 0
    flags: tuple[str, ...] = ()
    runtime: int = 0
    deadline: int = 0
    period: int = 0


class NetDevice(NamedTuple):
    """A network device of the host, and its name in the container, "" for the same."""

    hostIf: str
    name: str = ""


class MemoryPolicy(NamedTuple):
    """A NUMA memory policy."""

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()


def _devices(found: Annotation, adjustment: Adjustment) -> list[str]:
    devices = found.many(Device, "path")
    for place, device in enumerate(devices):
        path, type_, major, minor, *rest = device
        for key, number in (("major", major), ("minor", minor)):
            if number < 0:
                raise found.wrong(f"[{place}].{key}", f"must not be below 0: {number}")
        if not 0 <= device.file_mode <= _MOST_MODE:
            raise found.wrong(
                f"[{place}].file_mode", f"{device.file_mode} is not a file mode", "write one such as 0660"
            )
        if device.file_mode > _PERMISSIONS:
            shown = f"{device.file_mode} is 0o{device.file_mode:o}, more than permissions"
            found.doubt(f"[{place}].file_mode: {shown} (octal has a leading 0, as in 0660)")
        mode, uid, gid = (number or None for number in rest)
        with found.at(f"[{place}]", device="path"):
            adjustment.add_device(path, type_, major, minor, file_mode=mode, uid=uid, gid=gid)
        if type_ != "p" and not major:
            raise found.wrong(f"[{place}]", "major is missing or 0, which is not a device", "add 'major: ...'")
    return [device.path for device in devices]


#: The greatest file mode, kind of file included, and the greatest that is permissions only.
_MOST_MODE, _PERMISSIONS = 0o177777, 0o777


def _cdi_devices(found: Annotation, adjustment: Adjustment) -> list[str]:
    names = found.texts()
    for place, name in enumerate(names):
        with found.at(f"[{place}]", device=""):
            adjustment.add_cdi_device(name)
    return names


#: Options that make a mount one of a path of the host, whatever its type says.
BIND = {"bind", "rbind"}


def _mounts(found: Annotation, adjustment: Adjustment) -> list[str]:
    mounts = found.many(Mount, "destination")
    for place, mount in enumerate(mounts):
        with found.at(f"[{place}]", mount="destination"):
            adjustment.add_mount(*mount)
        if not mount.source and (mount.type in ("", "bind") or not BIND.isdisjoint(mount.options)):
            raise found.wrong(f"[{place}]", "source is missing", "add 'source: ...', or the type of a file system")
    return [f"{mount.source or mount.type} -> {mount.destination}" for mount in mounts]


def _io_priority(found: Annotation, adjustment: Adjustment) -> list[str]:
    wanted = found.one(IoPriority)
    if wanted is None:
        return []
    with found.at("", io_class="class"):
        adjustment.set_io_priority(wanted.class_, wanted.priority)
    return [f"{wanted.class_} {wanted.priority}"]


def _scheduler(found: Annotation, adjustment: Adjustment) -> list[str]:
    wanted = found.one(Scheduler)
    if wanted is None:
        return []
    policy, nice, priority, flags, runtime, deadline, period = wanted
    with found.at("", runtime_ns="runtime", deadline_ns="deadline", period_ns="period"):
        adjustment.set_scheduler(
            policy,
            nice=nice,
            priority=priority,
            flags=flags,
            runtime_ns=runtime,
            deadline_ns=deadline,
            period_ns=period,
        )
    return [policy]


#: A network device's name that the kernel takes: 15 bytes, none of them a blank, `/` or `:`.
_NET_DEVICE = re.compile(r"(?!\.{1,2}\Z)[^\s/:\0]+")
_LONGEST_NET_DEVICE = 15


def _net_devices(found: Annotation, adjustment: Adjustment) -> list[str]:
    devices = found.many(NetDevice, "hostIf")
    named = [(f"[{place}].name", device.name) for place, device in enumerate(devices) if device.name]
    found.different(named)
    for place, device in enumerate(devices):
        for key, name in (("hostIf", device.hostIf), ("name", device.name or device.hostIf)):
            if not _NET_DEVICE.fullmatch(name) or len(name.encode()) > _LONGEST_NET_DEVICE:
                reason = f"{name!r} is not the name of a network device"
                step = f"write 1 to {_LONGEST_NET_DEVICE} characters, no blank, / or :"
                raise found.wrong(f"[{place}].{key}", reason, step)
        with found.at(f"[{place}]", host_device="hostIf", device="name"):
            adjustment.add_net_device(device.hostIf, device.name)
    return [f"{device.hostIf} -> {device.name or device.hostIf}" for device in devices]


def _sysctls(found: Annotation, adjustment: Adjustment) -> list[str]:
    wanted = found.pairs()
    for name, value in wanted.items():
        with found.at("", name=name, sysctl=""):
            adjustment.set_sysctl(name, value)
    return [f"{name}={value}" for name, value in wanted.items()]


def _memory_policy(found: Annotation, adjustment: Adjustment) -> list[str]:
    wanted = found.one(MemoryPolicy)
    if wanted is None:
        return []
    with found.at(""):
        adjustment.set_memory_policy(wanted.mode, wanted.nodes, wanted.flags)
    return [f"{wanted.mode} {wanted.nodes}".strip()]


class Kind(NamedTuple):
    """One kind of thing to inject.

    Attributes:
        name: for the log.
        keys: its annotations, of the present domain and of the old one.
        inject: reads one and adds to an adjustment; returns what, in words.
        help: the value and its effect, for people.
    """

    name: str
    keys: tuple[str, ...]
    inject: Callable[[Annotation, Adjustment], list[str]]
    help: str


def _both(word: str) -> tuple[str, str]:
    return f"{word}.noderesource.dev", f"{word}.nri.io"


KINDS = (
    Kind("devices", _both("devices"), _devices, "list of {path, type, major, minor, file_mode, uid, gid}: devices"),
    Kind("CDI devices", _both("cdi-devices"), _cdi_devices, "list of names, vendor/class=device: CDI devices"),
    Kind("mounts", _both("mounts"), _mounts, "list of {source, destination, type, options}: mounts"),
    Kind("I/O priority", _both("io-priority"), _io_priority, "{class, priority}: I/O priority"),
    Kind(
        "scheduler",
        _both("scheduling-policy"),
        _scheduler,
        "{policy, nice, priority, flags, runtime, deadline, period}: CPU scheduler",
    ),
    Kind("network devices", _both("network-devices"), _net_devices, "list of {hostIf, name}: network devices"),
    Kind("sysctls", ("sysctl.noderesource.dev",), _sysctls, "table of names and values: kernel parameters"),
    Kind("memory policy", _both("memory-policy"), _memory_policy, "{mode, nodes, flags}: NUMA memory policy"),
)


class DeviceInjector(nri.Plugin):
    """Inject devices and mounts, set priorities, sysctls and memory policy, all by annotations of pods."""

    name = "device-injector"
    sets = (
        "linux.devices",
        "CDI_devices",
        "mounts",
        "linux.io_priority",
        "linux.scheduler",
        "linux.net_devices",
        "linux.sysctl",
        "linux.memory_policy",
    )
    annotations: ClassVar[Mapping[str, str]] = {key: kind.help for kind in KINDS for key in kind.keys}

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        adjustment = nri.Adjustment()
        anything = False
        for kind in KINDS:
            found = find(pod, container.name, *kind.keys)
            if found is None:
                continue
            done = kind.inject(found, adjustment)
            for words in found.unknown:
                self.log.warning("%s", words)
            if done:
                anything = True
                self.log.info("%s: %s", kind.name, plain(", ".join(done)))
        return adjustment if anything else None


if __name__ == "__main__":
    DeviceInjector.main()
