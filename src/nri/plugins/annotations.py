"""Annotations of a pod that direct a plugin: found over scopes and domains, read as YAML, refused by name if wrong.

    class Device(NamedTuple):
        path: str
        type: str
        major: int = 0

    found = find(pod, container.name, "devices.noderesource.dev", "devices.nri.io")
    for position, device in enumerate(found.rows(Device) if found else ()):
        with found.at(f"[{position}]", device="path"):
            adjustment.add_device(*device)

The author of a pod writes them, so all of it is bounded, and each mistake is a `Reject` that names annotation, place,
value and the next step. Keys that are not known are collected in `unknown`, for the reference reads past them. An empty
value, or one of comments only, asks for nothing. The type that is wanted decides, and
the text there is never bent to it: a number has no quotes, a list is not text; only texts may be anything that is one
scalar, as it is written. Keys match in any case and with or without `_` and `-`.
Next: `nri.plugins.device_injector.plugin`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from decimal import Decimal
from typing import NewType, TypeVar, get_type_hints

from nri.api import annotations as convention
from nri.errors import ConfigError, Reject
from nri.text import cut, plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from nri.api.messages import PodSandbox

__all__ = [
    "MAX_CHARACTERS",
    "MAX_VALUES",
    "Annotation",
    "InvalidValue",
    "Mode",
    "by_prefix",
    "check_names",
    "find",
    "is_null",
    "items",
    "keys",
    "pod_scope_warning",
    "table",
    "text",
    "texts",
]


#: Characters that a number may have; those of 64 bits have 20.
MAX_NUMBER_CHARACTERS = 32
#: Unknown keys of one value that are reported; no person reads more.
MAX_UNKNOWN_KEYS = 10

#: Whole numbers that have one meaning in YAML 1.1 and 1.2. The reference reads 1.1, in which `010` is 8.
_WHOLE = re.compile("[-+]?(?:0|[1-9][0-9]*|0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+)")
#: A number with a point or an exponent that is whole and below this is one, too.
_MAX_WHOLE_FLOAT = 1e21

#: Permission bits. `0660` is octal here, as in YAML 1.1 and `chmod`; elsewhere it is not a number.
Mode = NewType("Mode", int)

T = TypeVar("T", bound=tuple[object, ...])


class InvalidValue(ValueError):
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
        raise InvalidValue(place, f"expected a list, not {_describe(node)}", "begin each of its items with '- '")
    return list(node.value)


def keys(node: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The keys of a table with the nodes of their values."""
    if node.id != "mapping":
        raise InvalidValue(place, f"expected keys with values, not {_describe(node)}", "write 'key: value'")
    for key, value in node.value:
        if key.id != "scalar" or key.tag.endswith(":merge"):
            raise InvalidValue(place, f"a key is {_describe(key)}", "write out keys as text")
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
            if len(unknown) < MAX_UNKNOWN_KEYS:
                unknown.append(f"{where}: unknown key, left out ({_suggest(key, hints)})")
        elif name in values:
            raise InvalidValue(where, "the key is given twice", "keep one of them")
        elif not is_null(value):
            values[name] = _READERS[hints[name]](value, where)
    for name in hints:
        if name not in values and name not in defaults:
            shown = name.rstrip("_")
            raise InvalidValue(place, f"{shown} is missing", f"add '{shown}: ...'")
    return kind(**values)


def _folded(key: str) -> str:
    """A key as keys are compared: `hostIf`, `host-if` and `host_if` are one."""
    return key.replace("_", "").replace("-", "").lower()


def _suggest(key: str, fields: dict[str, Any]) -> str:
    from nri.config.complaint import suggest

    return suggest(key[:64], [name.rstrip("_") for name in fields])


def text(node: Any, place: str) -> str:
    """A text as it is written."""
    if node.id != "scalar":
        raise InvalidValue(place, f"expected text, not {_describe(node)}")
    if is_null(node):
        raise InvalidValue(place, "it has no value", "write one, or leave the key out")
    return str(node.value)


def texts(node: Any, place: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple([text(item, f"{place}[{position}]") for position, item in enumerate(items(node, place))])


def _number(node: Any, place: str) -> int:
    written = _written(node)
    if len(written) > MAX_NUMBER_CHARACTERS:
        raise InvalidValue(place, f"{_describe(node)} is too large a number")
    bare = node.id == "scalar" and not node.style
    if bare and _WHOLE.fullmatch(written):
        return int(written, 0)
    if bare and node.tag.endswith(":float") and "n" not in written:  # neither .inf nor .nan
        number = float(written)
        if number.is_integer() and abs(number) < _MAX_WHOLE_FLOAT:
            return int(Decimal(repr(number)))  # as Go's reader, which goes over the shortest text of a float
    step = "write a whole number"
    if re.fullmatch("[1-9][0-9]*|0", written):
        step = "write it without quotes"
    elif re.fullmatch("0[0-9]+", written):
        step = "write it without the leading 0; octal is 0o17"
    raise InvalidValue(place, f"{_describe(node)} is not a number", step)


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


#: Characters that are read of one annotation: a thousand devices. All annotations of a pod together have 256 KiB.
MAX_CHARACTERS = 65_536
#: Values that one annotation may have, aliases counted each time.
MAX_VALUES = 10_000


def find(pod: PodSandbox, container_name: str, *keys: str, pod_scope: bool = True) -> Annotation | None:
    """The annotation that counts for a container, or None: the nearest scope, and within it the first of `keys`.

    Args:
        pod: only its annotations are looked at.
        container_name: "" for what concerns the pod.
        keys: of several domains, the preferred one first.
        pod_scope: whether `KEY/pod` and `KEY` count as well as `KEY/container.NAME`.
    """
    annotations = pod.annotations
    for name in annotations:  # most pods have other annotations only, and names are many to try
        if name.startswith(keys):
            break
    else:
        return None
    scopes = list(zip(*(convention.keys(key, container_name) for key in keys), strict=True))
    for scope in scopes if pod_scope else scopes[:1]:
        for key in scope:
            if key in annotations:
                return Annotation(key, annotations[key])
    return None


def by_prefix(pod: PodSandbox, container_name: str, domain: str, scope: str) -> dict[str, Annotation]:
    """The annotations `PREFIX.DOMAIN` of a container by their prefixes; its own, with `scope` and its name, win."""
    annotations = {}
    for ending in (f".{domain}", f".{domain}{scope}{container_name}"):
        for key, value in pod.annotations.items():
            if key.endswith(ending):
                annotations[key.removesuffix(ending)] = Annotation(key, value)
    return annotations


def check_names(names: Sequence[str]) -> None:
    """Refuse classes of a configuration of which two have one name. Raises ValueError."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"classes: {quote(twice)} is there twice")


def pod_scope_warning(pod: PodSandbox, *keys: str) -> str:
    """A warning of annotations for the whole pod where only those for one container count; "" if there are none."""
    stray = [name for key in keys for name in convention.keys(key) if name in pod.annotations]
    return "".join(f"annotation {name} has no effect; write {_container_key(name)}" for name in stray[:1])


def _container_key(key: str) -> str:
    return f"{key.removesuffix('/pod')}/container.NAME"


class Annotation:
    """One annotation: its full key, its value, and readers for the shapes that values have.

    Attributes:
        key: as the pod has it.
        text: the value, as it is.
    """

    __slots__ = ("_warnings", "key", "text")

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text = text
        self._warnings: list[str] = []

    def refusal(self, place: str, reason: str, step: str = "") -> Reject:
        """The refusal to raise: where in the value, "" for the whole; what is wrong; and what to do instead."""
        where = f"annotation {plain(self.key, 256)}: {plain(place, 128)}".removesuffix(": ")
        return Reject(f"{where}: {plain(reason)}" + (f"; {plain(step)}" if step else ""))

    @contextmanager
    def at(self, place: str, **names: str) -> Iterator[None]:
        """Turn the error of a builder into a refusal; `names` are the keys that its arguments have here."""
        try:
            yield
        except (TypeError, ValueError) as error:
            match = re.match(r"(\w+)(\S*) (.*)", str(error), re.DOTALL)
            if match is None:
                raise self.refusal(place, str(error)) from None
            key = names.get(match[1], match[1]) + match[2]
            reason, _, step = match[3].partition("; use remove_")
            if step:  # a method is no step for the writer of an annotation
                step = "leave the '-' out: annotations only add"
            raise self.refusal(f"{place}.{key}".strip("."), reason, step) from None

    # -- shapes of values ---------------------------------------------------------------------------------------------

    def row(self, kind: type[T]) -> T | None:
        """A table of keys, as the NamedTuple `kind`: its fields are the keys, those without a default are needed."""
        with self._refusing():
            root = self._root()
            return None if root is None else table(root, "", kind, self._warnings)

    def rows(self, kind: type[T], key: str = "") -> list[T]:
        """A list of tables. No two of them may have the same value of the field `key`, if that is given."""
        with self._refusing():
            nodes = enumerate(items(self._root(), ""))
            rows = [table(node, f"[{place}]", kind, self._warnings) for place, node in nodes]
        if key:
            self.refuse_duplicates((f"[{place}].{key}", getattr(one, key)) for place, one in enumerate(rows))
        return rows

    def texts(self) -> list[str]:
        """A list of texts, each of them given once."""
        with self._refusing():
            values = list(texts(self._root(), ""))
        self.refuse_duplicates((f"[{place}]", text) for place, text in enumerate(values))
        return values

    def pairs(self) -> dict[str, str]:
        """A table of any keys, with texts for values."""
        with self._refusing():
            root = self._root()
            return {} if root is None else {key: text(node, key) for key, node in keys(root, "")}

    def refuse_duplicates(self, values: Iterable[tuple[str, str]]) -> None:
        """Refuse a value that is there a second time; `values` are places with what is there."""
        place_by_value: dict[str, str] = {}
        for place, value in values:
            if value in place_by_value:
                shown = quote(cut(value, 60))
                raise self.refusal(place, f"{shown} is already at {place_by_value[value]}", "leave one of them out")
            place_by_value[value] = place

    def warn(self, warning: str) -> None:
        """Note what is taken and looks like a mistake, beginning with its place."""
        self._warnings.append(warning)

    @property
    def warnings(self) -> list[str]:
        """Warnings, in words: keys that are not known, with a suggestion for each, and doubts."""
        return [plain(f"annotation {self.key}: {words}") for words in self._warnings]

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except InvalidValue as error:
            raise self.refusal(error.place, error.reason, error.step) from None

    def _root(self) -> Any:
        """The node of the whole value; None if it says nothing."""
        if len(self.text) > MAX_CHARACTERS:
            raise InvalidValue("", f"it has {len(self.text)} characters", f"write {MAX_CHARACTERS} at most")
        if not self.text.strip():
            return None
        from nri.config.source import Source
        from nri.config.yaml_text import compose_yaml

        try:
            node = compose_yaml(Source("", self.text, "yaml"), MAX_VALUES)
        except ConfigError as error:
            line = error.source.lstrip(":")
            place = ", ".join(filter(None, (line and f"line {line}", error.key)))
            raise InvalidValue(place, error.reason, error.suggestion) from None
        return None if is_null(node) else node
