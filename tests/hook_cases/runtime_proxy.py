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


def _stored(given: Given) -> Outcome:
    """Return what the proxy has stored, which cases call by the name of the original test's variable."""
    return next((found for value in given.values() if isinstance(value, dict) and (found := _request_of(value))), {})


def _asked(given: Given) -> Outcome:
    """The CRI request of a case."""
    return next((mapping(given[name]) for name in given if name.endswith("request") and given[name]), {})


# --- merges


def _map(given: Given) -> Outcome:
    return {"map": merge.merged_map(given.get("a"), given.get("b"))}


def _resources(given: Given) -> Outcome:
    return {"resources": merge.resources_after_response(given.get("a"), given.get("b"))}


def _resources_by_update(given: Given) -> Outcome:
    return {"resources": merge.resources_after_update(given.get("a"), given.get("b"))}


def _run_pod(given: Given) -> Outcome:
    if not given.get("rsp"):
        return {"error": True, "annotations": None, "labels": None, "cgroup_parent": ""}
    after = merge.pod_after_response(_request_of(given.get("pod_sandbox_info")), mapping(given.get("rsp")))
    return {"error": False, **{name: after.get(name) for name in ("annotations", "labels", "cgroup_parent")}}


def _container(given: Given) -> Outcome:
    if not given.get("rsp"):
        return {"error": True, "annotations": None, "resources": None, "cgroup_parent": "", "env": None, "envs": None}
    after = merge.container_after_response(_request_of(given.get("container_info")), mapping(given.get("rsp")))
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


def _parse_update(given: Given) -> Outcome:
    return {"container_info": {"request": requests.container_of_update(_asked(given), _stored(given))}}


def _parse_create(given: Given) -> Outcome:
    request = _asked(given)
    config = mapping(request.get("config"))
    request = {**request, "config": {**config, "envs": _entries(config.get("envs"))}}
    return {"container_info": {"request": requests.container_of_create(request, _stored(given))}}


def _parse_run(given: Given) -> Outcome:
    found = requests.pod_of_run(_asked(given))
    return {name: {"request": found} for name in ("pod_sandbox_info", "pod_sandbox", "pod_info")}


def _listed_pod(given: Given) -> Outcome:
    sandbox = given.get("pod_sandbox")
    listed = {"config": sandbox, "runtime_handler": mapping(sandbox).get("runtime_handler")}
    found = {} if sandbox is None else requests.pod_of_run(listed)
    names = {"pod_annotations": "annotations", "pod_labels": "labels", "pod_meta_data": "pod_meta"}
    names["pod_runtime_handler"] = "runtime_handler"
    return {key: found.get(name) for key, name in names.items()} | {"error": False}


def _listed_container(given: Given) -> Outcome:
    container = mapping(given.get("container"))
    pod = _stored(given)
    if given.get("container") is not None and not pod:
        return {"error": True}
    told = {"config": container, "sandbox_config": {"linux": {"cgroup_parent": pod.get("cgroup_parent")}}}
    made = requests.container_of_create(told, pod) if container else {}
    unlisted = ("pod_resources", "container_resources", "container_envs")
    found = {name: value for name, value in made.items() if name not in unlisted}
    metas = {f"{name}_data": found.get(name) for name in ("pod_meta", "container_meta")}
    return {"error": False, "container_info": {"request": found}, **found, **metas}


def _checkpoint_pod(given: Given) -> Outcome:
    pod, response = mapping(given.get("pod_sandbox_for_this_pod")), mapping(given.get("response"))
    if response.get("type") != "RunPodSandbox" or not pod.get("request"):
        return {"stored": None, "error": True}
    return {"stored": pod, "error": False}


def _checkpoint_container(given: Given) -> Outcome:
    container, response = mapping(given.get("container_info") or given.get("container")), mapping(given.get("response"))
    if response.get("type") != "CreateContainer" or not container.get("request"):
        return {"stored": None, "error": False}
    meta = {**mapping(container["request"].get("container_meta")), "id": response.get("container_id")}
    return {"stored": {"request": {**container["request"], "container_meta": meta}}, "error": False}


def _store(given: Given) -> Outcome:
    stored = next((value for name, value in given.items() if name.startswith("check_pointed_")), None)
    written = any(value is not None for name, value in given.items() if name.endswith("_id"))
    return {"container": stored, "pod": stored, "pod_sandbox": stored, "entries": int(written)}


def _dispatch(given: Given) -> Outcome:
    servers = [
        HookServer(each.get("endpoint") or "", tuple(each.get("stages") or ()), each.get("failure_policy") or "")
        for each in given.get("all_hooks") or ()
    ]
    found = dispatch.chosen(servers, given.get("request_path") or "", given.get("stage") or dispatch.PRE)
    if found is None:
        return {"error": False, "failure_policy": ""}
    return {"error": bool(given.get("hook_server_error")), "failure_policy": found[0].failure_policy}


def _nothing(given: Given) -> Outcome:
    return {"error": given.get("error", False)}


# --- environments


def _env_to_hook(given: Given) -> Outcome:
    return {"env": requests.env_of_cri(_entries(given.get("cri_env")))}


def _env_to_cri(given: Given) -> Outcome:
    return {"env": _listed(given.get("hook_env"))}


def _listed(env: Any) -> list[Outcome]:
    return [{"key": key, "value": base64.b64encode(env[key].encode()).decode()} for key in sorted(env or ())]


def _entries(listed: Any) -> list[Outcome]:
    """An environment of the CRI, whose values are bytes and stand in base64."""
    return [{**each, "value": base64.b64decode(each.get("value") or "")} for each in listed or ()]


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
