"""Steps that change the machine, each with its undo next to it.

An undo is noted before its step begins, so that a step that fails half way is taken back, too; therefore every undo
treats a missing object as done. All undos are tried, in reverse order. One that fails is reported with the error that
made it necessary, and never instead of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from nri.engine.support.errors import EngineError
from nri.errors import NriError, describe

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Step(NamedTuple):
    """A change of the machine by name, and the call that takes it back, also what a killed engine left of it."""

    name: str
    do: Callable[[], object]
    undo: Callable[[], object]


class Undo:
    """The undos of all steps so far; leaving the block by an error runs them. `thing` is what errors speak of.

    Attributes:
        reason: the error's words, while undos run.
    """

    def __init__(self, thing: str) -> None:
        self._thing = thing
        self.reason = ""
        self._undos: list[Step] = []

    def step(self, name: str, do: Callable[[], T], undo: Callable[[], object]) -> T:
        """Do a step. An OSError becomes an EngineError that names the step."""
        self._undos.append(Step(name, do, undo))
        try:
            return do()
        except OSError as error:
            raise EngineError(f"{self._thing}: {name}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        self.reason = describe(error)
        for complaint in take_back(self._undos):
            _log.warning("%s: could not be undone after an error: %s", self._thing, complaint)
            error.add_note(f"not undone: {complaint}")


def take_back(steps: Iterable[Step]) -> list[str]:
    """Run the undos of steps, the last one first, whatever becomes of each; returns a line for each that failed."""
    complaints = []
    for step in reversed([*steps]):
        try:
            step.undo()
        except Exception as error:  # noqa: BLE001  the other steps are taken back all the same
            if not isinstance(error, (NriError, OSError)):
                _log.exception("%s could not be undone", step.name)
                complaints.append(f"{step.name}: {describe(error)}")
            else:
                complaints.append(f"{step.name}: {error}")
    return complaints
