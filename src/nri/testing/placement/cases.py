"""A file of placement cases, case by case: passed, failed, or different on purpose.

One job: :func:`run_file`. `placement.json` holds sequences, and cases of the parts: memory zones, the CPU allocator,
pools, CPU trees, classification, hints. `placement-sequences.jsonl` holds sequences alone; its machines are described
in the other file, beside it. A case that comes out otherwise, and as recorded in reference mode, differs on purpose:
it is counted under the attributes of :class:`~nri.policies.placement.choices.Choices` that make the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nri.errors import ConfigError
from nri.policies.placement.choices import Choices
from nri.testing.conformance import read_cases
from nri.testing.placement.machines import Machines
from nri.testing.placement.parts import PARTS, Part
from nri.testing.placement.sequences import UNMET, differences

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
    documents = list(read_cases(path, lambda case: "" if isinstance(case, dict) else "no object"))
    whole = documents[0] if documents and "placement_cases" in documents[0] else None
    described = whole if whole is not None else _described(path)
    machines = Machines(described.get("topologies", {}), path.parent)
    for case in whole["placement_cases"] if whole is not None else map(_without_defaults, documents):
        topology = machines.get(case["topology"])
        yield _outcome(case["id"], partial(differences, case, topology), reference)
    for group, run in PARTS.items() if whole is not None else ():
        listed = whole.get(group, []) if whole is not None else []
        for place, part in enumerate(listed if isinstance(listed, list) else [listed]):
            name = part.get("id", f"{group}/{place}")
            yield _outcome(name, partial(_listed, run, part, machines), reference)


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
            return next(read_cases(path.parent / name, lambda case: "" if isinstance(case, dict) else "no object"))
    raise ConfigError(str(path), "", f"its machines are described in {_DESCRIBED[0]}, which is not beside it")


def _without_defaults(case: dict[str, Any]) -> dict[str, Any]:
    """A sequence as it was recorded: by a plugin with a configuration file, which gets no defaults of the resource."""
    for each in case["config"].get("balloonTypes", ()):
        each.setdefault("allocatorPriority", "none")
    return case
