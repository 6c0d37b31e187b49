"""The last readable version of documents and annotations, which stays in force while a newer version is unreadable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

_Rule = TypeVar("_Rule")


class LastGood(Generic[_Rule]):
    """A rule that keeps its last valid value.

    Attributes:
        rule: the last valid rule, or the initial rule if no source was valid yet.
        error: why the newest source was refused; "" if it was accepted.
    """

    def __init__(self, rule: _Rule) -> None:
        self.rule = rule
        self.error = ""

    def take(self, parse: Callable[[], _Rule], same: Callable[[_Rule, _Rule], bool] | None = None) -> bool:
        """Parse a new source, and return whether the rule changed. Rules that `same` calls equal are no change."""
        try:
            new = parse()
        except ValueError as error:
            self.error = str(error)
            return False
        self.error = ""
        if new == self.rule or (same is not None and same(self.rule, new)):
            return False
        self.rule = new
        return True


class LastGoodAnnotations:
    """The last readable values of annotations, by pod and key. Not thread-safe."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        """The number of remembered values."""
        return len(self._texts)

    def keep(self, uid: str, key: str, annotations: Mapping[str, str]) -> None:
        """Record an annotation that could be read, or its absence."""
        text = annotations.get(key)
        if text:
            self._texts[uid, key] = text
        else:
            self._texts.pop((uid, key), None)

    def instead(self, uid: str, key: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
        """Return the annotations with the last readable value of `key`, or None if no value was readable."""
        text = self._texts.get((uid, key))
        return None if text is None else {**annotations, key: text}

    def only(self, uids: Collection[str]) -> None:
        """Forget all pods except these."""
        for uid, key in [text for text in self._texts if text[0] not in uids]:
            del self._texts[uid, key]
