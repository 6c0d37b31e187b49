"""Read the annotations of a pod that configure a plugin: look them up by scope and domain, and parse their YAML.

    class Device(NamedTuple):
        path: str
        type: str
        major: int = 0

    annotation = find(pod, container.name, "devices.noderesource.dev", "devices.nri.io")
    for position, device in enumerate(annotation.rows(Device) if annotation else ()):
        with annotation.at(f"[{position}]", device="path"):
            adjustment.add_device(*device)

The author of a pod writes these values, so their size is bounded. A mistake raises a `Reject` that names the
annotation, the field in its value, and a fix. Unknown keys become `warnings`, because the Go plugins ignore them.
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

#: A number of 64 bits has at most 20 characters.
MAX_NUMBER_CHARACTERS = 32
#: Report at most this many unknown keys of a value.
MAX_UNKNOWN_KEYS = 10

#: Whole numbers with the same meaning in YAML 1.1 and 1.2. The Go plugins read YAML 1.1, in which `010` is 8.
_WHOLE = re.compile("[-+]?(?:0|[1-9][0-9]*|0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+)")
#: A number with a point or an exponent counts as whole if it has no fraction and is below this limit.
_MAX_WHOLE_FLOAT = 1e21

#: Permission bits. `0660` is octal, as in YAML 1.1 and `chmod`. In fields of other types it is not a number.
Mode = NewType("Mode", int)

T = TypeVar("T", bound=tuple[object, ...])


class InvalidValue(ValueError):
    """A value of an annotation that does not fit its type.

    Attributes:
        field: the path of the field, such as `[1].major`, or "" for the whole value.
        reason: what is wrong.
        step: how to fix it, or "".
    """

    def __init__(self, field: str, reason: str, step: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.step = step


def is_null(node: Any) -> bool:
    """Whether a node has no value."""
    return node is None or (node.id == "scalar" and node.tag.endswith(":null"))


def items(node: Any, field: str) -> list[Any]:
    """The nodes of a list. Returns an empty list for a null."""
    if is_null(node):
        return []
    if node.id != "sequence":
        raise InvalidValue(field, f"expected a list, not {_describe(node)}", "begin each of its items with '- '")
    return list(node.value)


def keys(node: Any, field: str) -> Iterator[tuple[str, Any]]:
    """The keys of a mapping with the nodes of their values."""
    if node.id != "mapping":
        raise InvalidValue(field, f"expected a mapping of keys to values, not {_describe(node)}", "write 'key: value'")
    for key, value in node.value:
        if key.id != "scalar" or key.tag.endswith(":merge"):
            raise InvalidValue(field, f"a key is {_describe(key)}", "write keys as strings")
        yield key.value, value


def table(node: Any, field: str, kind: type[T], unknown: list[str]) -> T:
    """A mapping as the NamedTuple `kind`. Its fields are the keys; fields without a default are required.

    Keys match in any case and with or without `_` and `-`. A key without a value counts as missing. An unknown key adds
    a line to `unknown`.
    """
    hints, defaults = get_type_hints(kind), kind._field_defaults  # type: ignore[attr-defined]  # a NamedTuple
    names = {_folded_key(name): name for name in hints}
    values: dict[str, Any] = {}
    for key, value in keys(node, field):
        name = names.get(_folded_key(key))
        where = f"{field}.{key}".lstrip(".")
        if name is None:
            if len(unknown) < MAX_UNKNOWN_KEYS:
                unknown.append(f"{where}: unknown key, ignored ({_suggest(key, hints)})")
        elif name in values:
            raise InvalidValue(where, "duplicate key", "remove one of the two")
        elif not is_null(value):
            values[name] = _READERS[hints[name]](value, where)
    for name in hints:
        if name not in values and name not in defaults:
            shown = name.rstrip("_")
            raise InvalidValue(field, f"{shown} is missing", f"add '{shown}: ...'")
    return kind(**values)


def _folded_key(key: str) -> str:
    """A key in the form in which keys are compared: `hostIf`, `host-if` and `host_if` are equal."""
    return key.replace("_", "").replace("-", "").lower()


def _suggest(key: str, fields: dict[str, Any]) -> str:
    from nri.config.complaint import suggest

    return suggest(key[:64], [name.rstrip("_") for name in fields])


def text(node: Any, field: str) -> str:
    """The text of a scalar."""
    if node.id != "scalar":
        raise InvalidValue(field, f"expected a string, not {_describe(node)}")
    if is_null(node):
        raise InvalidValue(field, "the value is missing", "write a value, or remove the key")
    return str(node.value)


def texts(node: Any, field: str) -> tuple[str, ...]:
    """The texts of a list of scalars."""
    return tuple([text(item, f"{field}[{position}]") for position, item in enumerate(items(node, field))])


def _number(node: Any, field: str) -> int:
    written = _scalar_text(node)
    if len(written) > MAX_NUMBER_CHARACTERS:
        raise InvalidValue(field, f"the number {_describe(node)} is too large")
    bare = node.id == "scalar" and not node.style
    if bare and _WHOLE.fullmatch(written):
        return int(written, 0)
    if bare and node.tag.endswith(":float") and "n" not in written:  # neither .inf nor .nan
        number = float(written)
        if number.is_integer() and abs(number) < _MAX_WHOLE_FLOAT:
            return int(Decimal(repr(number)))  # as in Go, which converts the shortest decimal text of a float
    step = "write a whole number"
    if re.fullmatch("[1-9][0-9]*|0", written):
        step = "write it without quotes"
    elif re.fullmatch("0[0-9]+", written):
        step = "write it without the leading 0; octal is 0o17"
    raise InvalidValue(field, f"{_describe(node)} is not a number", step)


def _mode(node: Any, field: str) -> int:
    if re.fullmatch("0[0-7]{1,6}", _scalar_text(node)):
        return int(node.value, 8)
    return _number(node, field)


def _scalar_text(node: Any) -> str:
    return str(node.value) if node.id == "scalar" else ""


def _describe(node: Any) -> str:
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "a mapping of keys to values"
    return "nothing" if is_null(node) else quote(cut(node.value, 60))


#: The function that reads a field's value, by the field's type.
_READERS: dict[Any, Callable[[Any, str], Any]] = {str: text, int: _number, Mode: _mode, tuple[str, ...]: texts}


#: Maximum length of an annotation, enough for a thousand devices. All annotations of a pod together have 256 KiB.
MAX_CHARACTERS = 65_536
#: Maximum number of values in an annotation; an alias counts each time.
MAX_VALUES = 10_000


def find(pod: PodSandbox, container_name: str, *keys: str, pod_scope: bool = True) -> Annotation | None:
    """The annotation that applies to a container: the first of `keys` in the nearest scope. Returns None without one.

    Args:
        pod: the pod with the annotations.
        container_name: "" for annotations of the pod itself.
        keys: a key for each domain, the preferred key first.
        pod_scope: whether `KEY/pod` and `KEY` apply in addition to `KEY/container.NAME`.
    """
    annotations = pod.annotations
    for name in annotations:  # most pods have no such annotation, and this check is cheaper than all scopes
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
    """The annotations `PREFIX.DOMAIN` of a container by prefix. Annotations with `scope` and its name come first."""
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
    """Warn of an annotation for the whole pod if only container annotations apply. Returns "" without a warning."""
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

    def refusal(self, field: str, reason: str, step: str = "") -> Reject:
        """Return a refusal to raise, with the field ("" for the whole value), the reason, and how to fix it."""
        where = f"annotation {plain(self.key, 256)}: {plain(field, 128)}".removesuffix(": ")
        return Reject(f"{where}: {plain(reason)}" + (f"; {plain(step)}" if step else ""))

    def switch(self) -> bool:
        """Whether the value is "true". An empty value is "false". Raises Reject for another value."""
        if self.text not in ("", "true", "false"):
            raise self.refusal("", f"{quote(self.text[:64])} is neither true nor false", 'write "true" or "false"')
        return self.text == "true"

    @contextmanager
    def at(self, field: str, **names: str) -> Iterator[None]:
        """Convert errors of a builder to refusals. `names` maps the builder's arguments to keys of the annotation."""
        try:
            yield
        except (TypeError, ValueError) as error:
            match = re.match(r"(\w+)(\S*) (.*)", str(error), re.DOTALL)
            if match is None:
                raise self.refusal(field, str(error)) from None
            key = (names.get(match[1], match[1]) + match[2]).lstrip(".")
            reason, _, step = match[3].partition("; use remove_")
            if step:  # the author of an annotation cannot call a method
                step = "remove the '-': annotations only add"
            raise self.refusal(f"{field}.{key}".strip("."), reason, step) from None

    # -- shapes of values ---------------------------------------------------------------------------------------------

    def row(self, kind: type[T]) -> T | None:
        """Read a mapping as the NamedTuple `kind`, see `table`. Returns None without a value."""
        with self._as_refusal():
            root = self._root()
            return None if root is None else table(root, "", kind, self._warnings)

    def rows(self, kind: type[T], key: str = "") -> list[T]:
        """Read a list of mappings. With `key`, the values of that field must be unique."""
        with self._as_refusal():
            nodes = enumerate(items(self._root(), ""))
            rows = [table(node, f"[{field}]", kind, self._warnings) for field, node in nodes]
        if key:
            self.refuse_duplicates((f"[{field}].{key}", getattr(one, key)) for field, one in enumerate(rows))
        return rows

    def texts(self) -> list[str]:
        """Read a list of strings without duplicates."""
        with self._as_refusal():
            values = list(texts(self._root(), ""))
        self.refuse_duplicates((f"[{field}]", text) for field, text in enumerate(values))
        return values

    def pairs(self) -> dict[str, str]:
        """Read a mapping of strings with any keys."""
        with self._as_refusal():
            root = self._root()
            return {} if root is None else {key: text(node, key) for key, node in keys(root, "")}

    def refuse_duplicates(self, values: Iterable[tuple[str, str]]) -> None:
        """Refuse duplicate values; `values` are pairs of a field and its value."""
        field_by_value: dict[str, str] = {}
        for field, value in values:
            if value in field_by_value:
                shown = quote(cut(value, 60))
                raise self.refusal(field, f"{shown} is already at {field_by_value[value]}", "remove one of the two")
            field_by_value[value] = field

    def warn(self, warning: str) -> None:
        """Add a warning about a value that is accepted but looks like a mistake. It begins with the field."""
        self._warnings.append(warning)

    @property
    def warnings(self) -> list[str]:
        """Warnings for the log: unknown keys, and values that look like mistakes."""
        return [plain(f"annotation {self.key}: {words}") for words in self._warnings]

    @contextmanager
    def _as_refusal(self) -> Iterator[None]:
        try:
            yield
        except InvalidValue as error:
            raise self.refusal(error.field, error.reason, error.step) from None

    def _root(self) -> Any:
        """The node of the whole value. Returns None if there are only comments or nothing."""
        if len(self.text) > MAX_CHARACTERS:
            raise InvalidValue("", f"the value has {len(self.text)} characters", f"write at most {MAX_CHARACTERS}")
        if not self.text.strip():
            return None
        from nri.config.source import Source
        from nri.config.yaml_text import compose_yaml

        try:
            node = compose_yaml(Source("", self.text, "yaml"), MAX_VALUES)
        except ConfigError as error:
            line = error.source.lstrip(":")
            field = ", ".join(filter(None, (line and f"line {line}", error.key)))
            raise InvalidValue(field, error.reason, error.suggestion) from None
        return None if is_null(node) else node
