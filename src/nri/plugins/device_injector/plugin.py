"""`device-injector`: give containers the devices, mounts, priorities, sysctls and more that annotations request."""

from __future__ import annotations

import re
from typing import NamedTuple

import nri
from nri.api import messages, optional
from nri.api.builders.combinations import io_priority_message, memory_policy_message, scheduler_message
from nri.plugins.annotations import Mode, find
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import ClassVar

    from nri.api.builders.adjustment import Adjustment
    from nri.plugins.annotations import Annotation


class Device(NamedTuple):
    """A device node. If mode, uid or gid is 0, the runtime chooses it."""

    path: str
    type: str
    major: int = 0
    minor: int = 0
    file_mode: Mode = Mode(0)
    uid: int = 0
    gid: int = 0


class Mount(NamedTuple):
    """A mount; `source` may be empty for file systems like tmpfs."""

    destination: str
    source: str = ""
    type: str = ""
    options: tuple[str, ...] = ()


class IoPriority(NamedTuple):
    """An I/O priority."""

    class_: str
    priority: int = 0


class Scheduler(NamedTuple):
    """Attributes of the CPU scheduler, with times in nanoseconds."""

    policy: str
    nice: int = 0
    priority: int = 0
    flags: tuple[str, ...] = ()
    runtime: int = 0
    deadline: int = 0
    period: int = 0


class NetDevice(NamedTuple):
    """A network device of the host, and its name in the container ("" for the same name)."""

    hostIf: str
    name: str = ""


class MemoryPolicy(NamedTuple):
    """A NUMA memory policy."""

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()


def _devices(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    devices = annotation.rows(Device, "path")
    for index, device in enumerate(devices):
        path, type_, major, minor, *numbers = device
        for key, number in (("major", major), ("minor", minor)):
            if number < 0:
                raise annotation.refusal(f"[{index}].{key}", f"must not be negative: {number}")
        if not 0 <= device.file_mode <= _MAX_FILE_MODE:
            raise annotation.refusal(
                f"[{index}].file_mode", f"{device.file_mode} is not a file mode", "write, for example, 0660"
            )
        if device.file_mode > _MAX_PERMISSIONS:
            shown = f"{device.file_mode} is 0o{device.file_mode:o}, which has more than permission bits"
            annotation.warn(f"[{index}].file_mode: {shown} (octal has a leading 0, as in 0660)")
        mode, uid, gid = (number or None for number in numbers)
        with annotation.at(f"[{index}]", device="path"):
            adjustment.add_device(path, type_, major, minor, uid=uid, gid=gid)
        optional.put(adjustment.message.linux.devices[-1], "file_mode", mode)  # more than permissions pass, as in Go
        if type_ != "p" and not major:
            raise annotation.refusal(f"[{index}]", "major is missing or 0", "add 'major: ...'")
    return [device.path for device in devices]


#: The greatest file mode with file type.
_MAX_FILE_MODE = 0o177777
#: The greatest file mode with permissions only.
_MAX_PERMISSIONS = 0o777


def _cdi_devices(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    names = annotation.texts()
    for index, name in enumerate(names):
        with annotation.at(f"[{index}]", device=""):
            adjustment.add_cdi_device(name)
    return names


#: These options make a bind mount of any type.
BIND = {"bind", "rbind"}


def _mounts(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    mounts = annotation.rows(Mount, "destination")
    for index, mount in enumerate(mounts):
        with annotation.at(f"[{index}]", mount=""):
            adjustment.add_mount(messages.Mount(**mount._asdict()))
        if not mount.source and (mount.type in ("", "bind") or not BIND.isdisjoint(mount.options)):
            raise annotation.refusal(
                f"[{index}]", "source is missing", "add 'source: ...', or the type of a file system"
            )
    return [f"{mount.source or mount.type} -> {mount.destination}" for mount in mounts]


def _io_priority(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    io_priority = annotation.row(IoPriority)
    if io_priority is None:
        return []
    # The Go plugin passes on values that the kernel refuses, so these messages, here and below, skip such checks.
    with annotation.at("", io_class="class"):
        value = io_priority_message(io_priority.class_, io_priority.priority)
        adjustment.message.linux.io_priority.CopyFrom(value)
    return [f"{io_priority.class_} {io_priority.priority}"]


def _scheduler(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    scheduler = annotation.row(Scheduler)
    if scheduler is None:
        return []
    with annotation.at("", runtime_ns="runtime", deadline_ns="deadline", period_ns="period"):
        adjustment.set_scheduler(scheduler_message(*scheduler))
    return [scheduler.policy]


#: The kernel accepts a name of at most 15 bytes without blanks, `/` and `:`.
_NET_DEVICE = re.compile(r"(?!\.{1,2}\Z)[^\s/:\0]+")
_MAX_NET_DEVICE_BYTES = 15


def _net_devices(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    devices = annotation.rows(NetDevice, "hostIf")
    named = [(f"[{index}].name", device.name) for index, device in enumerate(devices) if device.name]
    annotation.refuse_duplicates(named)
    for index, device in enumerate(devices):
        for key, name in (("hostIf", device.hostIf), ("name", device.name or device.hostIf)):
            if not _NET_DEVICE.fullmatch(name) or len(name.encode()) > _MAX_NET_DEVICE_BYTES:
                reason = f"{name!r} is not the name of a network device"
                step = f"write 1 to {_MAX_NET_DEVICE_BYTES} characters, no space, / or :"
                raise annotation.refusal(f"[{index}].{key}", reason, step)
        with annotation.at(f"[{index}]", host_device="hostIf", device="name"):
            adjustment.add_net_device(device.hostIf, device.name)
    return [f"{device.hostIf} -> {device.name or device.hostIf}" for device in devices]


def _sysctls(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    sysctls = annotation.pairs()
    for name, value in sysctls.items():
        with annotation.at("", name=name, sysctl=""):
            adjustment.set_sysctl(name, value)
    return [f"{name}={value}" for name, value in sysctls.items()]


def _memory_policy(annotation: Annotation, adjustment: Adjustment) -> list[str]:
    memory_policy = annotation.row(MemoryPolicy)
    if memory_policy is None:
        return []
    with annotation.at(""):
        value = memory_policy_message(memory_policy.mode, memory_policy.nodes, memory_policy.flags)
        adjustment.message.linux.memory_policy.CopyFrom(value)
    return [f"{memory_policy.mode} {memory_policy.nodes}".strip()]


class Kind(NamedTuple):
    """A kind of change that an annotation can request.

    Attributes:
        name: the name in the log.
        keys: its annotations, in the current and in the old domain.
        inject: the function that adds an annotation's values to an adjustment, and returns them for the log.
        help: the format of the value, and its effect.
    """

    name: str
    keys: tuple[str, ...]
    inject: Callable[[Annotation, Adjustment], list[str]]
    help: str


def _domain_keys(name: str) -> tuple[str, str]:
    return f"{name}.noderesource.dev", f"{name}.nri.io"


KINDS = (
    Kind(
        "devices", _domain_keys("devices"), _devices, "list of {path, type, major, minor, file_mode, uid, gid}: devices"
    ),
    Kind("CDI devices", _domain_keys("cdi-devices"), _cdi_devices, "list of names, vendor/class=device: CDI devices"),
    Kind("mounts", _domain_keys("mounts"), _mounts, "list of {source, destination, type, options}: mounts"),
    Kind("I/O priority", _domain_keys("io-priority"), _io_priority, "{class, priority}: I/O priority"),
    Kind(
        "scheduler",
        _domain_keys("scheduling-policy"),
        _scheduler,
        "{policy, nice, priority, flags, runtime, deadline, period}: CPU scheduler",
    ),
    Kind("network devices", _domain_keys("network-devices"), _net_devices, "list of {hostIf, name}: network devices"),
    Kind("sysctls", ("sysctl.noderesource.dev",), _sysctls, "mapping of names to values: kernel parameters"),
    Kind("memory policy", _domain_keys("memory-policy"), _memory_policy, "{mode, nodes, flags}: NUMA memory policy"),
)


class DeviceInjector(nri.Plugin):
    """Inject devices and mounts, and set priorities, sysctls and memory policy, by annotations of pods."""

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
        is_adjusted = False
        for kind in KINDS:
            annotation = find(pod, container.name, *kind.keys)
            if annotation is None:
                continue
            injected = kind.inject(annotation, adjustment)
            for warning in annotation.warnings:
                self.log.warning("%s", warning)
            if injected:
                is_adjusted = True
                self.log.info("%s: %s", kind.name, plain(", ".join(injected)))
        return adjustment if is_adjusted else None


if __name__ == "__main__":
    DeviceInjector.main()
