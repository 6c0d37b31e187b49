"""Checks of the arguments of builders. Each error names the argument and the value.

Each function checks one argument and returns the checked value. It refuses values that no runtime could apply, so that
the error occurs at the call, and not on the wire or in the kernel. A value that some runtime applies, but that is
probably a mistake, is logged. A check runs before a message is changed, because protobuf would leave an empty wrapper,
which means zero.
"""

from __future__ import annotations

from nri.api import cpuset
from nri.api.removal import is_marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Ranges of the wire's integer types.
I64 = (-(1 << 63), (1 << 63) - 1)
U32 = (0, (1 << 32) - 1)
U64 = (0, (1 << 64) - 1)
#: The range of an amount of memory; -1 means unlimited.
LIMIT = (-1, (1 << 63) - 1)

#: The range to which the kernel changes CPU weights of cgroup v1.
_MIN_SHARES, _MAX_SHARES = 2, 262144
#: The most that the kernel and runc accept as tendency to swap.
_MAX_SWAPPINESS, _MAX_RUNC_SWAPPINESS = 200, 100
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
doubts: set[str] = set()
_MAX_DOUBTS = 100


def warn_once(text: str) -> None:
    """Log, once per text, a value that is probably a mistake, but that some runtime or kernel accepts."""
    if text in doubts or len(doubts) >= _MAX_DOUBTS:
        return
    doubts.add(text)
    import logging  # noqa: PLC0415 - a plugin's start must not import it

    logging.getLogger("nri.api").warning("%s", text)


def remember(accepted: set[Any], value: Any) -> None:
    """Add a text, or a tuple of texts, to a set of accepted values, unless the set is full or the value is long."""
    characters = len(value) if isinstance(value, str) else sum(map(len, value))
    if len(accepted) < _MAX_ACCEPTED and characters <= _MAX_REMEMBERED:
        accepted.add(value)


#: Bounds of a set of accepted values, because values may come from pods: its elements, and the characters of each.
_MAX_ACCEPTED, _MAX_REMEMBERED = 1000, 1024


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


def memory_limit(name: str, value: Any) -> int:
    """Check a limit of memory; a limit below a page is logged as a doubt."""
    number = integer(name, value, LIMIT)
    if 0 < number < _PAGE_BYTES:
        warn_once(
            f"{name} is {number}: the kernel rounds it down to no memory at all; the unit is bytes, 64 MiB is 64 << 20"
        )
    return number


def cpu_shares(name: str, value: Any) -> int:
    """Check a CPU weight of cgroup v1. A value that only some runtimes accept is logged as a doubt."""
    shares = integer(name, value, (1, U64[1]))
    if not _MIN_SHARES <= shares <= _MAX_SHARES:
        warn_once(f"{name} is {shares}: runc refuses it, others use {min(max(shares, _MIN_SHARES), _MAX_SHARES)}")
    return shares


def swappiness(name: str, value: Any) -> int:
    """Check the kernel's tendency to swap. A value that only some runtimes accept is logged as a doubt."""
    number = integer(name, value, (0, _MAX_SWAPPINESS))
    if number > _MAX_RUNC_SWAPPINESS:
        warn_once(f"{name} is {number}: runc refuses values above {_MAX_RUNC_SWAPPINESS}")
    return number


def cfs_time(name: str, value: Any, bounds: tuple[int, int], max_us: int) -> int:
    """Check a period or quota of CPU time in microseconds.

    Raises:
        ValueError: the kernel refuses the value.
    """
    number = integer(name, value, bounds)
    if 0 < number < MIN_CFS_US or number > max_us:
        limits = f"between {MIN_CFS_US} and {max_us}" if max_us < U64[1] else f"{MIN_CFS_US} or more"
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
    """Check the mode of a device node. Bits that are not permissions are logged as a doubt.

    A usual mistake is a missing 0o before octal digits.
    """
    mode = integer(name, value, U32)
    if mode > 0o777:
        digits = str(mode)
        is_octal = len(digits) == 3 and not set(digits) - set("01234567")
        hint = f"; write 0o{digits}" if is_octal else ""
        warn_once(f"{name} {mode} ({mode:#o}) has more than the permission bits, which are at most 0o777{hint}")
    return mode


def device_numbers(path: str, kind: str, major: int, minor: int) -> tuple[int, int]:
    """Check the numbers of a device. Numbers that no driver has are logged as a doubt; a named pipe has no numbers.

    Raises:
        TypeError: a number is not an int.
        ValueError: a number is negative, which runc refuses, or has more than 63 bits.
    """
    numbers = integer("major", major, (0, I64[1])), integer("minor", minor, (0, I64[1]))
    if kind == "p":
        return numbers
    if numbers == (0, 0):
        warn_once(f"device {path} has the numbers 0:0, which no driver has: set major and minor; ls -l shows them")
    elif major > _MAX_MAJOR or minor > _MAX_MINOR:
        warn_once(
            f"device {path} has the numbers {major}:{minor}: Linux has no majors above {_MAX_MAJOR} and no minors above"
            f" {_MAX_MINOR}, and runtimes set other numbers"
        )
    return numbers


#: The largest numbers of a device in Linux: 12 and 20 bits.
_MAX_MAJOR, _MAX_MINOR = (1 << 12) - 1, (1 << 20) - 1


def process_args(values: Any) -> list[str]:
    """Check a command line. A blank in the program's name is logged as a doubt.

    Raises:
        TypeError: the command line is not a list of texts.
        ValueError: the command line is empty, or begins with an empty text.
    """
    words = texts("args", values)
    if not words:
        raise ValueError(
            "args must not be empty: runtimes would ignore an empty list;"
            " update_args([]) restores the image's command line"
        )
    if not words[0]:
        raise ValueError("args must not begin with an empty string; update_args() replaces another plugin's args")
    if " " in words[0]:
        warn_once(f"args begin with {words[0]!r}: a program whose name has a space; write {words[0].split()}")
    return words


def hook_args(path: str, values: Any) -> list[str]:
    """Check the command line of a hook. A missing program name is logged as a doubt: it comes first, as in execve."""
    words, program = texts("args", values), path.rpartition("/")[2]
    if words and words[0].rpartition("/")[2] != program:
        warn_once(
            f"args of the hook {path} begin with {words[0]!r}, which the hook gets as the name of its program, and not"
            f" as an argument: write {[program, words[0]]}"
        )
    return words


def hook_env(path: str, values: Any) -> list[str]:
    """Check the environment of a hook. An entry that is not NAME=value is logged as a doubt.

    Raises:
        TypeError: the environment is a dict, or not a list of texts.
    """
    if isinstance(values, dict):
        raise TypeError(f"env must be a list of strings NAME=value, not a dict: {values!r}")
    entries = texts("env", values)
    for entry in entries:
        if "=" not in entry[1:]:
            warn_once(f"env of the hook {path} has {entry!r}, which programs ignore: write NAME=value")
    return entries


def rdt_schemata(values: Any) -> list[str]:
    """Check lines of resctrl's schemata. A line of another form is logged as a doubt."""
    lines = texts("schemata", values)
    for line in lines:
        resource, colon, domains = line.partition(":")
        if not (resource and colon and "=" in domains):
            warn_once(f"the schemata line {line!r} is not RESOURCE:DOMAIN=VALUE, for example L3:0=ff;1=ff")
    return lines


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
        raise ValueError(f"{name} must have at most {_MAX_DEVICE_NAME} bytes, without '/' and spaces, not {value!r}")
    return word


def sysctl_name(value: str) -> str:
    """Check the name of a kernel parameter: its components are separated by dots, and may contain slashes.

    A slash stands for a dot in the name of a file, as in `net.ipv4.conf.eth0/1.forwarding` for the device eth0.1.
    runc and crun also accept slashes between components.
    """
    dot, slash, dotted = value.find("."), value.find("/"), value
    if slash >= 0 and not 0 <= dot < slash:
        dotted = value.translate({ord("/"): ".", ord("."): "/"})
        warn_once(
            f"the kernel parameter {value} is written with slashes: a conflict with {dotted}, which is the same"
            " parameter, is not noticed"
        )
    if not dotted.startswith(_NAMESPACED_SYSCTLS):
        warn_once(f"runc and crun refuse the kernel parameter {dotted}: it belongs to no namespace that they know")
    return value


#: The beginnings of the names of kernel parameters that belong to a namespace of a container.
_NAMESPACED_SYSCTLS = (
    "net.", "kernel.msg", "kernel.sem", "kernel.shm", "kernel.auto_msgmni", "kernel.domainname", "fs.mqueue.",
)  # fmt: skip


def env_name(value: Any) -> str:
    """Check the name of an environment variable to set; a blank is logged as a doubt. See `new_key`."""
    if value.__class__ is str and value in _env_names:
        return value
    name = new_key("name", value, "remove_env")
    if "=" in name:
        raise ValueError(f"name must not contain '=': {name!r}")
    _log_blank("environment variable", name)
    remember(_env_names, name)
    return name


def annotation_key(value: Any) -> str:
    """Check the key of an annotation to set; a blank is logged as a doubt. See `new_key`."""
    if value.__class__ is str and value in _annotation_keys:
        return value
    key = new_key("key", value, "remove_annotation")
    _log_blank("annotation", key)
    remember(_annotation_keys, key)
    return key


#: Accepted keys, so that a key that a plugin sets for every container is checked once.
_env_names: set[str] = set()
_annotation_keys: set[str] = set()


def _log_blank(what: str, key: str) -> None:
    if " " in key or not key.isprintable():
        warn_once(f"{what} {key!r} contains a space: no program will look for it")


def cgroups_path(name: str, value: Any) -> str:
    """Check the control group of a container: absolute, or `slice:prefix:name` for systemd.

    Raises:
        ValueError: the path is empty.
    """
    path = text(name, value, allow_empty=False)
    if ".." in path.split("/"):
        warn_once(f"the cgroup path {path!r} contains '..': runc and crun remove it together with the name before it")
    if not path.startswith("/") and path.count(":") != 2:
        warn_once(f"the cgroup path {path!r} is relative: the result depends on the runtime; begin it with '/'")
    return path


def texts(name: str, values: Any) -> list[str]:
    """Check several strings.

    Raises:
        TypeError: the argument is a single string, or an element is not a string.
        ValueError: a string has an invalid character.
    """
    if isinstance(values, (str, bytes)):
        words = values.replace(",", " ").split() if isinstance(values, str) else [values]
        raise TypeError(f"{name} must be a list of strings, not the string {values!r}: write {words}")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a list of strings, not {values!r}")
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
        raise TypeError(f"{name} must be a list of names or numbers, not the string {values!r}")
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
