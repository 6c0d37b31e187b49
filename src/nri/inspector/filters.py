"""The filter chips of the list of events: text, plugin, event, outcome and duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The names and ids of a row without a pod and a container.
EMPTY: Final = {"pod": "", "pod_id": "", "container": "", "container_id": ""}
#: A filter's text has at most this many characters.
_MAX_CHARACTERS = 256


def _has_problem(row: dict[str, Any]) -> bool:
    return bool(row["error"]) or any(step["error"] or step["refused"] for step in row["steps"])


def _any_step(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: any(step[name] for step in row["steps"])


#: The outcomes of events by name, each with its test of a row.
OUTCOMES: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "ok": lambda row: not _has_problem(row),
    "problem": _has_problem,
    "failed": lambda row: bool(row["error"]),
    "missed": _any_step("missed"),
    "refused": _any_step("refused"),
    "conflict": _any_step("conflict"),
}


class Filter(NamedTuple):
    """A condition for rows of events. An empty field selects every row.

    Attributes:
        text: a part of a name, an id or an error; case is ignored.
        plugin: ``NN-name`` of a plugin that was called.
        event: the RPC name.
        outcome: a name in `OUTCOMES`; an unknown name selects no row.
        min_ms: the shortest duration in milliseconds.
    """

    text: str = ""
    plugin: str = ""
    event: str = ""
    outcome: str = ""
    min_ms: float = 0.0

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """Read the filter from the parameters of a request."""
        text, plugin, event, outcome = (
            parameters.get(name, "")[:_MAX_CHARACTERS] for name in ("q", "plugin", "event", "outcome")
        )
        digits = parameters.get("min", "")[:8]
        return cls(text, plugin, event, outcome, float(digits) if digits.isascii() and digits.isdecimal() else 0.0)

    def matches(self, row: dict[str, Any]) -> bool:
        """Whether the filter selects a row."""
        if self.min_ms and row.get("duration_ms", 0.0) < self.min_ms:
            return False
        if self.event and row.get("event") != self.event:
            return False
        steps = row.get("steps", ())
        if self.plugin and not any(step["plugin"] == self.plugin for step in steps):
            return False
        if self.outcome and not (self.outcome in OUTCOMES and "steps" in row and OUTCOMES[self.outcome](row)):
            return False
        if not self.text:
            return True
        values = [row.get(name, "") for name in ("event", "error", "plugin", "state", "text", *EMPTY)]
        for step in steps:
            values += [step["plugin"], step["error"], step["refused"]]
        return self.text.lower() in "\n".join(values).lower()
