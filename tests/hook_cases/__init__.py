"""Run Koordinator's recorded outcomes through our hooks, case by case, and say what differs.

A file has one JSON object a line: a hook, a stage, inputs, and what the original made of them. The original's stages
are rows of tables in the modules of this package, each a function from inputs to an outcome of ours. What the original
has for itself alone is in `LEFT_OUT`. The program over this is `python -m tests.hook_cases`. Next:
`tests.hook_cases.compare`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

from nri.agent.koordinator.quirks import Quirks
from nri.conformance.cases import Failure
from tests.hook_cases import (
    conversions,
    cookies,
    core_sched,
    cpu,
    cpusets,
    devices,
    helpers,
    network,
    processes,
    runtime_proxy,
)
from tests.hook_cases.compare import difference
from tests.hook_cases.inputs import Given

__all__ = ["LEFT_OUT", "STATED", "is_left_out", "run_hook_case", "stages", "wrong"]

#: Helpers of the original that have no counterpart here: its way to Docker, and its own readers of kernel files.
LEFT_OUT = (
    "runtimeproxy/docker.",
    *(
        f"helpers/helper.{name}"
        for name in (
            *("parse_pod_id", "parse_container_id", "get_pod_sandbox_container_id"),
            *("convert_cpu", "parse_cpucfs", "range_validate", "net_cls_range_validator"),
            *("parse_proc_pidstat", "get_pgidfor_pid", "get_container_pgids"),
            *("set_core_sched_feature_enabled", "get_sched_features", "set_sched_features"),
            *("is_resctrl_available", "is_vendor_support_resctrl", "check_and_try_enable_resctrl_cat"),
            *("check_resctrl_schemata_valid", "read_resctrl_tasks_map"),
        )
    ),
)
_FILE: Final = Path(__file__).parents[1] / "conformance" / "data" / "koordinator-hook-deviations.jsonl"
#: The cases that come out otherwise in either mode: `row` of the deviations and the `expect` that is right here, by id.
STATED: Final = {row["id"]: row for row in map(json.loads, _FILE.read_text().splitlines())}
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
    return "" if all(isinstance(case.get(key) or {}, dict) for key in ("input", "expect")) else "input is not an object"


def is_left_out(case: dict[str, Any]) -> bool:
    """Whether a case is of a helper that only the original has, or of a cgroup that CRI-O names otherwise."""
    name = f"{case['hook']}/{case['stage']}"
    # Koordinator's folder for CRI-O without systemd is the id; CRI-O's own, as rubik has it, is `crio-` and the id.
    crio = str((case.get("input") or {}).get("container_id") or "").startswith("cri-o://")
    return name.startswith(LEFT_OUT) or (crio and name == "helpers/helper.cgroupfs_cgroup_path_container_dir_fn")


def stages() -> frozenset[str]:
    """Return what can be run, as `hook/stage`."""
    return frozenset(name for table in _TABLES for name in table)


def run_hook_case(case: dict[str, Any], quirks: Quirks = Quirks.REFERENCE) -> Failure | None:
    """Run one case; None if it came out as recorded."""
    name = f"{case['hook']}/{case['stage']}"
    run = next((table[name] for table in _TABLES if name in table), None)
    if run is None:
        return Failure(str(case["id"]), name, "this stage is not known here")
    case_input = {key: value if key in _NAMES else _set(value) for key, value in (case.get("input") or {}).items()}
    if case_input.get("context", ...) is None:
        run = _without_context
    try:
        got = run(Given(copy.deepcopy(case_input), quirks))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as problem:
        return Failure(str(case["id"]), name, f"the case cannot be run: {type(problem).__name__}: {problem}")
    stated = STATED.get(str(case["id"]))
    diff = difference(case["stage"], (case.get("expect") or {}) if stated is None else stated["expect"], got)
    return Failure(str(case["id"]), name, diff) if diff else None


def _without_context(case: Given) -> dict[str, Any]:
    """A hook that is told nothing at all is an error at every stage."""
    return {"error": "context" in case}


def _set(value: Any) -> Any:
    """Return what is set of an input: a key that is null is as good as absent. A place in a list stays one."""
    if isinstance(value, dict):
        return {key: _set(entry) for key, entry in value.items() if entry is not None}
    return [_set(entry) for entry in value] if isinstance(value, list) else value
