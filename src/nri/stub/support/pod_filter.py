"""`@nri.when`: call a handler only for pods that match selectors (`nri.api.selectors`).

The decorator only marks the method, so that a test can call it directly. If a method has several marks, a pod must
match all of them.
"""

from __future__ import annotations

from nri.api.selectors import Filters, LabelSelector, Pattern, Selector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Never, TypeAlias, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    Selectors: TypeAlias = str | Iterable[str] | Mapping[str, str | bool]


def when(
    *misplaced: Never,
    namespaces: str | Iterable[str] | None = None,
    labels: Selectors | None = None,
    annotations: Selectors | None = None,
    **unknown: Never,
) -> Callable[[F], F]:
    """Call the handler only for pods of these namespaces that have these labels and annotations.

    A selector is a string: `key` (present), `!key` (absent), `key=value`, `key!=value` (another value, or absent),
    `key in (a,b)` or `key notin (a,b)`. Values may have the wildcards `*`, `?` and `[...]`. A pod must match all
    selectors: those of a list, and those of all marks. A dict is equivalent:
    `{"app": "web"}` is `app=web`, `{"app": True}` is `app`, `{"app": False}` is `!app`. A namespace is `prod`,
    `prod-*`, or `!prod` for all others. Only the pod is checked. `synchronize` gets the matching pods and their
    containers.

    Raises:
        TypeError: there is no selector, or a selector is not a string.
        ValueError: a string is not a valid selector or namespace, or no pod can match.
    """
    for name in unknown:
        suggestion = next((word for word in ("namespaces", "labels", "annotations") if word[:2] == name[:2]), "")
        hint = f"; did you mean {suggestion}?" if suggestion else ": use namespaces, labels or annotations"
        raise TypeError(f"nri.when has no argument {name}{hint}")
    if misplaced or namespaces is labels is annotations is None:
        raise TypeError("nri.when takes namespaces, labels or annotations by name: write @nri.when(labels='app=web')")
    _check_not_empty(namespaces=namespaces, labels=labels, annotations=annotations)
    filters = _filters(
        _parsed_texts("namespaces", Pattern.parse, _texts("namespaces", namespaces)),
        _parsed_texts("labels", LabelSelector.parse, _texts("labels", _as_texts("labels", labels))),
        _parsed_texts("annotations", Selector.parse, _texts("annotations", _as_texts("annotations", annotations))),
    )

    def mark(handler: F) -> F:
        marks: tuple[Filters, ...] = (*getattr(handler, "_nri_when", ()), filters)
        # The namespaces of one mark are alternatives, so the namespaces of several marks cannot be combined into one
        # check.
        _filters((), *([selector for mark in marks for selector in getattr(mark, kind)] for kind in _LISTS))
        handler._nri_when = marks  # type: ignore[attr-defined]
        return handler

    return mark


#: The attributes of `Filters` with selectors that must all hold.
_LISTS = ("label", "annotation")


def _filters(*choices: Any) -> Filters:
    try:
        return Filters(*choices)
    except ValueError as error:
        raise ValueError(f"nri.when: {error}") from None


def _check_not_empty(**choices: Any) -> None:
    for name, choice in choices.items():
        if choice is not None and hasattr(choice, "__len__") and not isinstance(choice, str) and not len(choice):
            raise TypeError(f"nri.when({name}={choice!r}) is empty: omit the argument, or give at least one value")


def _as_texts(name: str, selectors: Any) -> Any:
    """Convert the selectors of a dict to strings."""
    if not hasattr(selectors, "items"):
        return selectors
    texts = []
    for key, value in selectors.items():
        if value is True or value is False:
            texts.append(key if value else f"!{key}")
        elif isinstance(value, str):
            texts.append(f"{key}=={value}")  # a value may begin with "="
        else:
            raise TypeError(
                f"nri.when({name}=...): the value of {key!r} must be a string, True or False, not {value!r}"
            )
    return texts


def _texts(name: str, selectors: Any) -> list[str]:
    if selectors is None:
        return []
    texts = (
        [selectors]
        if isinstance(selectors, str)
        else list(selectors)
        if hasattr(selectors, "__iter__")
        else [selectors]
    )
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"nri.when({name}=...) takes a string or several strings, not {text!r}")
    return texts


def _parsed_texts(name: str, parse: Callable[[str], Any], texts: list[str]) -> list[Any]:
    try:
        return [parse(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"nri.when({name}=...): {error}") from None
