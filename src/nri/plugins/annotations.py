"""Read the annotations of a pod that configure a plugin: look them up by scope and domain, and parse their YAML.

    class Device(NamedTuple):
        path: str
        type: str
        major: int = 0

    annotation = find(pod, container.name, "devices.noderesource.dev", "devices.nri.io")
    for position, device in enumerate(annotation.rows(Device) if annotation else ()):
        with annotation.at(f"[{position}]", device="path"):
            adjustment.add_device(*device)

The author of a pod writes these values, so their size is bounded, and a mistake raises a `Reject` that names the
annotation, the place in its value, and a fix. Unknown keys become `warnings`, because the reference ignores them.
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


#: A number of 64 bits has at most 20 characters.
MAX_NUMBER_CHARACTERS = 32
#: Report at most this many unknown keys of one value.
MAX_UNKNOWN_KEYS = 10

#: Whole numbers that have one meaning in YAML 1.1 and 1.2. The reference reads 1.1, in which `010` is 8.
_WHOLE = re.compile("[-+]?(?:0|[1-9][0-9]*|0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+)")
#: A number with a point or an exponent counts as whole if it has no fraction and is below this.
_MAX_WHOLE_FLOAT = 1e21

#: Permission bits. `0660` is octal here, as in YAML 1.1 and `chmod`; elsewhere it is not a number.
Mode = NewType("Mode", int)

T = TypeVar("T", bound=tuple[object, ...])


class InvalidValue(ValueError):
    """A value of an annotation that does not fit its type.

    Attributes:
        place: where in the value, such as `[1].major`; "" for the whole value.
        reason: what is wrong.
        step: how to fix it, or "".
    """

    def __init__(self, place: str, reason: str, step: str = "") -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
        self.step = step


def is_null(node: Any) -> bool:
    """Whether a node has no value."""
    return node is None or (node.id == "scalar" and node.tag.endswith(":null"))


def items(node: Any, place: str) -> list[Any]:
    """The nodes of a list; an empty list for a null."""
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
    """A table as the NamedTuple `kind`; its fields are the keys, and those without a default are required.

    Keys match in any case and with or without `_` and `-`. A key without a value counts as missing. An unknown key adds
    a line to `unknown`.
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
    """A key in the form in which keys are compared: `hostIf`, `host-if` and `host_if` are equal."""
    return key.replace("_", "").replace("-", "").lower()


def _suggest(key: str, fields: dict[str, Any]) -> str:
    from nri.config.complaint import suggest

    return suggest(key[:64], [name.rstrip("_") for name in fields])


def text(node: Any, place: str) -> str:
    """A scalar as it is written."""
    if node.id != "scalar":
        raise InvalidValue(place, f"expected text, not {_describe(node)}")
    if is_null(node):
        raise InvalidValue(place, "it has no value", "write one, or leave the key out")
    return str(node.value)


def texts(node: Any, place: str) -> tuple[str, ...]:
    """A list of scalars as they are written."""
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


#: Type of a field -> the function that reads its value.
_READERS: dict[Any, Callable[[Any, str], Any]] = {str: text, int: _number, Mode: _mode, tuple[str, ...]: texts}


#: One annotation may have this many characters: a thousand devices. All annotations of a pod together have 256 KiB.
MAX_CHARACTERS = 65_536
#: One annotation may have this many values; an alias counts each time.
MAX_VALUES = 10_000


def find(pod: PodSandbox, container_name: str, *keys: str, pod_scope: bool = True) -> Annotation | None:
    """The annotation that applies to a container, or None: of the nearest scope the first of `keys`.

    Args:
        pod: the pod with the annotations.
        container_name: "" for annotations of the pod itself.
        keys: one key for each domain, the preferred one first.
        pod_scope: whether `KEY/pod` and `KEY` apply in addition to `KEY/container.NAME`.
    """
    annotations = pod.annotations
    for name in annotations:  # most pods have none of these, and this check is cheaper than all scopes
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
    """The annotations `PREFIX.DOMAIN` of a container by prefix; those with `scope` and its name override the pod's."""
    annotations = {}
    for ending in (f".{domain}", f".{domain}{scope}{container_name}"):
        for key, value in pod.annotations.items():
            if key.endswith(ending):
                annotations[key.removesuffix(ending)] = Annotation(key, value)
    return annotations


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError if two classes of a configuration have the same name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"classes: duplicate name {quote(twice)}")


def pod_scope_warning(pod: PodSandbox, *keys: str) -> str:
    """Warn of an annotation for the whole pod where only those for one container apply; "" without such."""
    stray = [name for key in keys for name in convention.keys(key) if name in pod.annotations]
    return "".join(f"annotation {name} has no effect; write {_container_key(name)}" for name in stray[:1])


def _container_key(key: str) -> str:
    return f"{key.removesuffix('/pod')}/container.NAME"


class Annotation:
    """One annotation of a pod, with methods that parse its value.

    Attributes:
        key: its full key.
        text: its value.
    """

    __slots__ = ("_warnings", "key", "text")

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text = text
        self._warnings: list[str] = []

    def refusal(self, place: str, reason: str, step: str = "") -> Reject:
        """Return a refusal to raise: the place in the value ("" for all of it), what is wrong, and how to fix it."""
        where = f"annotation {plain(self.key, 256)}: {plain(place, 128)}".removesuffix(": ")
        return Reject(f"{where}: {plain(reason)}" + (f"; {plain(step)}" if step else ""))

    @contextmanager
    def at(self, place: str, **names: str) -> Iterator[None]:
        """Turn errors of a builder into refusals; `names` maps the builder's arguments to keys of the annotation."""
        try:
            yield
        except (TypeError, ValueError) as error:
            match = re.match(r"(\w+)(\S*) (.*)", str(error), re.DOTALL)
            if match is None:
                raise self.refusal(place, str(error)) from None
            key = (names.get(match[1], match[1]) + match[2]).lstrip(".")
            reason, _, step = match[3].partition("; use remove_")
            if step:  # a method is no step for the writer of an annotation
                step = "leave the '-' out: annotations only add"
            raise self.refusal(f"{place}.{key}".strip("."), reason, step) from None

    # -- shapes of values ---------------------------------------------------------------------------------------------

    def row(self, kind: type[T]) -> T | None:
        """Read a table as the NamedTuple `kind`, see `table`; None without a value."""
        with self._refusing():
            root = self._root()
            return None if root is None else table(root, "", kind, self._warnings)

    def rows(self, kind: type[T], key: str = "") -> list[T]:
        """Read a list of tables; with `key`, no two of them may have the same value of that field."""
        with self._refusing():
            nodes = enumerate(items(self._root(), ""))
            rows = [table(node, f"[{place}]", kind, self._warnings) for place, node in nodes]
        if key:
            self.refuse_duplicates((f"[{place}].{key}", getattr(one, key)) for place, one in enumerate(rows))
        return rows

    def texts(self) -> list[str]:
        """Read a list of texts without duplicates."""
        with self._refusing():
            values = list(texts(self._root(), ""))
        self.refuse_duplicates((f"[{place}]", text) for place, text in enumerate(values))
        return values

    def pairs(self) -> dict[str, str]:
        """Read a table of texts by any keys."""
        with self._refusing():
            root = self._root()
            return {} if root is None else {key: text(node, key) for key, node in keys(root, "")}

    def refuse_duplicates(self, values: Iterable[tuple[str, str]]) -> None:
        """Refuse a value that is there a second time; `values` are places with what is there."""
        place_by_value: dict[str, str] = {}
        for place, value in values:
            if value in place_by_value:
                shown = quote(cut(value, 60))
                raise self.refusal(place, f"{shown} is already at {place_by_value[value]}", "remove one of them")
            place_by_value[value] = place

    def warn(self, warning: str) -> None:
        """Add a warning, which begins with a place, about a value that is accepted but looks like a mistake."""
        self._warnings.append(warning)

    @property
    def warnings(self) -> list[str]:
        """Warnings for the log: unknown keys, and values that look like mistakes."""
        return [plain(f"annotation {self.key}: {words}") for words in self._warnings]

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except InvalidValue as error:
            raise self.refusal(error.place, error.reason, error.step) from None

    def _root(self) -> Any:
        """The node of the whole value; None without one, or with comments only."""
        if len(self.text) > MAX_CHARACTERS:
            raise InvalidValue("", f"it has {len(self.text)} characters", f"write at most {MAX_CHARACTERS}")
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
