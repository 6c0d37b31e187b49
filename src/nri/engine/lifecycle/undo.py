"""Steps that change the machine, each with its undo next to it."""

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
    """A change of the machine, and the function that undoes it. A restarted engine can undo it, too."""

    name: str
    do: Callable[[], object]
    undo: Callable[[], object]


class Undo:
    """A context manager that undoes all steps if its block raises an error. `subject` names the object in errors.

    Attributes:
        reason: the message of the error, while undos run.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.reason = ""
        self._undos: list[Step] = []

    def step(self, name: str, do: Callable[[], T], undo: Callable[[], object]) -> T:
        """Run a step. An OSError becomes an EngineError that names the step."""
        # Before the step runs, so that a step that fails halfway is undone, too. Undos accept missing objects.
        self._undos.append(Step(name, do, undo))
        try:
            return do()
        except OSError as error:
            raise EngineError(f"{self._subject}: {name}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        self.reason = describe(error)
        for complaint in take_back(self._undos):
            _log.warning("%s: could not be undone after an error: %s", self._subject, complaint)
            error.add_note(f"not undone: {complaint}")


def take_back(steps: Iterable[Step]) -> list[str]:
    """Run the undos of all steps in reverse order, even if some fail. Returns a line for each failure."""
    complaints = []
    for step in reversed([*steps]):
        try:
            step.undo()
        except Exception as error:  # noqa: BLE001  the other steps have to be undone, too
            if not isinstance(error, (NriError, OSError)):
                _log.exception("%s could not be undone", step.name)
                complaints.append(f"{step.name}: {describe(error)}")
            else:
                complaints.append(f"{step.name}: {error}")
    return complaints
