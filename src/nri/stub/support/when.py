"""`@nri.when`: call a handler only for pods that selectors choose, in any runtime.

One job: read what is in the decorator, once, when the class is made; the handlers look at the mark before they call
(`nri.stub.handler.call`). Rules: the syntax and the meaning are the operator's (`nri.api.selectors`); the method itself
stays what it is, so that a test can call it directly; several marks on one method must all let a pod pass.
"""

from __future__ import annotations

from nri.api.selectors import Filters, Pattern, Selector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Never, TypeAlias, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    Selectors: TypeAlias = str | Iterable[str] | Mapping[str, str | bool]

__all__ = ["when"]


def when(
    *misplaced: Never,
    namespaces: str | Iterable[str] | None = None,
    labels: Selectors | None = None,
    annotations: Selectors | None = None,
    **unknown: Never,
) -> Callable[[F], F]:
    """Call the handler only for pods of these namespaces that have these labels and annotations.

    A selector is a text: `key` (present), `!key` (absent), `key=value`, `key!=value` (another value, or absent), where
    the value may have the wildcards `*`, `?` and `[...]`. Several must all hold; a dict says the same: `{"app": "web"}`
    is `app=web`, `{"app": True}` is `app`, `{"app": False}` is `!app`. A namespace is `prod`, `prod-*`, or `!prod` for
    all but that. Only the pod is looked at. `synchronize` gets the pods that pass, and their containers.

    Raises:
        TypeError: nothing is chosen, or not by texts.
        ValueError: a text is no selector, or no namespace.
    """
    for name in unknown:
        meant = next((word for word in ("namespaces", "labels", "annotations") if word[:2] == name[:2]), "")
        hint = f"; did you mean {meant}?" if meant else ": namespaces, labels and annotations are all that there is"
        raise TypeError(f"nri.when has no {name}{hint}")
    if misplaced or namespaces is labels is annotations is None:
        raise TypeError("nri.when takes namespaces, labels or annotations by name: write @nri.when(labels='app=web')")
    filters = Filters(
        _parsed("namespaces", Pattern.parse, _texts("namespaces", namespaces)),
        _parsed("labels", Selector.parse, _texts("labels", _written("labels", labels))),
        _parsed("annotations", Selector.parse, _texts("annotations", _written("annotations", annotations))),
    )

    def mark(handler: F) -> F:
        handler._nri_when = (*getattr(handler, "_nri_when", ()), filters)  # type: ignore[attr-defined]
        return handler

    return mark


def _written(name: str, given: Any) -> Any:
    """The selectors of a dict, written as texts."""
    if not hasattr(given, "items"):
        return given
    texts = []
    for key, value in given.items():
        if value is True or value is False:
            texts.append(key if value else f"!{key}")
        elif isinstance(value, str):
            texts.append(f"{key}={value}")
        else:
            raise TypeError(f"nri.when({name}=...): {key!r} must be a text, True or False, not {value!r}")
    return texts


def _texts(name: str, given: Any) -> list[str]:
    if given is None:
        return []
    texts = [given] if isinstance(given, str) else list(given) if hasattr(given, "__iter__") else [given]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"nri.when({name}=...) takes a text or several, not {text!r}")
    return texts


def _parsed(name: str, parse: Callable[[str], Any], texts: list[str]) -> list[Any]:
    try:
        return [parse(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"nri.when({name}=...): {error}") from None
