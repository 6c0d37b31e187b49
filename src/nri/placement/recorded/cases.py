"""Run a file of placement cases: each case passes, fails, or differs on purpose.

`placement.json` has sequences, and cases of single components. `placement-sequences.jsonl` has only sequences; their
machines are described in `placement.json` next to it. A case that differs, but passes in reference mode, differs on
purpose: the outcome names the attributes of :class:`~nri.placement.choices.Choices` that make the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nri.config.json_lines import read_json_lines
from nri.errors import ConfigError
from nri.placement.choices import Choices
from nri.placement.recorded.case_format import problem_of
from nri.placement.recorded.machines import Machines
from nri.placement.recorded.parts import RUNNERS, Runner
from nri.placement.recorded.sequences import UNMET, differences
from nri.text import plain

#: Files that may describe the machines.
_MACHINE_FILES = ("placement.json.xz", "placement.json")


class Outcome(NamedTuple):
    """The outcome of a case.

    Attributes:
        differences: a line for each difference.
        choices: the choices that cause the differences, if the case differs on purpose.
    """

    case: str
    differences: list[str]
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"case {self.case} differs:", *(f"  {line}" for line in self.differences)])


def run_file(path: str | Path, reference: bool = False) -> Iterator[Outcome]:
    """Run each case of a file. Raises ConfigError if the file, or the file of its machines, cannot be read."""
    path = Path(path)
    documents = list(read_json_lines(path, lambda case: "" if isinstance(case, dict) else "not an object"))
    complete = documents[0] if documents and "placement_cases" in documents[0] else None
    description = complete if complete is not None else _machine_description(path)
    topologies = description.get("topologies", {})
    if not isinstance(topologies, dict):
        raise ConfigError(str(path), "topologies", "must be an object with machine names as keys", "correct the file")
    machines = Machines(topologies, path.parent)
    for number, case in enumerate(complete["placement_cases"] if complete is not None else documents):
        name = _name(case, f"case {number}")
        if problem := problem_of(case):
            raise ConfigError(str(path), name, problem, "correct the case")
        with _case_errors_located(path, name):
            topology = machines.get(case["topology"])
        sequence = case if complete is not None else _without_defaults(case)
        yield _outcome(name, partial(differences, sequence, topology), reference)
    for group, run in RUNNERS.items() if complete is not None else ():
        entries = complete.get(group, []) if complete is not None else []
        for place, case in enumerate(entries if isinstance(entries, list) else [entries]):
            name = _name(case, f"{group}/{place}")
            with _case_errors_located(path, name):
                outcome = _outcome(name, partial(_difference_list, run, case, machines), reference)
            yield outcome


@contextmanager
def _case_errors_located(path: Path, name: str) -> Iterator[None]:
    """Convert errors in a case to ConfigError with file and case. Errors of the tested code stay as they are."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
        if not _is_error_of_case(error):
            raise
        reason = f"the case cannot be read: {type(error).__name__}: {plain(str(error), 200)}"
        raise ConfigError(str(path), name, reason, "correct the case") from error


def _name(case: Any, default: str) -> str:
    name = case.get("id") if isinstance(case, dict) else None
    return plain(name, 200) if isinstance(name, str) and name else default


def _is_error_of_case(error: BaseException) -> bool:
    """Whether a case caused an error: the code that reads cases raised it, or a string in the case is invalid."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals.get("__name__", "") if frame is not None else ""
    return isinstance(error, ValueError) or module.startswith("nri.placement.recorded.")


def _difference_list(run: Runner, case: Mapping[str, Any], machines: Machines, choices: Choices) -> list[str]:
    return list(run(case, machines, choices))


def _outcome(name: str, run: Callable[[Choices], list[str]], reference: bool) -> Outcome:
    lines = run(Choices.REFERENCE if reference else Choices.DEFAULT)
    unmet = any(line.startswith(UNMET) for line in lines)  # assertions of nri-plugins' tests hold in both modes
    if not lines or reference or unmet or run(Choices.REFERENCE):
        return Outcome(name, lines)
    choices = [choice.name for choice in fields(Choices)]
    causes = [choice for choice in choices if run(replace(Choices.DEFAULT, **{choice: False})) != lines]
    # If two choices cause the same difference, disabling one changes nothing: find choices that suffice alone.
    causes = causes or [choice for choice in choices if run(replace(Choices.REFERENCE, **{choice: True}))]
    return Outcome(name, lines, tuple(causes) or ("several",))


def _machine_description(path: Path) -> Mapping[str, Any]:
    for name in _MACHINE_FILES:
        if (path.parent / name).exists():
            file = path.parent / name
            return next(read_json_lines(file, lambda case: "" if isinstance(case, dict) else "not an object"))
    raise ConfigError(
        str(path), "", f"{_MACHINE_FILES[0]}, the file with the machines, was not found next to this file"
    )


def _without_defaults(case: dict[str, Any]) -> dict[str, Any]:
    """Undo a default of the custom resource: the recorded plugin had a configuration file, which has no defaults."""
    for balloon_type in case["config"].get("balloonTypes", ()):
        balloon_type.setdefault("allocatorPriority", "none")
    return case
