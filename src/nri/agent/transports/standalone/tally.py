"""The counts of a round, and its line for `health`. The line quotes no string of a pod, except in the first error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from nri.host import Outcome, Result
from nri.text import count, plain

#: The maximum number of characters of the first error.
_MAX_TEXT = 200


@dataclass(slots=True)
class Tally:
    """The counts of one round.

    Attributes:
        items: the number of decisions for folders, pods, containers and programs.
        errors: the number of errors.
        first_error: the first error, in one line.
        outcomes: the number of writes by outcome.
    """

    items: int = 0
    errors: int = 0
    first_error: str = ""
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def failed(self, what: str, errors: Iterable[object]) -> None:
        """Count the errors of one decision."""
        for error in errors:
            self.errors += 1
            if not self.first_error:
                self.first_error = plain(f"{what}: {error}", _MAX_TEXT)

    def wrote(self, results: Iterable[Result]) -> None:
        """Count the outcomes of writes."""
        self.outcomes.update(result.outcome for result in results)

    def __str__(self) -> str:
        line = f"{count(self.items, 'decision')}, {self.outcomes[Outcome.APPLIED]} written"
        bad = self.outcomes[Outcome.REFUSED] + self.outcomes[Outcome.CLAMPED]
        if bad:
            line += f", {bad} refused or clamped"
        return f"{line}, {count(self.errors, 'error')} ({self.first_error})" if self.errors else line
