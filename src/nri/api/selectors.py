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

#: A pattern with wildcards has at most this many characters, because compiling takes quadratic time.
MAX_PATTERN = 1024


def check_pattern(pattern: str) -> str:
    """Return a pattern with wildcards. Raises ValueError if it is too long."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f'pattern "{pattern[:32]}..." has {len(pattern)} characters; at most {MAX_PATTERN} are allowed'
        )
    return pattern


class ParsedSelectors:
    """The base of values that are parsed from a text. They are equal if their texts are equal."""

    # Not a dataclass, because the reader of configurations treats dataclasses as tables of keys.
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, ParsedSelectors) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __str__(self) -> str:
        return self.text


#: The syntax of namespaces, keys and label values in Kubernetes. `_is_name` first replaces each wildcard by `*`.
_NAMESPACE = re.compile(r"[a-z0-9*](?:[-a-z0-9*]*[a-z0-9*])?")
_KEY = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9.]{0,252}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(r"(?:[a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9*](?:[-A-Za-z0-9_.*]*[A-Za-z0-9*])?)?")
#: The most characters of a namespace and of a label's value.
_MAX_NAME = 63
#: The most characters of a pattern or selector in an error.
_MAX_SHOWN = 80

_WILDCARDS = re.compile(r"[*?]|\[[!^]?\]?[^\]]*\]")


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with wildcards. Raises ValueError if the pattern is too long, or has an empty range."""
    expression = fnmatch.translate(check_pattern(pattern))
    if "(?!)" in expression:
        raise ValueError(
            f"{_quoted(pattern)} never matches: its range in brackets is empty; the smaller end comes first"
        )
    return re.compile(expression)


def _is_name(pattern: str, allowed: re.Pattern[str]) -> bool:
    """Whether a pattern can match a name of at most 63 of the allowed characters."""
    literal = _WILDCARDS.sub("*", pattern)
    return len(literal.replace("*", "")) <= _MAX_NAME and allowed.fullmatch(literal) is not None


class Pattern(ParsedSelectors):
    """A namespace pattern: exact (``prod``), with wildcards (``prod-*``, ``[ab]?``), or excluded (``!kube-system``)."""

    __slots__ = ("_regex", "excluded")

    def __init__(self, text: str, excluded: bool, regex: re.Pattern[str]) -> None:
        super().__init__(text)
        self.excluded: Final = excluded
        self._regex = regex

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Compile a pattern. Raises ValueError if it is invalid or matches no namespace."""
        body = text.removeprefix("!")
        regex = _compile(body)
        if "," in body and "[" not in body:
            raise ValueError(f"{_quoted(text)} is not a namespace; {_as_list(text)}")
        if not _is_name(body, _NAMESPACE):
            reason = "names have at most 63 small letters, digits and '-'; write for example prod, prod-* or !prod"
            raise ValueError(f"{_quoted(text)} is not a namespace: {reason}")
        return cls(text, text != body, regex)

    def fits(self, name: str) -> bool:
        """Whether the pattern matches the name; `excluded` does not matter."""
        return self._regex.match(name) is not None

    @property
    def is_exact(self) -> bool:
        """Whether the pattern has no wildcards."""
        return _WILDCARDS.search(self.text) is None


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= _MAX_SHOWN else f'"{text[:_MAX_SHOWN]}..."'


def _as_list(text: str) -> str:
    quoted = ", ".join(_quoted(part.strip()) for part in text.split(",", 8)[:8] if part.strip())
    return f"write a list: [{quoted}]"


def matches(patterns: Iterable[Pattern], name: str) -> bool:
    """Whether a name is selected: no exclusion matches it, and an inclusion matches it or there are no inclusions.

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


#: ``key``, ``!key``, ``key=value``, ``key!=value``; kubectl's ``key==value``, ``key in (a,b)``, ``key notin (a,b)``.
_SELECTOR = re.compile(
    r"(?P<absent>!?)(?P<key>[^\s=!,()]+)"
    r"(?:(?P<operator>==|!=|=)(?P<value>.*)|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?",
    re.DOTALL,
)
_SELECTOR_FORMS = "write key, !key, key=value, key!=value, key in (a,b) or key notin (a,b)"


class Selector(ParsedSelectors):
    """A condition on annotations: ``key`` (present), ``!key``, ``key=value``, ``key!=value`` (or absent).

    As in kubectl, ``key==value``, ``key in (a,b)`` and ``key notin (a,b)`` are accepted too. A value may contain the
    wildcards ``*``, ``?`` and ``[...]``.
    """

    __slots__ = ("_patterns", "_values", "key", "wanted")

    def __init__(self, text: str, key: str, required: bool, values: tuple[str, ...] | None) -> None:
        super().__init__(text)
        self.key: Final = key
        self.wanted: Final = required
        self._values = values
        self._patterns = None if values is None else tuple(map(_compile, values))

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Compile a selector. Raises ValueError if it is invalid or can never hold."""
        match = _SELECTOR.fullmatch(text)
        if match is None or (match["absent"] and (match["operator"] or match["set"])):
            hint = _SELECTOR_FORMS if "," not in text or "(" in text else _as_list(text)
            raise ValueError(f"{_quoted(text)} is not a selector; {hint}")
        values: tuple[str, ...] | None = None
        if match["operator"]:
            values = (match["value"],)
        elif match["set"]:
            values = tuple([value.strip() for value in match["values"].split(",")])
        is_required = not (match["absent"] or match["operator"] == "!=" or match["set"] == "notin")
        selector = cls(text, match["key"], is_required, values)
        selector._check()
        return selector

    def _check(self) -> None:
        if _KEY.fullmatch(self.key) is None:
            raise ValueError(
                f"{_quoted(self.text)}: {_quoted(self.key)} is not a key; write for example app or example.com/app"
            )

    def holds(self, pairs: Mapping[str, str]) -> bool:
        """Whether the condition is true for these labels or annotations."""
        is_match = self.key in pairs and (
            self._patterns is None or any(pattern.match(pairs[self.key]) for pattern in self._patterns)
        )
        return is_match is self.wanted

    def possible_pairs(self) -> list[dict[str, str]] | None:
        """All possible labels with this key that meet the condition, or None if their number is infinite.

        Each element has at most one label; an empty dictionary means that the key is absent.
        """
        if self._values is None:
            return None if self.wanted else [{}]
        if not self.wanted or any(_WILDCARDS.search(value) for value in self._values):
            return None
        return [{self.key: value} for value in self._values]


class LabelSelector(Selector):
    """One condition on labels; the syntax is that of `Selector`. Labels permit fewer characters than annotations."""

    __slots__ = ()

    def _check(self) -> None:
        if _LABEL_KEY.fullmatch(self.key) is None:
            raise ValueError(
                f"{_quoted(self.text)}: {_quoted(self.key)} is not the key of a label; write for example app"
            )
        for value in self._values or ():
            if "," in value and "[" not in value:
                raise ValueError(f"{_quoted(self.text)} has several conditions; {_as_list(self.text)}")
            if not _is_name(value, _LABEL_VALUE):
                reason = "use at most 63 letters, digits, '-', '_' and '.'; begin and end with a letter or digit"
                raise ValueError(
                    f"{_quoted(self.text)} never matches: {_quoted(value)} is not a valid label value; {reason}"
                )


def _contradiction(selectors: Iterable[Selector]) -> str:
    """Describe two selectors that cannot hold at once; "" if all can."""
    by_key: dict[str, list[Selector]] = {}
    for selector in selectors:
        by_key.setdefault(selector.key, []).append(selector)
    for group in by_key.values():
        for selector in group:
            pairs = selector.possible_pairs()
            if pairs is None:
                continue
            conflicts = [other for other in group if not any(other.holds(pair) for pair in pairs)]
            if conflicts:
                return f'"{selector}" and "{conflicts[0]}" exclude each other'
            break  # one finite choice per key keeps the cost linear
    return ""


def _empty_choice(patterns: tuple[Pattern, ...]) -> str:
    """Describe patterns that together match no namespace; "" if they can match one."""
    excluded = [pattern for pattern in patterns if pattern.excluded]
    included = [pattern for pattern in patterns if not pattern.excluded]
    bodies = {pattern.text[1:] for pattern in excluded}
    if "*" in bodies:
        return '"!*" excludes every namespace'
    if included and all(
        pattern.text in bodies or (pattern.is_exact and any(other.fits(pattern.text) for other in excluded))
        for pattern in included
    ):
        return f'"{included[0]}" is both included and excluded'
    return ""


class Filters:
    """A choice of pods by conditions on the namespace (`matches`), labels and annotations; all must be true.

    Raises:
        ValueError: no pod can match.
    """

    # Not a dataclass, whose import would slow a plugin's start. The reader of `policy.toml` takes the keys of a filter
    # from the type annotations of these attributes.
    namespace: tuple[Pattern, ...] = ()
    label: tuple[LabelSelector, ...] = ()
    annotation: tuple[Selector, ...] = ()

    def __init__(
        self,
        namespace: Iterable[Pattern] = (),
        label: Iterable[LabelSelector] = (),
        annotation: Iterable[Selector] = (),
    ) -> None:
        self.namespace, self.label, self.annotation = tuple(namespace), tuple(label), tuple(annotation)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Raise ValueError if no pod can match. The reader of configurations calls this after setting attributes."""
        reason = _empty_choice(self.namespace) or _contradiction(self.label) or _contradiction(self.annotation)
        if reason:
            raise ValueError(f"{reason}, so that no pod matches")

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
        """Return the pods that match, and the containers of these pods."""
        visible = {pod.id: pod for pod in pods if self.admits(pod)}
        return list(visible.values()), [container for container in containers if container.pod_sandbox_id in visible]
