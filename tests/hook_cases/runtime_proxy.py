"""Stages of Koordinator's runtime proxy. Next: `tests.hook_cases.helpers`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from nri.proxy.hook_servers import dispatch, merge, requests
from nri.proxy.hook_servers.dispatch import HookServer
from tests.hook_cases.inputs import Given, mapping

__all__ = ["STAGES"]

Outcome = dict[str, Any]


def _request_of(info: Any) -> Outcome:
    return mapping(mapping(info).get("request"))


def _stored(case: Given) -> Outcome:
    """Return what the proxy has stored, which cases call by the name of the original test's variable."""
    return next((actual for value in case.values() if isinstance(value, dict) and (actual := _request_of(value))), {})


def _asked(case: Given) -> Outcome:
    """The CRI request of a case."""
    return next((mapping(case[name]) for name in case if name.endswith("request") and case[name]), {})


# --- merges


def _map(case: Given) -> Outcome:
    return {"map": merge.merged_map(case.get("a"), case.get("b"))}


def _resources(case: Given) -> Outcome:
    return {"resources": merge.resources_after_response(case.get("a"), case.get("b"))}


def _resources_by_update(case: Given) -> Outcome:
    return {"resources": merge.resources_after_update(case.get("a"), case.get("b"))}


def _run_pod(case: Given) -> Outcome:
    if not case.get("rsp"):
        return {"error": True, "annotations": None, "labels": None, "cgroup_parent": ""}
    after = merge.pod_after_response(_request_of(case.get("pod_sandbox_info")), mapping(case.get("rsp")))
    return {"error": False, **{name: after.get(name) for name in ("annotations", "labels", "cgroup_parent")}}


def _container(case: Given) -> Outcome:
    if not case.get("rsp"):
        return {"error": True, "annotations": None, "resources": None, "cgroup_parent": "", "env": None, "envs": None}
    after = merge.container_after_response(_request_of(case.get("container_info")), mapping(case.get("rsp")))
    env = _listed(after.get("container_envs"))
    return {
        "error": False,
        "annotations": after.get("container_annotations"),
        "resources": after.get("container_resources"),
        "cgroup_parent": after.get("pod_cgroup_parent"),
        "env": env,
        "envs": env,
    }


# --- requests and state


def _parse_update(case: Given) -> Outcome:
    return {"container_info": {"request": requests.container_of_update(_asked(case), _stored(case))}}


def _parse_create(case: Given) -> Outcome:
    request = _asked(case)
    config = mapping(request.get("config"))
    request = {**request, "config": {**config, "envs": _entries(config.get("envs"))}}
    return {"container_info": {"request": requests.container_of_create(request, _stored(case))}}


def _parse_run(case: Given) -> Outcome:
    actual = requests.pod_of_run(_asked(case))
    return {name: {"request": actual} for name in ("pod_sandbox_info", "pod_sandbox", "pod_info")}


def _listed_pod(case: Given) -> Outcome:
    sandbox = case.get("pod_sandbox")
    listed = {"config": sandbox, "runtime_handler": mapping(sandbox).get("runtime_handler")}
    collected = {} if sandbox is None else requests.pod_of_run(listed)
    names = {"pod_annotations": "annotations", "pod_labels": "labels", "pod_meta_data": "pod_meta"}
    names["pod_runtime_handler"] = "runtime_handler"
    return {key: collected.get(name) for key, name in names.items()} | {"error": False}


def _listed_container(case: Given) -> Outcome:
    container = mapping(case.get("container"))
    pod = _stored(case)
    if case.get("container") is not None and not pod:
        return {"error": True}
    message = {"config": container, "sandbox_config": {"linux": {"cgroup_parent": pod.get("cgroup_parent")}}}
    created = requests.container_of_create(message, pod) if container else {}
    unlisted = ("pod_resources", "container_resources", "container_envs")
    actual = {name: value for name, value in created.items() if name not in unlisted}
    metas = {f"{name}_data": actual.get(name) for name in ("pod_meta", "container_meta")}
    return {"error": False, "container_info": {"request": actual}, **actual, **metas}


def _checkpoint_pod(case: Given) -> Outcome:
    pod, response = mapping(case.get("pod_sandbox_for_this_pod")), mapping(case.get("response"))
    if response.get("type") != "RunPodSandbox" or not pod.get("request"):
        return {"stored": None, "error": True}
    return {"stored": pod, "error": False}


def _checkpoint_container(case: Given) -> Outcome:
    container, response = mapping(case.get("container_info") or case.get("container")), mapping(case.get("response"))
    if response.get("type") != "CreateContainer" or not container.get("request"):
        return {"stored": None, "error": False}
    meta = {**mapping(container["request"].get("container_meta")), "id": response.get("container_id")}
    return {"stored": {"request": {**container["request"], "container_meta": meta}}, "error": False}


def _store(case: Given) -> Outcome:
    stored = next((value for name, value in case.items() if name.startswith("check_pointed_")), None)
    written = any(value is not None for name, value in case.items() if name.endswith("_id"))
    return {"container": stored, "pod": stored, "pod_sandbox": stored, "entries": int(written)}


def _dispatch(case: Given) -> Outcome:
    servers = [
        HookServer(hook.get("endpoint") or "", tuple(hook.get("stages") or ()), hook.get("failure_policy") or "")
        for hook in case.get("all_hooks") or ()
    ]
    actual = dispatch.chosen(servers, case.get("request_path") or "", case.get("stage") or dispatch.PRE)
    if actual is None:
        return {"error": False, "failure_policy": ""}
    return {"error": bool(case.get("hook_server_error")), "failure_policy": actual[0].failure_policy}


def _nothing(case: Given) -> Outcome:
    return {"error": case.get("error", False)}


# --- environments


def _env_to_hook(case: Given) -> Outcome:
    return {"env": requests.env_of_cri(_entries(case.get("cri_env")))}


def _env_to_cri(case: Given) -> Outcome:
    return {"env": _listed(case.get("hook_env"))}


def _listed(env: Any) -> list[Outcome]:
    return [{"key": key, "value": base64.b64encode(env[key].encode()).decode()} for key in sorted(env or ())]


def _entries(listed: Any) -> list[Outcome]:
    """An environment of the CRI, whose values are bytes and stand in base64."""
    return [{**entry, "value": base64.b64decode(entry.get("value") or "")} for entry in listed or ()]


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "runtimeproxy/merge.map": _map,
    "runtimeproxy/merge.resources": _resources,
    "runtimeproxy/merge.resources_by_update": _resources_by_update,
    "runtimeproxy/merge.run_pod_sandbox": _run_pod,
    "runtimeproxy/merge.create_container": _container,
    "runtimeproxy/merge.update_container": _container,
    "runtimeproxy/merge.noop": _nothing,
    "runtimeproxy/parse.update_container": _parse_update,
    "runtimeproxy/parse.create_container": _parse_create,
    "runtimeproxy/parse.run_pod_sandbox": _parse_run,
    "runtimeproxy/parse.noop": _nothing,
    "runtimeproxy/failover.pod": _listed_pod,
    "runtimeproxy/failover.container": _listed_container,
    "runtimeproxy/store.checkpoint_pod": _checkpoint_pod,
    "runtimeproxy/store.checkpoint_container": _checkpoint_container,
    "runtimeproxy/store.container": _store,
    "runtimeproxy/store.pod": _store,
    "runtimeproxy/dispatch": _dispatch,
    "runtimeproxy/convert.env_cri_to_hook": _env_to_hook,
    "runtimeproxy/convert.env_hook_to_cri": _env_to_cri,
}
