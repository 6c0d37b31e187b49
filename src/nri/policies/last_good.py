"""The last good rule of a source: a bad one is reported and changes nothing.

Next: `nri.agent.koordinator.documents`, whose functions are what is handed to `take`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["LastGood"]

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
