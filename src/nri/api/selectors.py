"""Selectors that choose pods by namespace, label and annotation, for the operator and for handlers.

The operator's filters (`policy.toml`) and `nri.when` on a plugin's handlers use the same syntax. Only the pod counts,
not the container, so that a plugin sees all events of a pod or no event.
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

#: A pattern with wildcards has at most this many characters, because compiling takes quadratic time.
MAX_PATTERN = 1024


def check_pattern(pattern: str) -> str:
    """Return a pattern with wildcards. Raises ValueError if it is too long."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f'pattern "{pattern[:32]}..." has {len(pattern)} characters; at most {MAX_PATTERN} are allowed'
        )
    return pattern


class Parsed:
    """The base of values that are parsed from a text. They are equal if their texts are equal."""

    # Not a dataclass, because the reader of configurations treats dataclasses as tables of keys.
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
    """A namespace pattern: exact (``prod``), with wildcards (``prod-*``, ``[ab]?``), or excluded (``!kube-system``)."""

    __slots__ = ("_regex", "excluded")

    def __init__(self, text: str, excluded: bool, regex: re.Pattern[str]) -> None:
        super().__init__(text)
        self.excluded: Final = excluded
        self._regex = regex

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Compile a pattern. Raises ValueError for an invalid pattern."""
        body = text.removeprefix("!")
        if not body or body.split() != [body]:
            raise ValueError(f'"{text}" is not a namespace; write for example prod, prod-* or !prod')
        return cls(text, text != body, re.compile(fnmatch.translate(check_pattern(body))))

    def fits(self, name: str) -> bool:
        """Whether the pattern matches the name, whether to include or exclude it."""
        return self._regex.match(name) is not None


def matches(patterns: Iterable[Pattern], name: str) -> bool:
    """Whether a name is selected: no exclusion fits, and one of the other patterns fits, if there are any.

    Without patterns, every name is selected.
    """
    has_inclusion = is_included = False
    for pattern in patterns:
        if pattern.excluded:
            if pattern.fits(name):
                return False
        else:
            has_inclusion = True
            is_included = is_included or pattern.fits(name)
    return is_included or not has_inclusion


#: ``key``, ``!key``, ``key=value``, ``key!=value``. Kubernetes keys do not contain ``=`` or ``!``.
_SELECTOR = re.compile(r"(?P<absent>!?)(?P<key>[^\s=!]+)(?:(?P<operator>!?=)(?P<value>.*))?", re.DOTALL)


class Selector(Parsed):
    """A condition on labels or annotations: ``key`` (present), ``!key``, ``key=value``, ``key!=value`` (or absent).

    A value may contain the wildcards ``*``, ``?`` and ``[...]``.
    """

    __slots__ = ("_value", "key", "wanted")

    def __init__(self, text: str, key: str, required: bool, value: re.Pattern[str] | None) -> None:
        super().__init__(text)
        self.key: Final = key
        self.wanted: Final = required
        self._value = value

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Compile a selector. Raises ValueError for an invalid selector."""
        match = _SELECTOR.fullmatch(text)
        if match is None or (match["absent"] and match["operator"]):
            raise ValueError(f'"{text}" is not a selector; write key, !key, key=value or key!=value')
        value = None if match["operator"] is None else re.compile(fnmatch.translate(check_pattern(match["value"])))
        return cls(text, match["key"], not match["absent"] and match["operator"] != "!=", value)

    def holds(self, pairs: Mapping[str, str]) -> bool:
        """Whether the condition is true for these labels or annotations."""
        is_match = self.key in pairs and (self._value is None or self._value.match(pairs[self.key]) is not None)
        return is_match is self.wanted


class Filters:
    """A choice of pods: `matches` selects the namespace, and all selectors of labels and annotations hold."""

    # Not a dataclass, whose import would slow a plugin's start. The annotations are the keys of the operator's table.
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
        """The pods and containers that the plugin sees: without the pods whose events it does not see."""
        visible = {pod.id: pod for pod in pods if self.admits(pod)}
        return list(visible.values()), [container for container in containers if container.pod_sandbox_id in visible]
