"""Count processor events of a cgroup: cycles, instructions, references and misses of caches.

Source: perf_event_open(2). perf_event_attr is passed in its first version (64 bytes), which every
kernel accepts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.outcome import Unsupported
from nri.host.root import Root

_SYSCALL_NUMBERS: Final = {
    "x86_64": 298,
    "aarch64": 241,
    "riscv64": 241,
    "loongarch64": 241,
    "s390x": 331,
    "ppc64le": 319,
}
_CLOSE_ON_EXEC, _CGROUP = 1 << 3, 1 << 2
#: The structure: type, size and config, then zeros for the flags and the other fields of the first version.
_ATTRIBUTES: Final = struct.Struct("=IIQ48x")
_COUNT: Final = struct.Struct("=Q")
_CACHE, _LAST_LEVEL, _MISS = 3, 2, 1 << 16

#: Like `open_event`: takes type, config, cgroup descriptor and processor; returns the counter's descriptor. Raises
#: OSError if the kernel refuses the counter.
OpenEvent = Callable[[int, int, int, int], int]


class Event(Enum):
    """An event: the kernel's type and number."""

    CYCLES = (0, 0)
    INSTRUCTIONS = (0, 1)
    REFERENCES = (0, 2)
    MISSES = (0, 3)
    LAST_LEVEL_READS = (_CACHE, _LAST_LEVEL)
    LAST_LEVEL_MISSES = (_CACHE, _LAST_LEVEL | _MISS)


def open_event(kind: int, config: int, cgroup: int, processor: int) -> int:
    """Start counting an event of a cgroup on a processor. Returns the counter's descriptor.

    Args:
        kind: the event's type.
        config: the event's number.
        cgroup: the descriptor of the cgroup's folder; -1 counts the caller instead.
        processor: the number of the processor.

    Raises:
        OSError: the kernel refuses the counter, or the machine does not have the event.
    """
    number = _SYSCALL_NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"perf_event_open is not available on {platform.machine()}")
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config), _ATTRIBUTES.size)
    arguments = (max(cgroup, 0), processor, -1, _CLOSE_ON_EXEC | (_CGROUP if cgroup >= 0 else 0))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(ctypes.c_long(number), ctypes.byref(attributes), *map(ctypes.c_long, arguments))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(descriptor)


class Counters:
    """The counters of a cgroup."""

    def __init__(self) -> None:
        self._descriptors: dict[Event, list[int]] = {}

    def add(self, event: Event, descriptor: int) -> None:
        """Add a counter, which `close` closes."""
        self._descriptors.setdefault(event, []).append(descriptor)

    def read(self) -> dict[Event, int]:
        """The number of events so far on all processors. Raises OSError if a counter cannot be read."""
        counts = {}
        for event, descriptors in self._descriptors.items():
            chunks = [os.read(descriptor, _COUNT.size) for descriptor in descriptors]
            counts[event] = sum(_COUNT.unpack(data)[0] for data in chunks if len(data) == _COUNT.size)
        return counts

    def close(self) -> None:
        """Stop counting."""
        descriptors = [descriptor for group in self._descriptors.values() for descriptor in group]
        self._descriptors = {}
        for descriptor in descriptors:
            os.close(descriptor)


def probe_events(events: Iterable[Event], open_counter: OpenEvent = open_event) -> Unsupported | None:
    """Why this machine does not count these events. Returns None if it counts them."""
    for event in events:
        try:
            os.close(open_counter(*event.value, -1, 0))
        except OSError as error:
            return Unsupported(_reason(event, error))
    return None


def start_counters(
    hierarchies: Hierarchies,
    root: Root,
    cgroup: str,
    events: Sequence[Event],
    processors: Iterable[int],
    open_counter: OpenEvent = open_event,
) -> Counters | Unsupported:
    """Start counting events of a cgroup and of the cgroups below it.

    Args:
        hierarchies: the machine's cgroups.
        root: the machine.
        cgroup: the path of the cgroup.
        events: the events to count.
        processors: the processors to count on.
        open_counter: the system call.

    Raises:
        FileNotFoundError: the cgroup does not exist.
        ValueError: the path leads out of the hierarchy.
    """
    folder = hierarchies.folder("perf_event", cgroup) or hierarchies.folder("", cgroup)
    if folder is None:
        return Unsupported("the cgroup hierarchy perf_event is not mounted")
    counters = Counters()
    descriptor = root.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for event, processor in [(event, processor) for processor in processors for event in events]:
            try:
                counters.add(event, open_counter(*event.value, descriptor, processor))
            except OSError as error:
                counters.close()
                return Unsupported(_reason(event, error))
    finally:
        os.close(descriptor)
    return counters


def _reason(event: Event, error: OSError) -> str:
    name = event.name.lower().replace("_", " ")
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return f"the processor, or the hypervisor, does not count {name}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"counting {name} is not permitted: CAP_PERFMON or a lower kernel.perf_event_paranoid is required"
    return f"{name} cannot be counted: {error.strerror}"
