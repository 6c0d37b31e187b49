"""Recorded outcomes of Koordinator's strategies, against the strategies that the agent runs.

A case that differs on purpose is in `STATED`, with its row of docs/deviations-agent.md and the outcome that is
right here; it passes only with that outcome. Run them with `python -m tests.strategy_cases FILE`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

from tests.strategy_cases.stages import STAGES
from tests.support.case_program import Result, differences

__all__ = ["DEVIATIONS", "STATED", "Result", "run_case"]

Json = dict[str, Any]
_UNLIMITED: Final = "9223372036854775807"
_FILE: Final = Path(__file__).parents[1] / "conformance" / "data" / "koordinator-strategy-deviations.jsonl"
#: Cases whose outcome differs on purpose, by id: `row` is the row of the deviations, `expect` the right outcome.
STATED: Final = {row["id"]: row for row in map(json.loads, _FILE.read_text().splitlines())} if _FILE.exists() else {}
#: The rows of docs/deviations-agent.md below "Koordinator".
DEVIATIONS: Final = frozenset(row["row"] for row in STATED.values())


def run_case(case: Json) -> Result:
    """Run one case. Any exception is a failure of that case."""
    stated = STATED.get(case["id"])
    try:
        outcome = outcome_of(case)
        expected = _comparable(case, copy.deepcopy(case["expect"] if stated is None else stated["expect"]))
    except Exception as error:
        return Result(f"{type(error).__name__}: {error}")
    if outcome != expected:
        return Result(differences(outcome, expected))
    return Result(deviation="" if stated is None else stated["row"])


def outcome_of(case: Json) -> Json:
    """Return what the product makes of a case's input."""
    run = STAGES.get(f"{case['strategy']}/{case['stage']}")
    if run is None:
        raise ValueError(f"nothing runs {case['strategy']}/{case['stage']}")
    return _comparable(case, run(copy.deepcopy(case["input"])))


def _comparable(case: Json, outcome: Json) -> Json:
    """An outcome without what is internal to the original, and with sets in one order."""
    for one in (outcome, *outcome.get("steps", ())):
        one.pop("policy_status", None)
        if case["stage"] == "release":
            one.pop("per_pod", None)
        if case["strategy"] == "blkio":
            writes = [write for write in one["writes"] if not _is_default_weight(write)]
            last = {(write["path"], write["value"].split()[0]): write for write in writes}
            one["writes"] = [write for write in writes if write in last.values()]
        for write in one.get("writes") or ():
            write["value"] = write["value"].strip().rstrip(";")
        if case["strategy"] in ("cpuburst", "resctrl") and one.get("writes"):
            one["writes"] = _last_writes(one["writes"], case["strategy"] == "cpuburst")
        for name, text in (one.get("files") or {}).items():
            one["files"][name] = text.strip("\n")
            if name.endswith("/memory.high") and one["files"][name] == _UNLIMITED:
                one["files"][name] = "max"  # as cgroup v2 shows it
        if not any((one.get("targets") or {}).values()):
            one.pop("targets", None)
        for level in (one.get("targets") or {}).values():
            level.sort(key=lambda target: (target["path"], target["value"]))
        if isinstance(one.get("violations"), list):
            one["violations"].sort(key=lambda violation: (violation["field"], violation["rule"]))
    return outcome


def _is_default_weight(write: Json) -> bool:
    """Whether a write gives a disk the weight that all disks have: the original writes 100, the agent takes it away."""
    return write["path"].endswith("weight") and write["value"].split()[-1:] in (["100"], ["default"])


def _last_writes(writes: list[Json], is_single: bool) -> list[Json]:
    """The writes in the order of their files: here a batch is levelled, and the original levels file by file.

    Of a file with a single value that is the last one; what is only in force within a batch is not compared.
    """
    if is_single:
        writes = list({write["path"]: write for write in writes}.values())
    return sorted(writes, key=lambda write: write["path"])
