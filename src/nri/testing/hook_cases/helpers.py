"""Stages of the original's helpers that name folders of cgroups. Next: `nri.testing.hook_cases.kernel_files`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.policies.koordinator import paths
from nri.policies.koordinator.contexts import PodContext
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.hooks import resctrl
from nri.testing.hook_cases.inputs import Given, mapping
from nri.testing.hook_cases.original import folder_names
from nri.testing.hook_cases.tree import Tree

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
            runtime, folder = paths.container_folder(given.get("container_id") or "", driver)
            return {"runtime": runtime, "dir": folder}

        return _or_error(find, {"runtime": "unknown", "dir": ""})

    return run


def _container_parent(driver: str) -> Stage:
    def run(given: Given) -> Outcome:
        number = mapping(given.get("c")).get("containerID") or ""

        def find() -> Outcome:
            paths.container_folder(number, driver)
            return {"result": paths.container_path(given.get("pod_parent_dir") or "", number, driver)}

        return _or_error(find, {"result": ""})

    return run


def _pod_id(driver: str) -> Stage:
    def run(given: Given) -> Outcome:
        name = given.get("basename") or ""
        return _or_error(lambda: {"pod_id": folder_names.pod_id_of(name, driver)}, {"pod_id": ""})

    return run


def _container_id(driver: str) -> Stage:
    def run(given: Given) -> Outcome:
        name = given.get("basename") or ""
        return _or_error(lambda: {"container_id": folder_names.container_id_of(name, driver)}, {"container_id": ""})

    return run


def _host_path(given: Given) -> Outcome:
    driver = given.get("cgroup_driver") or paths.SYSTEMD
    return {"cgroup_parent": paths.host_application_path(given.get("host_app_spec"), driver)}


def _kube_class(given: Given) -> Outcome:
    return {"kube_qos": paths.kube_class_of(given.get("path") or "")}


def _pod_parent(given: Given) -> Outcome:
    return {
        "cgroup_parent": manifest.pod_folder(mapping(given.get("pod")), given.get("cgroup_driver") or paths.SYSTEMD)
    }


def _sandbox_id(given: Given) -> Outcome:
    pod = mapping(given.get("pod"))
    status = mapping(pod.get("status"))
    listed = [
        each.get("containerID") or ""
        for key in ("initContainerStatuses", "containerStatuses")
        for each in status.get(key) or ()
    ]
    if not status.get("containerStatuses"):
        return {"container_id": "", "error": False}

    def find() -> Outcome:
        known = dict(paths.container_folder(each)[::-1] for each in listed)
        names = Tree(given).children(manifest.pod_folder(pod))
        others = [
            name for name in names if name not in known and not (name.startswith("crio-") and name.endswith(".scope"))
        ]
        if len(others) != 1:
            raise ValueError(f"{len(others)} folders could be the pause container's")
        runtime = paths.container_folder(listed[0])[0]
        return {"container_id": f"{runtime}://{folder_names.container_id_of(others[0])}"}

    return _or_error(find, {"container_id": ""})


def _new_tasks(given: Given) -> Outcome:
    context = PodContext(tasks={"": tuple(given.get("ids") or ())})
    known = given.get("tasks_map")
    found = resctrl.new_tasks(context, None if known is None else [int(each) for each in known])
    return {"task_ids": list(found), "error": False}


STAGES: dict[str, Stage] = {
    "helpers/helper.cgroupfs_cgroup_path_container_dir_fn": _container_folder(paths.CGROUPFS),
    "helpers/helper.systemd_cgroup_path_container_dir_fn": _container_folder(paths.SYSTEMD),
    "helpers/helper.get_container_cgroup_parent_dir_cgroupfs_driver": _container_parent(paths.CGROUPFS),
    "helpers/helper.get_container_cgroup_parent_dir_systemd_driver": _container_parent(paths.SYSTEMD),
    "helpers/helper.parse_pod_idcgroupfs": _pod_id(paths.CGROUPFS),
    "helpers/helper.parse_pod_idsystemd": _pod_id(paths.SYSTEMD),
    "helpers/helper.parse_container_idcgroupfs": _container_id(paths.CGROUPFS),
    "helpers/helper.parse_container_idsystemd": _container_id(paths.SYSTEMD),
    "helpers/helper.get_host_cgroup_relative_path": _host_path,
    "helpers/helper.get_kube_qo_sby_cgroup_parent": _kube_class,
    "helpers/helper.get_pod_cgroup_parent_dir": _pod_parent,
    "helpers/helper.get_pod_sandbox_container_id": _sandbox_id,
    "helpers/helper.get_new_task_ids": _new_tasks,
}
