"""A file of placement cases, case by case: passed, failed, or different on purpose.

One job: :func:`run_file`. `placement.json` holds sequences, and cases of the parts: memory zones, the CPU allocator,
pools, CPU trees, classification, hints. `placement-sequences.jsonl` holds sequences alone; its machines are described
in the other file, beside it. A case that comes out otherwise, and as recorded in reference mode, differs on purpose:
it is counted under the attributes of :class:`~nri.placement.choices.Choices` that make the difference.
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
from nri.placement.recorded.parts import PARTS, Part
from nri.placement.recorded.sequences import UNMET, differences
from nri.text import plain

__all__ = ["Outcome", "run_file"]

#: The file that describes the machines.
_DESCRIBED = ("placement.json.xz", "placement.json")


class Outcome(NamedTuple):
    """The outcome of a case: lines that differ, and the choices for which they do so on purpose."""

    case: str
    differences: list[str]
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"case {self.case} differs:", *(f"  {line}" for line in self.differences)])


def run_file(path: str | Path, reference: bool = False) -> Iterator[Outcome]:
    """Run each case of a file. Raises ConfigError if it, or what it needs beside it, cannot be read."""
    path = Path(path)
    documents = list(read_json_lines(path, lambda case: "" if isinstance(case, dict) else "no object"))
    whole = documents[0] if documents and "placement_cases" in documents[0] else None
    described = whole if whole is not None else _described(path)
    topologies = described.get("topologies", {})
    if not isinstance(topologies, dict):
        raise ConfigError(str(path), "topologies", "must be an object, by names of machines", "correct the file")
    machines = Machines(topologies, path.parent)
    for number, case in enumerate(whole["placement_cases"] if whole is not None else documents):
        name = _name(case, f"case {number}")
        if problem := problem_of(case):
            raise ConfigError(str(path), name, problem, "correct the case")
        with _blaming_the_case(path, name):
            topology = machines.get(case["topology"])
        one = case if whole is not None else _without_defaults(case)
        yield _outcome(name, partial(differences, one, topology), reference)
    for group, run in PARTS.items() if whole is not None else ():
        listed = whole.get(group, []) if whole is not None else []
        for place, part in enumerate(listed if isinstance(listed, list) else [listed]):
            name = _name(part, f"{group}/{place}")
            with _blaming_the_case(path, name):
                outcome = _outcome(name, partial(_listed, run, part, machines), reference)
            yield outcome


@contextmanager
def _blaming_the_case(path: Path, name: str) -> Iterator[None]:
    """Name file and case where a case cannot be read; an error of the code that the case tests stays what it is."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
        if not _is_of_the_case(error):
            raise
        reason = f"the case cannot be read: {type(error).__name__}: {plain(str(error), 200)}"
        raise ConfigError(str(path), name, reason, "correct the case") from error


def _name(case: Any, default: str) -> str:
    name = case.get("id") if isinstance(case, dict) else None
    return plain(name, 200) if isinstance(name, str) and name else default


def _is_of_the_case(error: BaseException) -> bool:
    """Whether the code that reads a case raised an error, or a text in the case is at fault; else it is a defect."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals.get("__name__", "") if frame is not None else ""
    return isinstance(error, ValueError) or module.startswith("nri.placement.recorded.")


def _listed(run: Part, part: Mapping[str, Any], machines: Machines, choices: Choices) -> list[str]:
    return list(run(part, machines, choices))


def _outcome(name: str, run: Callable[[Choices], list[str]], reference: bool) -> Outcome:
    found = run(Choices.REFERENCE if reference else Choices.DEFAULT)
    unmet = any(line.startswith(UNMET) for line in found)  # what the original's own tests ask for holds in each mode
    if not found or reference or unmet or run(Choices.REFERENCE):
        return Outcome(name, found)
    choices = [each.name for each in fields(Choices)]
    alone = [choice for choice in choices if run(replace(Choices.DEFAULT, **{choice: False})) != found]
    # Where two of them make the same difference none does so alone: then each that makes one by itself.
    alone = alone or [choice for choice in choices if run(replace(Choices.REFERENCE, **{choice: True}))]
    return Outcome(name, found, tuple(alone) or ("several",))


def _described(path: Path) -> Mapping[str, Any]:
    for name in _DESCRIBED:
        if (path.parent / name).exists():
            return next(read_json_lines(path.parent / name, lambda case: "" if isinstance(case, dict) else "no object"))
    raise ConfigError(str(path), "", f"its machines are described in {_DESCRIBED[0]}, which is not beside it")


def _without_defaults(case: dict[str, Any]) -> dict[str, Any]:
    """A sequence as it was recorded: by a plugin with a configuration file, which gets no defaults of the resource."""
    for each in case["config"].get("balloonTypes", ()):
        each.setdefault("allocatorPriority", "none")
    return case
