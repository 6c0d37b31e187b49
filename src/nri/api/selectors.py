"""Selectors that choose pods by namespace, label and annotation, for the operator and for handlers.

One job: compile what people write, and hold it against a pod. The operator's filters (`policy.toml`) and `nri.when` on
a plugin's handlers are the same. Rules: only the pod is looked at, never the container, so that all events of a pod are
seen or none; compiled once, pure when evaluated.
"""

from __future__ import annotations

import fnmatch
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from nri.api.messages import Container, PodSandbox

__all__ = ["MAX_PATTERN", "Filters", "Parsed", "Pattern", "Selector", "check_pattern", "matches"]

#: Characters of a pattern with wildcards. To compile one takes time in the square of its length.
MAX_PATTERN = 1024


def check_pattern(pattern: str) -> str:
    """The pattern with wildcards itself; ValueError if it is too long to be compiled."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f'the pattern "{pattern[:32]}..." has {len(pattern)} characters; at most {MAX_PATTERN} are allowed'
        )
    return pattern


class Parsed:
    """Base of the values that are written as one text; equal if the texts are equal."""

    # Not a dataclass: those are tables of keys to the reader of configurations.
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Parsed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __str__(self) -> str:
        return self.text


class Pattern(Parsed):
    """A namespace: exact (``prod``), with wildcards (``prod-*``, ``[ab]?``), or excluded (``!kube-system``)."""

    __slots__ = ("_regex", "excluded")

    def __init__(self, text: str, excluded: bool, regex: re.Pattern[str]) -> None:
        super().__init__(text)
        self.excluded: Final = excluded
        self._regex = regex

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Compile one pattern; ValueError says what is wrong with it."""
        body = text.removeprefix("!")
        if not body or body.split() != [body]:
            raise ValueError(f'"{text}" is not a namespace; write such as prod, prod-* or !prod')
        return cls(text, text != body, re.compile(fnmatch.translate(check_pattern(body))))

    def fits(self, name: str) -> bool:
        """Whether the name is one that the pattern speaks of, be it to exclude it."""
        return self._regex.match(name) is not None


def matches(patterns: Iterable[Pattern], name: str) -> bool:
    """Whether a name is selected: no exclusion fits, and, if there are other patterns, one of those does.

    No patterns at all select everything.
    """
    wanted = found = False
    for pattern in patterns:
        if pattern.excluded:
            if pattern.fits(name):
                return False
        else:
            wanted = True
            found = found or pattern.fits(name)
    return found or not wanted


#: ``key``, ``!key``, ``key=value``, ``key!=value``. Kubernetes keys have no ``=`` and no ``!``.
_SELECTOR = re.compile(r"(?P<absent>!?)(?P<key>[^\s=!]+)(?:(?P<operator>!?=)(?P<value>.*))?", re.DOTALL)


class Selector(Parsed):
    """One condition on labels or annotations: ``key`` (present), ``!key``, ``key=value``, ``key!=value`` (or absent).

    A value may hold the wildcards ``*``, ``?`` and ``[...]``.
    """

    __slots__ = ("_value", "key", "wanted")

    def __init__(self, text: str, key: str, wanted: bool, value: re.Pattern[str] | None) -> None:
        super().__init__(text)
        self.key: Final = key
        self.wanted: Final = wanted
        self._value = value

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Compile one selector; ValueError says what is wrong with it."""
        match = _SELECTOR.fullmatch(text)
        if match is None or (match["absent"] and match["operator"]):
            raise ValueError(f'"{text}" is not a selector; write key, !key, key=value or key!=value')
        value = None if match["operator"] is None else re.compile(fnmatch.translate(check_pattern(match["value"])))
        return cls(text, match["key"], not match["absent"] and match["operator"] != "!=", value)

    def holds(self, pairs: Mapping[str, str]) -> bool:
        """Whether the condition is true of these labels or annotations."""
        found = self.key in pairs and (self._value is None or self._value.match(pairs[self.key]) is not None)
        return found is self.wanted


class Filters:
    """A choice of pods: the namespace is selected as by `matches`, and every selector of the others holds."""

    # Not a dataclass: that would cost a plugin's start more than all the rest of this. The annotations are the keys of
    # the operator's table.
    namespace: tuple[Pattern, ...] = ()
    label: tuple[Selector, ...] = ()
    annotation: tuple[Selector, ...] = ()

    def __init__(
        self,
        namespace: Iterable[Pattern] = (),
        label: Iterable[Selector] = (),
        annotation: Iterable[Selector] = (),
    ) -> None:
        self.namespace, self.label, self.annotation = tuple(namespace), tuple(label), tuple(annotation)

    def _parts(self) -> tuple[object, ...]:
        return self.namespace, self.label, self.annotation

    def __eq__(self, other: object) -> bool:
        return self._parts() == other._parts() if isinstance(other, Filters) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return f"Filters(namespace={self.namespace}, label={self.label}, annotation={self.annotation})"

    def admits(self, pod: PodSandbox) -> bool:
        """Whether the plugin is called for events of this pod and of its containers."""
        if self.namespace and not matches(self.namespace, pod.namespace):
            return False
        if self.label:
            labels = pod.labels
            if not all(selector.holds(labels) for selector in self.label):
                return False
        if self.annotation:
            annotations = pod.annotations
            return all(selector.holds(annotations) for selector in self.annotation)
        return True

    def select(
        self, pods: Iterable[PodSandbox], containers: Iterable[Container]
    ) -> tuple[list[PodSandbox], list[Container]]:
        """The part of a runtime's state that the plugin gets to see: a pod of which it sees no events is not there."""
        seen = {pod.id: pod for pod in pods if self.admits(pod)}
        return list(seen.values()), [container for container in containers if container.pod_sandbox_id in seen]
