"""Stages of the original's helpers that read files of the kernel. Next: `nri.testing.hook_cases.compare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.policies.koordinator.kernel import schemata
from nri.policies.koordinator.kernel.schemata import Schemata
from nri.policies.koordinator.refresh import switches
from nri.testing.hook_cases.inputs import Given, mapping
from nri.testing.hook_cases.original import cpu_flags, knob_values, proc, sched_features, schemata_file
from nri.testing.hook_cases.original.proc import Stat
from nri.testing.hook_cases.tree import Tree

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]
_FEATURES = "/kernel/debug/sched_features"


def _or_error(find: Callable[[], Outcome], empty: Outcome) -> Outcome:
    try:
        return {**find(), "error": False}
    except ValueError:
        return {**empty, "error": True}


# --- values of knobs


def _weight(given: Given) -> Outcome:
    text = str(given.get("input") or given.get("value") or "")
    return _or_error(lambda: {"cpu_weight": knob_values.shares_to_weight(int(text))}, {"cpu_weight": -1})


def _shares(given: Given) -> Outcome:
    weight = given.get("input") or given.get("value") or 0
    return _or_error(lambda: {"cpu_shares": knob_values.weight_to_shares(int(weight))}, {"cpu_shares": 0})


def _quota(given: Given) -> Outcome:
    text = given.get("content") or ""
    return _or_error(lambda: {"cfs_quota": knob_values.cpu_max_quota(text)}, {"cfs_quota": -1})


def _period(given: Given) -> Outcome:
    text = given.get("content") or ""
    return _or_error(lambda: {"cfs_period": knob_values.cpu_max_period(text)}, {"cfs_period": -1})


def _range(given: Given) -> Outcome:
    bounds = mapping(given.get("validator"))
    least, most = bounds.get("min") or 0, bounds.get("max") or 0
    return {"valid": knob_values.in_range(given.get("value") or "", least, most)}


def _class_id(given: Given) -> Outcome:
    value = given.get("value") or ""
    if given.get("resource") != "net_cls.classid":
        return {"valid": bool(value)}
    return {"valid": knob_values.class_id_valid(value)}


# --- processes


def _stat(given: Given) -> Outcome:
    def find() -> Outcome:
        found = proc.parse_stat(given.get("arg") or "")
        return {"stat": {**found._asdict(), "state": ord(found.state)}}

    return _or_error(find, {"stat": None})


def _group(given: Given) -> Outcome:
    found = _stats(given, [given.get("arg") or 0])[given.get("arg") or 0]
    return {"pgid": 0 if found is None else found.pgrp, "error": found is None}


def _groups(given: Given) -> Outcome:
    text = Tree(given).read(given.get("arg") or "", "cgroup.procs")
    if text is None:
        return {"pgids": None, "error": True}
    return _or_error(
        lambda: {"pgids": proc.process_groups(_stats(given, knob_values.process_ids(text)))}, {"pgids": None}
    )


def _stats(given: Input, pids: list[int]) -> dict[int, Stat | None]:
    files, found = mapping(given.get("files")), dict[int, Stat | None]()
    for pid in pids:
        try:
            found[pid] = proc.parse_stat(files.get(f"/proc/{pid}/stat") or "")
        except ValueError:
            found[pid] = None
    return found


# --- the scheduler


def _enable_core(given: Given) -> Outcome:
    tree = Tree(given)
    plan = switches.for_core_sched(
        None, tree.sysctl(switches.CORE_SCHED), tree.files.get(_FEATURES), identity_known=False
    )
    return {"supported": not plan.error, "message": plan.error}


def _set_core(given: Given) -> Outcome:
    text = Tree(given).files.get(_FEATURES)
    if text is None:
        return {"done": False, "message": "failed to read sched_features"}
    return {"done": True, "message": ""}


def _features(given: Given) -> Outcome:
    text = Tree(given).files.get(_FEATURES)
    if text is None:
        return {"features": None, "error": True}
    return _or_error(lambda: {"features": sched_features.features(text)}, {})


def _set_features(given: Given) -> Outcome:
    tree, current, wanted = Tree(given), given.get("feature_map"), given.get("value_map")
    if current is None:
        return {"error": wanted is not None, "files": tree.files}
    words = sched_features.features_to_write(current, wanted or {})
    if words and _FEATURES not in tree.files:
        return {"error": True, "files": tree.files}
    for word in words:
        tree.files[_FEATURES] = f"{word}\n"
    return {"error": False, "files": tree.files}


# --- cache and memory bandwidth


def _by_flags(given: Given) -> Outcome:
    found = cpu_flags.by_flags(given.get("cpu_info_contents") or given.get("content") or "")
    return {"cat": found.cat, "mba": found.mba, "error": False}


def _by_command(given: Given) -> Outcome:
    found = cpu_flags.by_command_line(given.get("content") or "")
    return {"cat": found.cat, "mba": found.mba, "error": False}


def _vendor(given: Given) -> Outcome:
    text = mapping(given.get("files")).get("/proc/cpuinfo") or ""
    return {"supported": cpu_flags.vendor_known(cpu_flags.vendor(text))}


def _cat_there(given: Given) -> Outcome:
    there = not given.get("invalid_path") and "/fs/resctrl/info/L3/cbm_mask" in mapping(given.get("files"))
    return {"error": not there}


def _schemata_valid(given: Given) -> Outcome:
    text = mapping(given.get("files")).get("/fs/resctrl/schemata")
    try:
        found = schemata_file.parse(text or "")
    except ValueError:
        return {"error": True}
    return {"error": text is None or not (found.l3_valid() and found.mb_valid())}


def _tasks(given: Given) -> Outcome:
    if given.get("invalid_path"):
        return {"tasks": None, "error": True}
    return _or_error(
        lambda: {"tasks": {str(task): {} for task in knob_values.process_ids(given.get("tasks_str") or "")}},
        {"tasks": None},
    )


def _lines(given: Given) -> Outcome:
    found = Schemata(given.get("cacheids") or ())
    if given.get("l3_mask"):
        found.l3 = dict.fromkeys(found.l3, int(given["l3_mask"], 16))
    if given.get("mb_percent"):
        found.mb = dict.fromkeys(found.mb, int(given["mb_percent"]))
    return {
        "l3": found.l3_line() if given.get("l3_mask") else "",
        "mb": found.mb_line() if given.get("mb_percent") else "",
    }


def _mask(given: Given) -> Outcome:
    start, end = given.get("start_percent") or 0, given.get("end_percent") or 0
    return _or_error(lambda: {"mask": f"{schemata.cache_mask(given.get('cbm') or 0, start, end):x}"}, {"mask": ""})


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "helpers/helper.convert_cpushares_to_weight": _weight,
    "helpers/helper.convert_cpuweight_to_shares": _shares,
    "helpers/helper.parse_cpucfsquota_v2": _quota,
    "helpers/helper.parse_cpucfsperiod_v2": _period,
    "helpers/helper.range_validate": _range,
    "helpers/helper.net_cls_range_validator_validate": _class_id,
    "helpers/helper.parse_proc_pidstat": _stat,
    "helpers/helper.get_pgidfor_pid": _group,
    "helpers/helper.get_container_pgids": _groups,
    "helpers/helper.enable_core_sched_if_supported": _enable_core,
    "helpers/helper.set_core_sched_feature_enabled": _set_core,
    "helpers/helper.get_sched_features": _features,
    "helpers/helper.set_sched_features": _set_features,
    "helpers/helper.is_resctrl_available_by_cpu_info": _by_flags,
    "helpers/helper.is_resctrl_available_by_kernel_cmd": _by_command,
    "helpers/helper.is_vendor_support_resctrl": _vendor,
    "helpers/helper.check_and_try_enable_resctrl_cat": _cat_there,
    "helpers/helper.check_resctrl_schemata_valid": _schemata_valid,
    "helpers/helper.read_resctrl_tasks_map": _tasks,
    "helpers/helper.resctrl_schemata_raw": _lines,
    "helpers/helper.calculate_cat_l3mask_value": _mask,
}
