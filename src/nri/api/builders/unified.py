"""Checks of files of cgroup v2 and their values, for `unified` resources. A runtime writes the values unchanged."""

from __future__ import annotations

from nri.api import cpuset
from nri.api.builders.checks import mapping_text, remember, text, warn_once
from nri.text import cut, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The files of cgroup v2 that accept a value, and the files that only report.
_FILES = frozenset((
    "cgroup.freeze", "cgroup.kill", "cgroup.max.depth", "cgroup.max.descendants", "cgroup.pressure", "cgroup.procs",
    "cgroup.subtree_control", "cgroup.threads", "cgroup.type", "cpu.idle", "cpu.max", "cpu.max.burst", "cpu.pressure",
    "cpu.uclamp.max", "cpu.uclamp.min", "cpu.weight", "cpu.weight.nice", "cpuset.cpus", "cpuset.cpus.exclusive",
    "cpuset.cpus.partition", "cpuset.mems", "dmem.low", "dmem.max", "dmem.min", "io.bfq.weight", "io.cost.model",
    "io.cost.qos", "io.latency", "io.max", "io.pressure", "io.prio.class", "io.weight", "irq.pressure", "memory.high",
    "memory.low", "memory.max", "memory.min", "memory.oom.group", "memory.peak", "memory.pressure", "memory.reclaim",
    "memory.swap.high", "memory.swap.max", "memory.swap.peak", "memory.zswap.max", "memory.zswap.writeback", "misc.max",
    "pids.max", "rdma.max",
))  # fmt: skip
_READ_ONLY_FILES = frozenset((
    "cgroup.controllers", "cgroup.events", "cgroup.stat", "cgroup.stat.local", "cpu.stat", "cpu.stat.local",
    "cpuset.cpus.effective", "cpuset.cpus.exclusive.effective", "cpuset.mems.effective", "dmem.capacity",
    "dmem.current", "io.stat", "memory.current", "memory.events", "memory.events.local", "memory.numa_stat",
    "memory.stat", "memory.swap.current", "memory.swap.events", "memory.zswap.current", "misc.capacity", "misc.current",
    "misc.events", "misc.events.local", "misc.peak", "pids.current", "pids.events", "pids.events.local", "pids.peak",
    "rdma.current",
))  # fmt: skip

#: A doubt shows at most this many characters of a value.
_MAX_SHOWN = 100

_entries: set[tuple[Any, Any]] = set()


def check_unified(key: Any, value: Any) -> None:
    """Check a file of cgroup v2 and its value.

    A file that mainline Linux does not have, and a value that is not in the documented form, are logged as doubts: what
    a kernel accepts beyond its documentation differs between files and versions.

    Raises:
        TypeError: key or value is not a str.
        ValueError: the key is empty, is a path, or names a file that only reports.
    """
    if key.__class__ is str and value.__class__ is str and (key, value) in _entries:
        return
    name = text("key", key, allow_empty=False)
    if "/" in name:
        raise ValueError(f"key must be the name of a file without '/', for example memory.high, not {name!r}")
    if name not in _FILES:
        _check_unknown_file(name)
    content = mapping_text("unified", name, value)
    form = _FORMS.get(name)
    if form is not None and not form[0](content.strip()):
        warn_once(f"unified[{name!r}] is {cut(content, _MAX_SHOWN)!r}: the kernel expects {form[1]}")
    remember(_entries, (name, content))


def _check_unknown_file(key: str) -> None:
    """Refuse a file that only reports; log a doubt about others, which some kernel may have."""
    if key in _READ_ONLY_FILES:
        raise ValueError(f"key must be a file that accepts a value: {key!r} is read-only")
    if key.startswith("hugetlb."):
        size, _, file = key.removeprefix("hugetlb.").partition(".")
        if file in ("current", "events", "events.local", "numa_stat", "rsvd.current"):
            raise ValueError(f"key must be a file that accepts a value: {key!r} is read-only")
        if size[-2:] not in ("KB", "MB", "GB") or not _is_number(size[:-2]) or file not in ("max", "rsvd.max"):
            warn_once(f"cgroup v2 has no file {key!r}: limits of huge pages are, for example, hugetlb.2MB.max")
        return
    suggestion = nearest(key, _FILES, may_be_foreign=True)
    extends_match = key.startswith((f"{suggestion}.", f"{suggestion}_"))
    advice = f"; did you mean {suggestion}?" if suggestion and not extends_match else ""
    warn_once(f"cgroup v2 of mainline Linux has no file {key!r}: runtimes fail on a kernel without this file{advice}")


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii()


def _is_count(text: str) -> bool:
    return text == "max" or _is_number(text)


def _is_bytes(text: str) -> bool:
    """Whether the kernel reads this as a size: decimal or hexadecimal, with or without a suffix such as K."""
    word = text.lower()
    is_hexadecimal = word.startswith("0x")
    suffixes = "kmgtp" if is_hexadecimal else "kmgtpe"
    number = word[:-1] if word and word[-1] in suffixes else word
    digits = number.removeprefix("0x")
    if is_hexadecimal:
        return bool(digits) and not digits.strip("0123456789abcdef")
    return text == "max" or _is_number(digits)


def _is_bandwidth(text: str) -> bool:
    words = text.split()
    return 0 < len(words) < 3 and _is_count(words[0]) and (len(words) == 1 or _is_number(words[1]))


def _is_switch(text: str) -> bool:
    return text in ("0", "1")


def _is_weight(text: str) -> bool:
    return _is_number(text) and 1 <= int(text[:6]) <= 10_000


def _is_list(text: str) -> bool:
    try:
        cpuset.parse(text)
    except ValueError:
        return False
    return True


def _is_of_device(text: str) -> bool:
    major, colon, minor = text.partition(" ")[0].partition(":")
    return bool(colon) and _is_number(major) and _is_number(minor) and "=" in text


def _is_percentage(text: str) -> bool:
    integer, _, fraction = text.partition(".")
    return text == "max" or (_is_number(integer) and int(integer[:4]) <= 100 and (not fraction or _is_number(fraction)))


_BYTES = (_is_bytes, "max or a number of bytes, for example 1G")
_COUNT = (_is_count, "max or a number")
_SWITCH = (_is_switch, "0 or 1")
_LIST = (_is_list, "a list like 0-3,8")
_OF_DEVICE = (_is_of_device, "MAJOR:MINOR KEY=VALUE, for example 8:0 rbps=1048576")
_PERCENTAGE = (_is_percentage, "max or a percentage without its sign, for example 12.50")
#: For a file: the check of its value, and a description of the documented values.
_FORMS: dict[str, tuple[Callable[[str], bool], str]] = {
    "cgroup.freeze": _SWITCH,
    "cgroup.max.depth": _COUNT,
    "cgroup.max.descendants": _COUNT,
    "cpu.idle": _SWITCH,
    "cpu.max": (_is_bandwidth, "QUOTA or QUOTA PERIOD in microseconds, for example 50000 100000 or max"),
    "cpu.max.burst": (_is_number, "a number of microseconds"),
    "cpu.uclamp.max": _PERCENTAGE,
    "cpu.uclamp.min": _PERCENTAGE,
    "cpu.weight": (_is_weight, "between 1 and 10000"),
    "cpuset.cpus": _LIST,
    "cpuset.mems": _LIST,
    "io.latency": _OF_DEVICE,
    "io.max": _OF_DEVICE,
    "memory.high": _BYTES,
    "memory.low": _BYTES,
    "memory.max": _BYTES,
    "memory.min": _BYTES,
    "memory.oom.group": _SWITCH,
    "memory.swap.high": _BYTES,
    "memory.swap.max": _BYTES,
    "memory.zswap.max": _BYTES,
    "memory.zswap.writeback": _SWITCH,
    "pids.max": _COUNT,
}
