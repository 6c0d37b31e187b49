"""Run Koordinator's recorded outcomes through our hooks, case by case, and say what differs.

A file has one JSON object a line: a hook, a stage, inputs, and what the original made of them. The original's stages
are rows of tables in the modules of this package, each a function from inputs to an outcome. Cases run in reference
mode (`Quirks.REFERENCE`). The command over this is `nri.cli.verbs.conformance`. Next: `nri.testing.hook_cases.compare`.
"""

from __future__ import annotations

import copy
from typing import Any

from nri.policies.koordinator.quirks import Quirks
from nri.testing.conformance import Failure
from nri.testing.hook_cases import (
    conversions,
    cookies,
    core_sched,
    cpu,
    cpusets,
    devices,
    helpers,
    kernel_files,
    network,
    processes,
    runtime_proxy,
)
from nri.testing.hook_cases.compare import difference
from nri.testing.hook_cases.inputs import Given

__all__ = ["HELPERS", "is_helper", "run_hook_case", "stages", "wrong"]

#: Stages that follow the original's inner split, which is not what a user sees; they are counted apart.
HELPERS = ("helper.", "docker.")
#: Inputs in which a key counts by being there: names of files and devices.
_NAMES = frozenset({"files", "host", "tasks_map"})
_TABLES = (
    conversions.STAGES,
    cookies.STAGES,
    core_sched.STAGES,
    cpu.STAGES,
    cpusets.STAGES,
    devices.STAGES,
    helpers.STAGES,
    kernel_files.STAGES,
    network.STAGES,
    processes.STAGES,
    runtime_proxy.STAGES,
)


def wrong(case: Any) -> str:
    """Say why a line of a file is no case of a hook; "" if it is one, or one of another kind."""
    if not isinstance(case, dict) or not {"id", "expect"} <= case.keys():
        return "id and expect are needed"
    if "op" in case:
        return ""
    if not all(isinstance(case.get(key), str) for key in ("hook", "stage")):
        return "hook and stage are needed, as texts"
    return "" if all(isinstance(case.get(key) or {}, dict) for key in ("input", "expect")) else "input is no object"


def is_helper(case: dict[str, Any]) -> bool:
    """Whether a case is of a helper."""
    return str(case["stage"]).startswith(HELPERS)


def stages() -> frozenset[str]:
    """Return what can be run, as `hook/stage`."""
    return frozenset(name for table in _TABLES for name in table)


def run_hook_case(case: dict[str, Any], quirks: Quirks = Quirks.REFERENCE) -> Failure | None:
    """Run one case; None if it came out as recorded."""
    name = f"{case['hook']}/{case['stage']}"
    run = next((table[name] for table in _TABLES if name in table), None)
    if run is None:
        return Failure(str(case["id"]), name, "this stage is not known here")
    given = {key: value if key in _NAMES else _set(value) for key, value in (case.get("input") or {}).items()}
    if given.get("context", ...) is None:
        run = _without_context
    try:
        got = run(Given(copy.deepcopy(given), quirks))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as problem:
        return Failure(str(case["id"]), name, f"the case cannot be run: {type(problem).__name__}: {problem}")
    diff = difference(case["stage"], case.get("expect") or {}, got)
    return Failure(str(case["id"]), name, diff) if diff else None


def _without_context(given: Given) -> dict[str, Any]:
    """A hook that is told nothing at all is an error at every stage."""
    return {"error": "context" in given}


def _set(value: Any) -> Any:
    """Return what is set of an input: a key that is null is as good as absent. A place in a list stays one."""
    if isinstance(value, dict):
        return {key: _set(each) for key, each in value.items() if each is not None}
    return [_set(each) for each in value] if isinstance(value, list) else value
