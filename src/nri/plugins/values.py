"""Nodes of YAML as the values that are wanted: texts, numbers, modes, lists, and tables as NamedTuples.

Rules: what is wanted decides, and what stands there is never bent to it: a number has no quotes, a list is no text.
Only texts may be anything that is one scalar, as it is written. Keys match in any case and with or without `_` and `-`.
Each mistake is a `Wrong` with its place. Next: `nri.plugins.annotated`, whose annotations hold such values.
"""

from __future__ import annotations

import re
from typing import NewType, TypeVar, get_type_hints

from nri.text import cut, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["Mode", "Wrong", "is_null", "items", "keys", "table", "text", "texts"]

#: Characters that a number may have; those of 64 bits have 20.
LONGEST_NUMBER = 32
#: Unknown keys of one value that are told; no person reads more.
MOST_UNKNOWN = 10

#: Permission bits. `0660` is octal here, as in YAML 1.1 and `chmod`; elsewhere it is no number.
Mode = NewType("Mode", int)

T = TypeVar("T", bound=tuple[object, ...])


class Wrong(ValueError):
    """A value that is not what is wanted.

    Attributes:
        place: where, as `[1].major`; "" for the whole.
        reason: what is wrong.
        step: what to do instead, or "".
    """

    def __init__(self, place: str, reason: str, step: str = "") -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
        self.step = step


def is_null(node: Any) -> bool:
    """Whether a node says nothing."""
    return node is None or (node.id == "scalar" and node.tag.endswith(":null"))


def items(node: Any, place: str) -> list[Any]:
    """The nodes of a list; none of a null."""
    if is_null(node):
        return []
    if node.id != "sequence":
        raise Wrong(place, f"expected a list, not {_describe(node)}", "begin each of its items with '- '")
    return list(node.value)


def keys(node: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The keys of a table with the nodes of their values."""
    if node.id != "mapping":
        raise Wrong(place, f"expected keys with values, not {_describe(node)}", "write 'key: value'")
    for key, value in node.value:
        if key.id != "scalar" or key.tag.endswith(":merge"):
            raise Wrong(place, f"a key is {_describe(key)}", "write out keys as text")
        yield key.value, value


def table(node: Any, place: str, kind: type[T], unknown: list[str]) -> T:
    """A table as the NamedTuple `kind`; its fields are the keys, and those without a default are needed.

    A key without a value counts as not given. One that is not known is added to `unknown`, in words.
    """
    hints, defaults = get_type_hints(kind), kind._field_defaults  # type: ignore[attr-defined]  # a NamedTuple
    names = {_folded(name): name for name in hints}
    values: dict[str, Any] = {}
    for key, value in keys(node, place):
        name = names.get(_folded(key))
        where = f"{place}.{key}".lstrip(".")
        if name is None:
            if len(unknown) < MOST_UNKNOWN:
                unknown.append(f"{where}: unknown key, left out ({_suggest(key, hints)})")
        elif name in values:
            raise Wrong(where, "the key is given twice", "keep one of them")
        elif not is_null(value):
            values[name] = _READERS[hints[name]](value, where)
    for name in hints:
        if name not in values and name not in defaults:
            shown = name.rstrip("_")
            raise Wrong(place, f"{shown} is missing", f"add '{shown}: ...'")
    return kind(**values)


def _folded(key: str) -> str:
    """A key as keys are compared: `hostIf`, `host-if` and `host_if` are one."""
    return key.replace("_", "").replace("-", "").lower()


def _suggest(key: str, known: dict[str, Any]) -> str:
    from nri.config.complaint import suggest

    return suggest(key[:64], [name.rstrip("_") for name in known])


def text(node: Any, place: str) -> str:
    """A text as it is written."""
    if node.id != "scalar":
        raise Wrong(place, f"expected text, not {_describe(node)}")
    if is_null(node):
        raise Wrong(place, "it has no value", "write one, or leave the key out")
    return str(node.value)


def texts(node: Any, place: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple([text(item, f"{place}[{position}]") for position, item in enumerate(items(node, place))])


def _number(node: Any, place: str) -> int:
    written = _written(node)
    if not (node.id == "scalar" and node.tag.endswith(":int")):
        step = "write a whole number"
        if re.fullmatch("[1-9][0-9]*|0", written):
            step = "write it without quotes"
        elif re.fullmatch("0[0-9]+", written):
            step = "write it without the leading 0; octal is 0o17"
        raise Wrong(place, f"{_describe(node)} is not a number", step)
    if len(written) > LONGEST_NUMBER:
        raise Wrong(place, f"{_describe(node)} is too large a number")
    return int(written, 0)


def _mode(node: Any, place: str) -> int:
    if re.fullmatch("0[0-7]{1,6}", _written(node)):
        return int(node.value, 8)
    return _number(node, place)


def _written(node: Any) -> str:
    return str(node.value) if node.id == "scalar" else ""


def _describe(node: Any) -> str:
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "a table of keys"
    return "nothing" if is_null(node) else quote(cut(node.value, 60))


#: Type of a field -> how its value is read.
_READERS: dict[Any, Callable[[Any, str], Any]] = {str: text, int: _number, Mode: _mode, tuple[str, ...]: texts}
