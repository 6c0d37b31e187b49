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
    def run(given: Given) -> Outcome:
        def find() -> Outcome:
            runtime, folder = container_name(Driver(driver), given.get("container_id") or "")
            return {"runtime": runtime, "dir": folder}

        return _or_error(find, {"runtime": "unknown", "dir": ""})

    return run


def _container_parent(driver: str) -> Stage:
    def run(given: Given) -> Outcome:
        number = mapping(given.get("c")).get("containerID") or ""

        def find() -> Outcome:
            container_name(Driver(driver), number)
            return {"result": paths.container_path(given.get("pod_parent_dir") or "", number, driver)}

        return _or_error(find, {"result": ""})

    return run


def _host_path(given: Given) -> Outcome:
    driver = given.get("cgroup_driver") or paths.SYSTEMD
    return {"cgroup_parent": host_application.host_application_path(given.get("host_app_spec"), driver)}


def _kube_class(given: Given) -> Outcome:
    return {"kube_qos": paths.kube_class_of(given.get("path") or "")}


def _pod_parent(given: Given) -> Outcome:
    return {"cgroup_parent": pod_folder(mapping(given.get("pod")), given.get("cgroup_driver") or paths.SYSTEMD)}


def _new_tasks(given: Given) -> Outcome:
    known = [int(each) for each in given.get("tasks_map") or ()]
    return {"task_ids": [each for each in given.get("ids") or () if each not in known], "error": False}


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
    return _or_error(lambda: {"mask": f"{resctrl.cache_mask(given.get('cbm') or 0, start, end):x}"}, {"mask": ""})


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
