"""Checks of the arguments of builders. Each error names the argument and the value.

Each function checks one argument and returns the checked value. It refuses values that no runtime could apply, so that
the error occurs at the call, and not on the wire or in the kernel. A check runs before a message is changed, because
protobuf would leave an empty wrapper, which means zero.
"""

from __future__ import annotations

from nri.api import cpuset
from nri.api.removal import is_marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "I64",
    "LIMIT",
    "MAX_CFS_PERIOD_US",
    "RLIMITS",
    "SHARES",
    "SWAPPINESS",
    "U32",
    "U64",
    "absolute_path",
    "cdi_device",
    "cfs_time",
    "cgroups_path",
    "device_name",
    "enum_number",
    "enum_numbers",
    "file_mode",
    "flag",
    "folder_name",
    "integer",
    "mapping_text",
    "memory_limit",
    "new_key",
    "new_path",
    "number_list",
    "one_of",
    "page_size",
    "rlimit",
    "sysctl_name",
    "text",
    "texts",
    "unified_key",
    "warn_of_blank",
]

#: Ranges of the wire's integer types.
I64 = (-(1 << 63), (1 << 63) - 1)
U32 = (0, (1 << 32) - 1)
U64 = (0, (1 << 64) - 1)
#: The range of an amount of memory; -1 means unlimited.
LIMIT = (-1, (1 << 63) - 1)
#: The range of CPU weights on cgroup v1.
SHARES = (2, 262144)
#: The range of the kernel's tendency to swap.
SWAPPINESS = (0, 100)

#: Bounds of the kernel's CPU bandwidth control in microseconds; 0 leaves a value unset, as in runtimes.
MIN_CFS_US = 1000
MAX_CFS_PERIOD_US = 1_000_000
#: A page: smaller limits of memory leave no page to the container.
_PAGE_BYTES = 4096
#: The longest name of a network device.
_MAX_DEVICE_NAME = 15

#: The process resource limits of Linux, each as `RLIMIT_` and its name.
RLIMITS = (
    "AS", "CORE", "CPU", "DATA", "FSIZE", "LOCKS", "MEMLOCK", "MSGQUEUE", "NICE", "NOFILE", "NPROC", "RSS", "RTPRIO",
    "RTTIME", "SIGPENDING", "STACK",
)  # fmt: skip


#: Texts of logged doubts, so that each is logged once. After `_MAX_DOUBTS` texts, no more doubts are logged.
_doubts: set[str] = set()
_MAX_DOUBTS = 100


def log_doubt(text: str) -> None:
    """Log, once per text, a value that is probably a mistake, but that some runtime or kernel accepts."""
    if text in _doubts or len(_doubts) >= _MAX_DOUBTS:
        return
    _doubts.add(text)
    import logging  # noqa: PLC0415 - a plugin's start must not import it

    logging.getLogger("nri.api").warning("%s", text)


def integer(name: str, value: Any, bounds: tuple[int, int]) -> int:
    """Check an integer against its bounds, both included.

    Raises:
        TypeError: the value is not an int, or it is a bool.
        ValueError: the value is out of bounds.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {value!r}")
    if not bounds[0] <= value <= bounds[1]:
        raise ValueError(f"{name} must be between {bounds[0]} and {bounds[1]}, not {value}")
    number: int = value
    return number


def flag(name: str, value: Any) -> bool:
    """Check that a value is a bool.

    Raises:
        TypeError: the value is not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {value!r}")
    return value


def text(name: str, value: Any, *, allow_empty: bool = True) -> str:
    """Check a string for C programs and the wire: no NUL, and no lone surrogates.

    Raises:
        TypeError: the value is not a str.
        ValueError: the value is empty although `allow_empty` is False, or has an invalid character.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    if not value and not allow_empty:
        raise ValueError(f"{name} must not be empty")
    if "\0" in value:
        raise ValueError(f"{name} must not contain NUL: {value!r}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} is not valid Unicode: {value!r}") from None
    return value


def new_key(name: str, value: Any, remove_with: str) -> str:
    """Check a key to set: it must not be empty, and must not have a removal mark.

    Raises:
        TypeError: the key is not a str.
        ValueError: the key is empty or marked; the error names the method that removes.
    """
    key = text(name, value, allow_empty=False)
    if is_marked(key):
        raise ValueError(f"{name} must not start with '-', which requests a removal: {value!r}; use {remove_with}()")
    return key


def absolute_path(name: str, value: Any) -> str:
    """Check that a path is absolute.

    Raises:
        TypeError: the path is not a str.
        ValueError: the path is empty or relative.
    """
    checked = text(name, value, allow_empty=False)
    if not checked.startswith("/"):
        raise ValueError(f"{name} must be an absolute path, not {value!r}")
    return checked


def new_path(name: str, value: Any, remove_with: str) -> str:
    """Check an absolute path that is a key to set; see `new_key` and `absolute_path`."""
    return absolute_path(name, new_key(name, value, remove_with))


def number_list(name: str, value: Any, *, allow_empty: bool = False) -> str:
    """Check CPUs or memory nodes in the kernel's list format. An empty list is an error, unless `allow_empty` is set.

    Raises:
        TypeError: the list is not a str.
        ValueError: the list is invalid, or has no number; see `nri.api.cpuset`.
    """
    checked = text(name, value, allow_empty=allow_empty)
    try:
        numbers = cpuset.parse(checked)
    except ValueError as error:
        raise ValueError(f"{name} must be a list like 0-3,8, not {value!r}: {error}") from None
    if not numbers and not allow_empty:
        raise ValueError(f"{name} must not be empty: {value!r}")
    return checked


def cdi_device(name: str, value: Any) -> str:
    """Check the name of a Container Device Interface device, `vendor/class=device`.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name has another form.
    """
    full = text(name, value, allow_empty=False)
    kind, equals, device = full.partition("=")
    vendor, slash, word = kind.partition("/")
    parts = (vendor[:1].isalpha(), word[:1].isalpha(), _is_word(vendor, ""), _is_word(word, ""), _is_word(device, ":"))
    if not (equals and slash and full.isascii() and all(parts)):
        raise ValueError(f"{name} must be vendor/class=device, for example vendor.com/net=eth0, not {value!r}")
    return full


def _is_word(word: str, more: str) -> bool:
    """Whether a word has only letters, digits, `_`, `-`, `.` and `more`, and a letter or digit at both ends."""
    alphanumerics = word
    for character in "_-." + more:
        alphanumerics = alphanumerics.replace(character, "")
    return alphanumerics.isalnum() and word[0].isalnum() and word[-1].isalnum()


def rlimit(name: str, value: Any) -> str:
    """Check the type of a process resource limit.

    Raises:
        ValueError: Linux does not have this limit.
    """
    kind = text(name, value, allow_empty=False)
    if not kind.startswith("RLIMIT_") or kind.removeprefix("RLIMIT_") not in RLIMITS:
        raise ValueError(f"{name} must be RLIMIT_ followed by one of {', '.join(RLIMITS)}, not {value!r}")
    return kind


def unified_key(name: str, value: Any) -> str:
    """Check the name of a file of cgroup v2.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name is empty, is a path, is misspelt, or belongs to a file that only reports.
    """
    key = text(name, value, allow_empty=False)
    if "/" in key:
        raise ValueError(f"{name} must be the name of a file without '/', for example memory.high, not {value!r}")
    if key not in _UNIFIED_FILES and not key.startswith("hugetlb."):
        _check_unknown_file(name, key)
    return key


#: The files of cgroup v2 that accept a value, and the files that only report.
_UNIFIED_FILES = frozenset((
    "cgroup.freeze", "cgroup.max.depth", "cgroup.max.descendants", "cgroup.pressure", "cgroup.subtree_control",
    "cgroup.type", "cpu.idle", "cpu.max", "cpu.max.burst", "cpu.pressure", "cpu.uclamp.max", "cpu.uclamp.min",
    "cpu.weight", "cpu.weight.nice", "cpuset.cpus", "cpuset.cpus.exclusive", "cpuset.cpus.partition", "cpuset.mems",
    "dmem.low", "dmem.max", "dmem.min", "io.bfq.weight", "io.cost.model", "io.cost.qos", "io.latency", "io.max",
    "io.pressure", "io.prio.class", "io.weight", "memory.high", "memory.low", "memory.max", "memory.min",
    "memory.oom.group", "memory.peak", "memory.pressure", "memory.reclaim", "memory.swap.high", "memory.swap.max",
    "memory.swap.peak", "memory.zswap.max", "memory.zswap.writeback", "misc.max", "pids.max", "rdma.max",
))  # fmt: skip
_READ_ONLY_FILES = frozenset((
    "cgroup.controllers", "cgroup.events", "cgroup.stat", "cpu.stat", "cpuset.cpus.effective", "cpuset.mems.effective",
    "io.stat", "memory.current", "memory.events", "memory.numa_stat", "memory.stat", "memory.swap.current",
    "misc.current", "pids.current", "pids.events", "rdma.current",
))  # fmt: skip


def _check_unknown_file(name: str, key: str) -> None:
    """Refuse a file that only reports, and a misspelt name; log a doubt about others, which some kernel may have."""
    import difflib  # noqa: PLC0415 - only for a key that is probably a mistake

    if key in _READ_ONLY_FILES:
        raise ValueError(f"{name} must be a file that accepts a value: {key!r} only reports")
    matches = difflib.get_close_matches(key, _UNIFIED_FILES, 1, 0.85)
    extends_match = any(key.startswith((f"{match}.", f"{match}_")) for match in matches)
    if matches and not extends_match:
        raise ValueError(f"{name} must be a file of cgroup v2: {key!r} does not exist; did you mean {matches[0]}?")
    log_doubt(f"cgroup v2 of mainline Linux has no file {key!r}: runtimes fail on a kernel without this file")


def memory_limit(name: str, value: Any) -> int:
    """Check a limit of memory; a limit below a page is logged as a doubt."""
    number = integer(name, value, LIMIT)
    if 0 < number < _PAGE_BYTES:
        log_doubt(
            f"{name} is {number}: the kernel rounds it down to no memory at all; the unit is bytes, 64 MiB is 64 << 20"
        )
    return number


def cfs_time(name: str, value: Any, bounds: tuple[int, int], most: int) -> int:
    """Check a period or quota of CPU time in microseconds.

    Raises:
        ValueError: the kernel refuses the value.
    """
    number = integer(name, value, bounds)
    if 0 < number < MIN_CFS_US or number > most:
        limits = f"between {MIN_CFS_US} and {most}" if most < U64[1] else f"{MIN_CFS_US} or more"
        raise ValueError(f"{name} must be {limits} microseconds, not {number}")
    return number


def page_size(name: str, value: Any) -> str:
    """Check the size of a huge page.

    Raises:
        ValueError: the value is not a size as the kernel writes it.
    """
    size = text(name, value, allow_empty=False)
    number = size[:-2]
    if size[-2:] not in ("KB", "MB", "GB") or not number.isdecimal() or not number.isascii() or number[0] == "0":
        raise ValueError(f"{name} must be a size as the kernel writes it, for example 2MB or 1GB, not {value!r}")
    return size


def file_mode(name: str, value: Any) -> int:
    """Check the permission bits of a device node.

    Raises:
        ValueError: the mode has other bits than permissions, for example because 0o is missing before octal digits.
    """
    mode = integer(name, value, U32)
    if mode > 0o777:
        digits = str(mode)
        is_octal = len(digits) == 3 and not set(digits) - set("01234567")
        hint = f"; write 0o{digits}" if is_octal else ""
        raise ValueError(f"{name} must have only permission bits, at most 0o777, not {mode} ({mode:#o}){hint}")
    return mode


def folder_name(name: str, value: Any) -> str:
    """Check the name of a class that is a folder of resctrl; empty is allowed.

    Raises:
        ValueError: the value is a path.
    """
    word = text(name, value)
    if "/" in word or word in {".", ".."}:
        raise ValueError(f"{name} must be a name without '/', not {value!r}")
    return word


def device_name(name: str, value: Any) -> str:
    """Check the name of a network device; empty is allowed.

    Raises:
        ValueError: the kernel does not allow this name.
    """
    word = text(name, value)
    if len(word.encode()) > _MAX_DEVICE_NAME or "/" in word or word in {".", ".."} or word.split() not in ([word], []):
        raise ValueError(f"{name} must have at most {_MAX_DEVICE_NAME} bytes, without '/' and blanks, not {value!r}")
    return word


def sysctl_name(name: str, value: Any) -> str:
    """Check the name of a kernel parameter: its components are separated by dots, and may contain slashes.

    A slash stands for a dot in the name of a file, as in `net.ipv4.conf.eth0/1.forwarding` for the device eth0.1.

    Raises:
        ValueError: the components are separated by slashes.
    """
    dot, slash = value.find("."), value.find("/")
    if slash >= 0 and not 0 <= dot < slash:
        dotted = value.translate({ord("/"): ".", ord("."): "/"})
        raise ValueError(f"{name} must be written with dots, {dotted}, not {value!r}")
    if not value.startswith(_NAMESPACED_SYSCTLS):
        log_doubt(f"the kernel parameter {value} belongs to no namespace of a container: runc and crun refuse it")
    return str(value)


#: The beginnings of the names of kernel parameters that belong to a namespace of a container.
_NAMESPACED_SYSCTLS = (
    "net.", "kernel.msg", "kernel.sem", "kernel.shm", "kernel.auto_msgmni", "kernel.hostname", "kernel.domainname",
    "fs.mqueue.", "user.",
)  # fmt: skip


def warn_of_blank(what: str, key: str) -> None:
    """Log a doubt about a key with blanks."""
    if key.split() != [key]:
        log_doubt(f"{what} {key!r} contains a blank: no program will look for it")


def cgroups_path(name: str, value: Any) -> str:
    """Check the control group of a container: absolute, or `slice:prefix:name` for systemd.

    Raises:
        ValueError: the path is empty, or contains '..'.
    """
    path = text(name, value, allow_empty=False)
    if ".." in path.split("/"):
        raise ValueError(f"{name} must not contain '..': {value!r}")
    if not path.startswith("/") and path.count(":") != 2:
        log_doubt(f"the cgroup path {path!r} is relative: the result depends on the runtime; begin it with '/'")
    return path


def texts(name: str, values: Any) -> list[str]:
    """Check several strings.

    Raises:
        TypeError: the argument is a single string, or an element is not a string.
        ValueError: a string has an invalid character.
    """
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} must be a list of texts, not the text {values!r}: write [{values!r}]")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a list of texts, not {values!r}")
    return [mapping_text(name, position, value) for position, value in enumerate(values)]


def mapping_text(name: str, entry: object, value: Any) -> str:
    """Check the value of an entry of a map or list; see `text`."""
    if isinstance(value, str) and value.isascii() and "\0" not in value:
        return value  # the common case, without formatting the entry's name
    return text(f"{name}[{entry!r}]", value)


def enum_number(name: str, enum: Any, value: Any, prefix: str) -> Any:
    """The number of an enum's value, given by number, name, or name without the common prefix; case is ignored.

    Raises:
        TypeError: the value is neither a number nor a name.
        ValueError: the enum does not have this value.
    """
    if isinstance(value, str):
        word = value.upper()
        for candidate in (word, prefix + word):
            if candidate in enum.keys():  # noqa: SIM118 - the wrapper is not a mapping
                return enum.Value(candidate)
    elif not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a name or a number, not {value!r}")
    elif value in enum.values():
        return value
    names = ", ".join(word.removeprefix(prefix) for word in enum.keys())  # noqa: SIM118
    raise ValueError(f"{name} must be one of {names}, not {value!r}")


def enum_numbers(name: str, enum: Any, values: Any, prefix: str) -> list[Any]:
    """The numbers of several values of an enum; see `enum_number`."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be a list of names or numbers, not the text {values!r}")
    return [enum_number(f"{name}[{position}]", enum, value, prefix) for position, value in enumerate(values)]


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Check that a word is in a fixed list.

    Raises:
        ValueError: the word is not in the list.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    word: str = value
    return word
