"""Recorded outcomes of Koordinator's strategies, run against the decisions of this project.

A case that comes out otherwise for a reason is counted apart, under the name of its row in docs/deviations.md. It is
only if the decisions alone give what was recorded: the row says what is done otherwise with them. Run them with
`python -m tests.strategy_cases FILE`. Next: `tests.strategy_cases.metrics`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.strategy_cases import cache, cpu, disks, evict, memory, slo
from tests.strategy_cases.tree import differences
from tests.support.case_program import Result

__all__ = ["DEVIATIONS", "Result", "run_case"]

Json = dict[str, Any]
_GUARDS, _BYTES, _PLAIN = "guards of pods", "bytes of evicted pods", "evictions for plain CPU"
_SMALL, _UNREAD = "pools that are too small", "CPUs that cannot be read"
_POLICY, _OWN = "policies that are not known", "batch pods with CPUs of their own"
_REFUSED: Final = "a NodeSLO of which one value cannot be read"
_NEAR_NONE, _SUPPRESSION = "quotas near none", "CPU suppression"
#: How the original's way is asked for where CPUs are suppressed, and the row that says what is done otherwise.
_SUPPRESSED: Final = {
    "small_pools_stay": _SMALL,
    "near_none_stays": _NEAR_NONE,
    "no_topology": _SUPPRESSION,
    "own_overwritten": _OWN,
}
_POLICIES: Final = {
    "koordinator.sh/cpuBurst": ("", "none", "auto", "cpuBurstOnly", "cfsQuotaBurstOnly"),
    "koordinator.sh/memoryQOS": ("", "none", "auto", "default"),
}
#: The rows of docs/deviations.md below "Koordinator".
DEVIATIONS: Final = frozenset({_GUARDS, _BYTES, _PLAIN, _UNREAD, _POLICY, _REFUSED, *_SUPPRESSED.values()})
_STAGES: Final[Mapping[str, Mapping[str, Callable[[Json], Json]]]] = {
    "cpusuppress": cpu.SUPPRESS,
    "cpuburst": cpu.BURST,
    "cpuevict": evict.STAGES,
    "memoryevict": evict.STAGES,
    "evict": evict.STAGES,
    "cgreconcile": memory.STAGES,
    "resctrl": cache.STAGES,
    "blkio": disks.STAGES,
    "nodeslo": slo.STAGES,
}


def run_case(case: Json) -> Result:
    """Run one case. Any exception is a failure of that case."""
    try:
        return _run(copy.deepcopy(case))
    except Exception as error:
        return Result(f"{type(error).__name__}: {error}")


def _run(case: Json) -> Result:
    strategy, stage, expected = case["strategy"], case["stage"], case["expect"]
    if stage == "reconcile" and strategy in ("cpuevict", "memoryevict"):
        return _evictions(case)
    run = _STAGES.get(strategy, {}).get(stage)
    if run is None:
        return Result(f"there is nothing that runs {strategy}/{stage}")
    if strategy == "cpusuppress":
        return _suppression(case, run)
    found = run(case["input"]) if stage == "reconcile" else _rounds(case["input"], run)
    if isinstance(expected.get("violations"), list):
        expected["violations"].sort(key=lambda each: (each["field"], each["rule"]))
    for each in (found, expected, *found.get("steps", ()), *expected.get("steps", ())):
        for level in (each.get("targets") or {}).values():
            level.sort(key=lambda one: (one["path"], one["value"]))  # their order does not matter
    if found != expected:
        return Result(differences(found, expected))
    if stage == "victims" and any(evict.spared(case["input"], each["pod"]) for each in expected["victims"]):
        return Result(deviation=_GUARDS)
    if strategy == "blkio" and disks.out_of_range(case["input"]):
        return Result(deviation=_REFUSED)
    if _unknown_policy(case["input"]):
        return Result(deviation=_POLICY)
    return Result(deviation=_PLAIN if _wants_plain_cpu(case) else "")


def _unknown_policy(given: Json) -> bool:
    """Whether a pod's annotation names a policy that there is not; ours is an error, and the node's word stays."""
    for pod in (each["pod"] for each in given.get("pods") or ()):
        for key, known in _POLICIES.items():
            try:
                found = json.loads((pod["metadata"].get("annotations") or {}).get(key) or "{}")
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("policy", "") not in known:
                return True
    return False


def _suppression(case: Json, run: Callable[[Json], Json]) -> Result:
    """CPUs that cannot be read, and pools that are too small, are among what this agent is more careful with."""
    given, expected = case["input"], case["expect"]
    unread = cpu.unreadable(given)
    found = run(cpu.readable(given))
    if found == expected:
        return Result(deviation=_UNREAD if unread else "")
    for name, row in _SUPPRESSED.items():
        if run({**cpu.readable(given), name: True}) == expected:
            return Result(deviation=row)
    return Result(differences(found, expected))


def _rounds(given: Json, run: Callable[[Json], Json]) -> Json:
    if "steps" not in given:
        return run(given)
    return {"steps": [run({**given, **step}) for step in given["steps"]]}


def _evictions(case: Json) -> Result:
    both = [
        _rounds(case["input"], lambda given, place=place: evict.both_rounds(given, case["strategy"])[place])  # type: ignore[misc]
        for place in (0, 1)
    ]
    recorded, ours = both
    if recorded == case["expect"]:
        return Result(deviation="" if ours == recorded else _GUARDS if not _wants_plain_cpu(case) else _PLAIN)
    if recorded == case.get("expect_without_quirk"):
        return Result(deviation=_BYTES)
    return Result(differences(recorded, case["expect"]))


def _wants_plain_cpu(case: Json) -> bool:
    """Whether the original frees CPU or memory that no eviction frees, and so evicts all that it may."""
    found = case["expect"].get("release") or {}
    return str(case["input"].get("feature", "")).endswith("AllocatableEvict") and not {"cpu", "memory"}.isdisjoint(
        found
    )
