"""Stages of the original's helpers that have a counterpart here. Next: `tests.hook_cases.compare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import host_application, resctrl
from nri.agent.koordinator.resctrl import Schemata
from nri.host.cgroups.drivers import Driver, container_name
from tests.hook_cases.core_sched import switched_on
from tests.hook_cases.inputs import Given, mapping
from tests.support.pod_folders import pod_folder

__all__ = ["STAGES"]

Outcome = dict[str, Any]
Stage = Callable[[Given], Outcome]


def _or_error(find: Callable[[], Outcome], empty: Outcome) -> Outcome:
    try:
        return {**find(), "error": False}
    except ValueError:
        return {**empty, "error": True}


def _container_folder(driver: str) -> Stage:
    def run(case: Given) -> Outcome:
        def find() -> Outcome:
            runtime, folder = container_name(Driver(driver), case.get("container_id") or "")
            return {"runtime": runtime, "dir": folder}

        return _or_error(find, {"runtime": "unknown", "dir": ""})

    return run


def _container_parent(driver: str) -> Stage:
    def run(case: Given) -> Outcome:
        number = mapping(case.get("c")).get("containerID") or ""

        def find() -> Outcome:
            container_name(Driver(driver), number)
            return {"result": paths.container_path(case.get("pod_parent_dir") or "", number, driver)}

        return _or_error(find, {"result": ""})

    return run


def _host_path(case: Given) -> Outcome:
    driver = case.get("cgroup_driver") or paths.SYSTEMD
    return {"cgroup_parent": host_application.host_application_path(case.get("host_app_spec"), driver)}


def _kube_class(case: Given) -> Outcome:
    return {"kube_qos": paths.kube_class_of(case.get("path") or "")}


def _pod_parent(case: Given) -> Outcome:
    return {"cgroup_parent": pod_folder(mapping(case.get("pod")), case.get("cgroup_driver") or paths.SYSTEMD)}


def _new_tasks(case: Given) -> Outcome:
    known_entry = [int(entry) for entry in case.get("tasks_map") or ()]
    return {"task_ids": [id_ for id_ in case.get("ids") or () if id_ not in known_entry], "error": False}


def _lines(case: Given) -> Outcome:
    schemata = Schemata(case.get("cacheids") or ())
    if case.get("l3_mask"):
        schemata.l3 = dict.fromkeys(schemata.l3, int(case["l3_mask"], 16))
    if case.get("mb_percent"):
        schemata.mb = dict.fromkeys(schemata.mb, int(case["mb_percent"]))
    return {
        "l3": schemata.l3_line() if case.get("l3_mask") else "",
        "mb": schemata.mb_line() if case.get("mb_percent") else "",
    }


def _mask(case: Given) -> Outcome:
    start, end = case.get("start_percent") or 0, case.get("end_percent") or 0
    return _or_error(lambda: {"mask": f"{resctrl.cache_mask(case.get('cbm') or 0, start, end):x}"}, {"mask": ""})


STAGES: dict[str, Stage] = {
    "helpers/helper.cgroupfs_cgroup_path_container_dir_fn": _container_folder(paths.CGROUPFS),
    "helpers/helper.systemd_cgroup_path_container_dir_fn": _container_folder(paths.SYSTEMD),
    "helpers/helper.get_container_cgroup_parent_dir_cgroupfs_driver": _container_parent(paths.CGROUPFS),
    "helpers/helper.get_container_cgroup_parent_dir_systemd_driver": _container_parent(paths.SYSTEMD),
    "helpers/helper.get_host_cgroup_relative_path": _host_path,
    "helpers/helper.get_kube_qo_sby_cgroup_parent": _kube_class,
    "helpers/helper.get_pod_cgroup_parent_dir": _pod_parent,
    "helpers/helper.get_new_task_ids": _new_tasks,
    "helpers/helper.enable_core_sched_if_supported": switched_on,
    "helpers/helper.resctrl_schemata_raw": _lines,
    "helpers/helper.calculate_cat_l3mask_value": _mask,
}
