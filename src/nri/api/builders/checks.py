"""Checks of the arguments of builders. Each error names the argument and the value.

They refuse values that no runtime could apply, at the call instead of on the wire or in the kernel. A check runs before
a message is changed, because protobuf would leave an empty wrapper, which means zero.
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
    "RLIMITS",
    "SHARES",
    "SWAPPINESS",
    "U32",
    "U64",
    "absolute_path",
    "cdi_device",
    "enum_number",
    "enum_numbers",
    "flag",
    "integer",
    "mapping_text",
    "new_key",
    "new_path",
    "number_list",
    "one_of",
    "rlimit",
    "text",
    "texts",
    "unified_key",
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

#: The process resource limits of Linux, each as `RLIMIT_` and its name.
RLIMITS = (
    "AS", "CORE", "CPU", "DATA", "FSIZE", "LOCKS", "MEMLOCK", "MSGQUEUE", "NICE", "NOFILE", "NPROC", "RSS", "RTPRIO",
    "RTTIME", "SIGPENDING", "STACK",
)  # fmt: skip


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


def text(name: str, value: Any, *, empty: bool = True) -> str:
    """Check a string for C programs and the wire: no NUL, no lone surrogates, and not empty unless `empty`.

    Raises:
        TypeError: the value is not a str.
        ValueError: the value is empty, or has an invalid character.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    if not value and not empty:
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
    """Check a key to set: it must not be empty or have a removal mark.

    Raises:
        TypeError: the key is not a str.
        ValueError: the key is empty or marked; the error names the method that removes.
    """
    key = text(name, value, empty=False)
    if is_marked(key):
        raise ValueError(f"{name} must not start with '-', which requests a removal: {value!r}; use {remove_with}()")
    return key


def absolute_path(name: str, value: Any) -> str:
    """Check that a path is absolute.

    Raises:
        TypeError: the path is not a str.
        ValueError: the path is empty or relative.
    """
    checked = text(name, value, empty=False)
    if not checked.startswith("/"):
        raise ValueError(f"{name} must be an absolute path, not {value!r}")
    return checked


def new_path(name: str, value: Any, remove_with: str) -> str:
    """Check an absolute path that is a key to set; see `new_key` and `absolute_path`."""
    return absolute_path(name, new_key(name, value, remove_with))


def number_list(name: str, value: Any, *, empty: bool = False) -> str:
    """Check CPUs or memory nodes in the kernel's list format. An empty list is an error unless `empty`.

    Raises:
        TypeError: the list is not a str.
        ValueError: the list is invalid, or has no number; see `nri.api.cpuset`.
    """
    checked = text(name, value, empty=empty)
    try:
        numbers = cpuset.parse(checked)
    except ValueError as error:
        raise ValueError(f"{name} must be a list like 0-3,8, not {value!r}: {error}") from None
    if not numbers and not empty:
        raise ValueError(f"{name} must not be empty: {value!r}")
    return checked


def cdi_device(name: str, value: Any) -> str:
    """Check the name of a Container Device Interface device, `vendor/class=device`.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name has another form.
    """
    full = text(name, value, empty=False)
    kind, equals, device = full.partition("=")
    vendor, slash, word = kind.partition("/")
    parts = (vendor[:1].isalpha(), word[:1].isalpha(), _is_word(vendor, ""), _is_word(word, ""), _is_word(device, ":"))
    if not (equals and slash and full.isascii() and all(parts)):
        raise ValueError(f"{name} must be vendor/class=device, for example vendor.com/net=eth0, not {value!r}")
    return full


def _is_word(word: str, more: str) -> bool:
    """Whether a word has only letters, digits, `_`, `-`, `.` and `more`, and a letter or digit at both ends."""
    inside = word
    for character in "_-." + more:
        inside = inside.replace(character, "")
    return inside.isalnum() and word[0].isalnum() and word[-1].isalnum()


def rlimit(name: str, value: Any) -> str:
    """Check the type of a process resource limit.

    Raises:
        ValueError: Linux does not have this limit.
    """
    kind = text(name, value, empty=False)
    if not kind.startswith("RLIMIT_") or kind.removeprefix("RLIMIT_") not in RLIMITS:
        raise ValueError(f"{name} must be RLIMIT_ followed by one of {', '.join(RLIMITS)}, not {value!r}")
    return kind


def unified_key(name: str, value: Any) -> str:
    """Check the name of a file of cgroup v2.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name is empty, or the path of a file in another folder.
    """
    key = text(name, value, empty=False)
    if "/" in key:
        raise ValueError(f"{name} must be the name of a file without '/', for example memory.high, not {value!r}")
    return key


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
