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
value and the next step. Keys that are not known are collected in `unknown`, for the reference reads past them. An empty
value, or one of comments only, asks for nothing. What values are taken is in `nri.plugins.values`.
Next: `nri.plugins.device_injector.plugin`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TypeVar

from nri.api import annotations as convention
from nri.errors import ConfigError, Reject
from nri.plugins import values
from nri.plugins.values import Mode, Wrong
from nri.text import cut, plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from nri.api.messages import PodSandbox

__all__ = ["LONGEST", "MOST_VALUES", "Annotation", "Mode", "find", "only_for_containers"]

#: Characters that are read of one annotation: a thousand devices. All annotations of a pod together have 256 KiB.
LONGEST = 65_536
#: Values that one annotation may stand for, aliases each time.
MOST_VALUES = 10_000

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
    for name in there:  # most pods have other annotations only, and names are many to try
        if name.startswith(keys):
            break
    else:
        return None
    scopes = list(zip(*(convention.keys(key, container_name) for key in keys), strict=True))
    for scope in scopes if pod_scope else scopes[:1]:
        for key in scope:
            if key in there:
                return Annotation(key, there[key])
    return None


def only_for_containers(pod: PodSandbox, *keys: str) -> str:
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

    __slots__ = ("_unknown", "key", "text")

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text = text
        self._unknown: list[str] = []

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
        with self._refusing():
            root = self._root()
            return None if root is None else values.table(root, "", kind, self._unknown)

    def many(self, kind: type[T], key: str = "") -> list[T]:
        """A list of tables. No two of them may have the same value of the field `key`, if that is given."""
        with self._refusing():
            nodes = enumerate(values.items(self._root(), ""))
            made = [values.table(node, f"[{place}]", kind, self._unknown) for place, node in nodes]
        if key:
            self.different((f"[{place}].{key}", getattr(one, key)) for place, one in enumerate(made))
        return made

    def texts(self) -> list[str]:
        """A list of texts, each of them given once."""
        with self._refusing():
            made = list(values.texts(self._root(), ""))
        self.different((f"[{place}]", text) for place, text in enumerate(made))
        return made

    def pairs(self) -> dict[str, str]:
        """A table of any keys, with texts for values."""
        with self._refusing():
            root = self._root()
            return {} if root is None else {key: values.text(node, key) for key, node in values.keys(root, "")}

    def different(self, found: Iterable[tuple[str, str]]) -> None:
        """Refuse a value that is there a second time; `found` are places with what stands there."""
        seen: dict[str, str] = {}
        for place, value in found:
            if value in seen:
                shown = quote(cut(value, 60))
                raise self.wrong(place, f"{shown} is already at {seen[value]}", "leave one of them out")
            seen[value] = place

    def doubt(self, words: str) -> None:
        """Note what is taken and looks like a mistake, beginning with its place."""
        self._unknown.append(words)

    @property
    def unknown(self) -> list[str]:
        """Warnings, in words: keys that are not known, with a suggestion for each, and doubts."""
        return [plain(f"annotation {self.key}: {words}") for words in self._unknown]

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Wrong as error:
            raise self.wrong(error.place, error.reason, error.step) from None

    def _root(self) -> Any:
        """The node of the whole value; None if it says nothing."""
        if len(self.text) > LONGEST:
            raise Wrong("", f"it has {len(self.text)} characters", f"write {LONGEST} at most")
        if not self.text.strip():
            return None
        from nri.config.source import Source
        from nri.config.yaml_text import compose_yaml

        try:
            node = compose_yaml(Source("", self.text, "yaml"), MOST_VALUES)
        except ConfigError as error:
            line = error.source.lstrip(":")
            place = ", ".join(filter(None, (line and f"line {line}", error.key)))
            raise Wrong(place, error.reason, error.suggestion) from None
        return None if values.is_null(node) else node
