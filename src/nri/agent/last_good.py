"""The last readable state of documents and annotations, which stays in force while a newer one cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

_Rule = TypeVar("_Rule")


class LastGood(Generic[_Rule]):
    """One rule over time.

    Attributes:
        rule: the last good one; what it was made with until there is one.
        error: why the newest source was refused, "" if it was taken.
    """

    def __init__(self, rule: _Rule) -> None:
        self.rule = rule
        self.error = ""

    def take(self, parse: Callable[[], _Rule], same: Callable[[_Rule, _Rule], bool] | None = None) -> bool:
        """Parse a new source; return whether the rule has changed. `same` tells what is no change; equal by default."""
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
    """Texts by pod and annotation. For one thread."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        """The number of texts that are kept."""
        return len(self._texts)

    def keep(self, uid: str, key: str, annotations: Mapping[str, str]) -> None:
        """Keep a pod's annotation, because it could be read, or that the pod has none."""
        text = annotations.get(key)
        if text:
            self._texts[uid, key] = text
        else:
            self._texts.pop((uid, key), None)

    def instead(self, uid: str, key: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
        """The annotations with the last good text of one; None if it never had one."""
        text = self._texts.get((uid, key))
        return None if text is None else {**annotations, key: text}

    def only(self, uids: Collection[str]) -> None:
        """Forget all other pods."""
        for uid, key in [each for each in self._texts if each[0] not in uids]:
            del self._texts[uid, key]
