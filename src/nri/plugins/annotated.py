"""Annotations of a pod that direct a plugin: found over scopes and domains, read as YAML, refused by name if wrong.

    class Device(NamedTuple):
        path: str
        type: str
        major: int = 0

    found = find(pod, container.name, "devices.noderesource.dev", "devices.nri.io")
    for position, device in enumerate(found.many(Device) if found else ()):
        with found.at(f"[{position}]", device="path"):
            adjustment.add_device(*device)

The author of a pod writes them, so all of it is bounded, and each mistake is a `Reject` that names annotation, place,
value and the next step. Keys match in any case and with or without `_` and `-`; keys that are not known are collected
in `unknown`, for the reference reads past them. An empty value, or one of comments only, asks for nothing. Numbers and
the like are texts where a text is wanted, as they are written. Next: `nri.plugins.device_injector.plugin`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import NewType, TypeVar, get_type_hints

from nri.api import annotations as convention
from nri.errors import ConfigError, Reject
from nri.text import cut, plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from nri.api.messages import PodSandbox

__all__ = ["LONGEST", "MOST_VALUES", "Annotation", "Mode", "find", "only_for_containers"]

#: Characters that are read of one annotation: a thousand devices. All annotations of a pod together have 256 KiB.
LONGEST = 65_536
#: Values that one annotation may stand for, aliases each time.
MOST_VALUES = 10_000
#: Digits that a number may have; 64 bits need 20.
LONGEST_NUMBER = 32

#: Permission bits. `0660` is octal here, as in YAML 1.1 and `chmod`; elsewhere it is no number.
Mode = NewType("Mode", int)

T = TypeVar("T", bound=tuple[object, ...])


def find(pod: PodSandbox, container_name: str, *keys: str, pod_scope: bool = True) -> Annotation | None:
    """The annotation that counts for a container, or None: the nearest scope, and within it the first of `keys`.

    Args:
        pod: only its annotations are looked at.
        container_name: "" for what concerns the pod.
        keys: of several domains, the preferred one first.
        pod_scope: whether `KEY/pod` and `KEY` count as well as `KEY/container.NAME`.
    """
    there = pod.annotations
    if not there:
        return None
    scopes = list(zip(*(convention.keys(key, container_name) for key in keys), strict=True))
    for scope in scopes if pod_scope else scopes[:1]:
        for key in scope:
            if key in there:
                return Annotation(key, there[key])
    return None


def only_for_containers(pod: PodSandbox, *keys: str) -> str:
    """What to say of annotations for the whole pod where only those for one container count; "" if there are none."""
    stray = [name for key in keys for name in convention.keys(key) if name in pod.annotations]
    return "".join(f"annotation {name} has no effect; write {_container_key(name)}" for name in stray[:1])


def _container_key(key: str) -> str:
    return f"{key.removesuffix('/pod')}/container.NAME"


class Annotation:
    """One annotation: its full key, its value, and readers for the shapes that values have.

    Attributes:
        key: as the pod has it.
        text: the value, as it is.
        unknown: what was read past: places and keys that the readers do not know, with a suggestion, in words.
    """

    __slots__ = ("key", "text", "unknown")

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text = text
        self.unknown: list[str] = []

    def wrong(self, place: str, reason: str, step: str = "") -> Reject:
        """The refusal to raise: where in the value, "" for the whole; what is wrong; and what to do instead."""
        where = f"annotation {plain(self.key, 256)}: {plain(place, 128)}".removesuffix(": ")
        return Reject(f"{where}: {plain(reason)}" + (f"; {plain(step)}" if step else ""))

    @contextmanager
    def at(self, place: str, **names: str) -> Iterator[None]:
        """Turn the error of a builder into a refusal; `names` are the keys that its arguments have here."""
        try:
            yield
        except (TypeError, ValueError) as error:
            found = re.match(r"(\w+)(\S*) (.*)", str(error), re.DOTALL)
            if found is None:
                raise self.wrong(place, str(error)) from None
            key = names.get(found[1], found[1]) + found[2]
            raise self.wrong(f"{place}.{key}".strip("."), found[3]) from None

    # -- shapes of values ---------------------------------------------------------------------------------------------

    def one(self, kind: type[T]) -> T | None:
        """A table of keys, as the NamedTuple `kind`: its fields are the keys, those without a default are needed."""
        root = self._root()
        return None if root is None else self._table(root, "", kind)

    def many(self, kind: type[T], key: str = "") -> list[T]:
        """A list of tables. No two of them may have the same value of the field `key`, if that is given."""
        made = [self._table(node, f"[{place}]", kind) for place, node in enumerate(self._items(self._root(), ""))]
        if key:
            self.different(((f"[{place}].{key}", getattr(one, key)) for place, one in enumerate(made)))
        return made

    def texts(self) -> list[str]:
        """A list of texts, each of them given once."""
        made = self._texts(self._root(), "")
        self.different((f"[{place}]", text) for place, text in enumerate(made))
        return made

    def pairs(self) -> dict[str, str]:
        """A table of any keys, with texts for values."""
        root = self._root()
        if root is None:
            return {}
        return {key: self._needed(self._text(node, key), key) for key, node in self._keys(root, "")}

    def different(self, values: Iterable[tuple[str, str]]) -> None:
        """Refuse a value that is there a second time; `values` are places with what stands there."""
        seen: dict[str, str] = {}
        for place, value in values:
            if value in seen:
                raise self.wrong(place, f"{_show(value)} is already at {seen[value]}", "leave one of them out")
            seen[value] = place

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _root(self) -> Any:
        """The node of the whole value; None if it says nothing."""
        if len(self.text) > LONGEST:
            raise self.wrong("", f"it has {len(self.text)} characters", f"write {LONGEST} at most")
        if not self.text.strip():
            return None
        from nri.config.source import Source
        from nri.config.yaml_text import compose_yaml

        try:
            node = compose_yaml(Source("", self.text, "yaml"), MOST_VALUES)
        except ConfigError as error:
            line = error.source.lstrip(":")
            place = ", ".join(filter(None, (line and f"line {line}", error.key)))
            raise self.wrong(place, error.reason, error.suggestion) from None
        return None if _is_null(node) else node

    def _items(self, node: Any, place: str) -> list[Any]:
        if _is_null(node):
            return []
        if node.id != "sequence":
            raise self.wrong(place, f"expected a list, not {_describe(node)}", "begin each of its items with '- '")
        return list(node.value)

    def _keys(self, node: Any, place: str) -> Iterator[tuple[str, Any]]:
        if node.id != "mapping":
            raise self.wrong(place, f"expected keys with values, not {_describe(node)}", "write 'key: value'")
        for key, value in node.value:
            if key.id != "scalar" or key.tag.endswith(":merge"):
                raise self.wrong(place, f"a key is {_describe(key)}", "write out keys as text")
            yield key.value, value

    def _table(self, node: Any, place: str, kind: type[T]) -> T:
        """The values of the keys of `kind`. A key without a value counts as not given."""
        hints, defaults = get_type_hints(kind), kind._field_defaults  # type: ignore[attr-defined]  # a NamedTuple
        names = {_folded(name): name for name in hints}
        values: dict[str, Any] = {}
        for key, value in self._keys(node, place):
            name = names.get(_folded(key))
            where = f"{place}.{key}".lstrip(".")
            if name is None:
                self._note_unknown(where, key, [name.rstrip("_") for name in hints])
            elif name in values:
                raise self.wrong(where, "the key is given twice", "keep one of them")
            elif not _is_null(value):
                values[name] = _READERS[hints[name]](self, value, where)
        for name in hints:
            if name not in values and name not in defaults:
                raise self.wrong(place, f"{name.rstrip('_')} is missing", f"add '{name.rstrip('_')}: ...'")
        return kind(**values)

    def _note_unknown(self, place: str, key: str, known: Iterable[str]) -> None:
        from nri.config.complaint import suggest

        if len(self.unknown) < 10:
            self.unknown.append(f"annotation {self.key}: {place}: unknown key, left out ({suggest(key[:64], known)})")

    # -- values -------------------------------------------------------------------------------------------------------

    def _needed(self, value: str | None, place: str) -> str:
        if value is None:
            raise self.wrong(place, "it has no value", "write one, or leave the key out")
        return value

    def _text(self, node: Any, place: str) -> str | None:
        if node.id != "scalar":
            raise self.wrong(place, f"expected text, not {_describe(node)}")
        return None if _is_null(node) else str(node.value)

    def _texts(self, node: Any, place: str) -> list[str]:
        nodes = enumerate(self._items(node, place))
        return [self._needed(self._text(item, f"{place}[{at}]"), f"{place}[{at}]") for at, item in nodes]

    def _number(self, node: Any, place: str) -> int:
        written = _written(node)
        if not (node.id == "scalar" and node.tag.endswith(":int")):
            step = "write a whole number"
            if re.fullmatch("[1-9][0-9]*|0", written):
                step = "write it without quotes"
            elif re.fullmatch("0[0-9]+", written):
                step = "write it without the leading 0; octal is 0o17"
            raise self.wrong(place, f"{_describe(node)} is not a number", step)
        if len(written) > LONGEST_NUMBER:
            raise self.wrong(place, f"{_describe(node)} is too large a number")
        return int(written, 0)

    def _mode(self, node: Any, place: str) -> int:
        if re.fullmatch("0[0-7]{1,6}", _written(node)):
            return int(node.value, 8)
        return self._number(node, place)


def _folded(key: str) -> str:
    """A key as keys are compared: `hostIf`, `HostIF` and `host_if` are one."""
    return key.replace("_", "").replace("-", "").lower()


def _is_null(node: Any) -> bool:
    return node is None or (node.id == "scalar" and node.tag.endswith(":null"))


def _written(node: Any) -> str:
    return str(node.value) if node.id == "scalar" else ""


def _show(text: str) -> str:
    return quote(cut(text, 60))


def _describe(node: Any) -> str:
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "a table of keys"
    return "nothing" if _is_null(node) else _show(node.value)


#: Annotation of a field -> how its value is read.
_READERS: dict[Any, Callable[[Annotation, Any, str], Any]] = {
    str: Annotation._text,
    int: Annotation._number,
    Mode: Annotation._mode,
    tuple[str, ...]: lambda found, node, place: tuple(found._texts(node, place)),
}
