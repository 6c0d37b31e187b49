"""Stages of conversions between contexts and messages, of the NRI server, and of host applications' reconciler.

Next: `tests.hook_cases.runtime_proxy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf import json_format

from nri.agent.hooks import CREATE, REMOVE_POD, RUN_POD, UPDATE, decide
from nri.agent.koordinator import batch_resource, host_application
from nri.agent.koordinator import hook_fields as proxy
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import HOOKS
from nri.agent.last_good import LastGood
from nri.agent.model import Container, ExtendedResources, Pod, Resources
from nri.agent.pods import manifest
from nri.agent.transports import messages
from nri.api import messages as m
from nri.api.events import EventMask
from nri.kube.shapes import Items, Record, fit
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given

__all__ = ["STAGES", "shown_message"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def shown_message(message: Any) -> Outcome:
    """Return an adjustment or update as the cases have it."""
    cpu, memory = message.linux.resources.cpu, message.linux.resources.memory
    found: Outcome = {"cpuset": cpu.cpus or None, "rdt_class": message.linux.resources.rdt_class.value or None}
    found["cpu_shares"] = cpu.shares.value if cpu.HasField("shares") else None
    found["cfs_quota"] = cpu.quota.value if cpu.HasField("quota") else None
    found["memory_limit"] = memory.limit.value if memory.HasField("limit") else None
    if isinstance(message, m.ContainerAdjustment):
        found["env"] = {each.key: each.value for each in message.env}
        found["mounts"] = [
            {
                "destination": each.destination,
                "type": each.type,
                "source": each.source,
                "options": list(each.options),
            }
            for each in message.mounts
        ]
        found["devices"] = [
            {
                "path": each.path,
                "type": each.type,
                "major": each.major,
                "minor": each.minor,
                "file_mode": f"{each.file_mode.value:04o}",
            }
            for each in message.linux.devices
        ]
    return {name: value for name, value in found.items() if value not in (None, {}, [])}


def _message(given: Any, kind: Any) -> Any:
    try:
        return json_format.ParseDict(inputs.mapping(given), kind, ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None


def _to_nri(given: Given) -> Outcome:
    changes = inputs.changes_of(given.get("response"))
    update = messages.update(changes, "", rdt_class=True)
    return {
        "error": False,
        "nri_adjustment": shown_message(messages.adjustment(changes)),
        "nri_update": {} if update is None else shown_message(update),
    }


def _container_to_proxy(given: Given) -> Outcome:
    changes = inputs.changes_of(given.get("response"))
    return {"proxy_response_after": proxy.container_response(changes, given.get("proxy_response_before") or {})}


def _pod_to_proxy(given: Given) -> Outcome:
    changes = inputs.changes_of(given.get("response"))
    return {"proxy_response_after": proxy.pod_response(changes, given.get("proxy_response_before") or {})}


def _pod_from_nri(given: Given) -> Outcome:
    context = _with_annotation(messages.pod_context(_message(given.get("nri_pod"), m.PodSandbox())))
    return {"request": _pod_shown(context), "error": False}


def _container_from_nri(given: Given) -> Outcome:
    config = inputs.mapping(given.get("config"))
    context = messages.container_context(
        _message(given.get("nri_pod"), m.PodSandbox()),
        _message(given.get("nri_container"), m.Container()),
        config.get("default_runtime") or "containerd",
        config.get("cgroup_driver") or "systemd",
    )
    extended = (_with_annotation(context.pod).extended or {}).get(context.name)
    return {"request": _container_shown(replace(context, extended=extended)), "error": False}


def _with_annotation(context: Pod) -> Pod:
    """A pod's context with what its annotation says, which here the hook that needs it reads for itself."""
    return replace(context, extended=batch_resource.annotated(context.annotations))


def _pod_from_proxy(given: Given) -> Outcome:
    return {
        "request": _pod_shown(proxy.pod_context(_proxy_request(given))),
        "error": False,
    }


def _container_from_proxy(given: Given) -> Outcome:
    config = inputs.mapping(given.get("config"))
    context = proxy.container_context(
        _proxy_request(given),
        config.get("default_runtime") or "containerd",
        config.get("cgroup_driver") or "systemd",
    )
    return {"request": _container_shown(context), "error": False}


def _proxy_request(given: Input) -> Mapping[str, Any]:
    """The request of the hook protocol, which is all that a case has beside its configuration."""
    return next((inputs.mapping(each) for name, each in given.items() if name != "config" and each), {})


def _pod_shown(context: Pod) -> Outcome:
    extended = None
    if context.extended is not None:
        extended = {"containers": {name: _extended(each) for name, each in context.extended.items()}}
    return {
        "pod": _identity(context),
        "labels": dict(context.labels),
        "annotations": dict(context.annotations),
        "cgroup_parent": context.folder or None,
        "resources": _resources(context.resources),
        "extended_resources": extended,
    }


def _container_shown(context: Container) -> Outcome:
    return {
        "pod": _identity(context.pod),
        "container": {key: value for key, value in (("id", context.id), ("name", context.name)) if value},
        "labels": dict(context.pod.labels),
        "annotations": dict(context.pod.annotations),
        "cgroup_parent": context.folder or None,
        "env": dict(context.env),
        "resources": _resources(context.resources),
        "extended_resources": None if context.extended is None else _extended(context.extended),
    }


def _identity(context: Pod) -> Outcome:
    found = {"name": context.name, "namespace": context.namespace, "uid": context.uid}
    return {key: value for key, value in found.items() if value}


def _extended(given: ExtendedResources) -> Outcome:
    return {
        "requests": {name: str(value) for name, value in given.requests.items()},
        "limits": {name: str(value) for name, value in given.limits.items()},
    }


def _resources(given: Resources | None) -> Outcome | None:
    if given is None:
        return None
    names = ("cpu_shares", "cfs_quota", "cpuset", "memory_limit")
    return {name: value for name in names if (value := getattr(given, name)) is not None}


def _from_container_spec(given: Given) -> Outcome:
    return {"resources": _resources(manifest.container_resources(inputs.mapping(given.get("container"))))}


def _from_pod_spec(given: Given) -> Outcome:
    return {"resources": _resources(manifest.listed_pod(inputs.mapping(given.get("pod")), "").resources)}


def _filter(given: Given) -> Outcome:
    return {"ignored": manifest.ignored(inputs.mapping(given.get("pod")))}


def _container_id(given: Given) -> Outcome:
    runtime = given.get("system_conf_default_runtime") or "containerd"
    annotations = inputs.mapping(given.get("pod_annotations") or given.get("annotations"))
    return {"container_id": messages.container_id(given.get("container_uid") or "", annotations, runtime)}


def _any_set(given: Given) -> Outcome:
    return {"set": inputs.resources(given.get("resources")) != Resources()}


# --- the NRI server


def _configure(given: Given) -> Outcome:
    import yaml

    text = given.get("config") or ""
    try:
        loaded = yaml.safe_load(text) if text else {}
        if isinstance(loaded, dict):
            loaded = {key: value for key, value in loaded.items() if value is not None}
        found = fit({} if loaded is None else loaded, Record({"events": Items(str)}), "configuration")
        EventMask.parse(*found.get("events", ()))
    except (yaml.YAMLError, ValueError):
        return {"error": True}
    return {"error": False}


def _served(stage: str) -> Callable[[Given], Outcome]:
    """Serve a request of the runtime: the hooks that are on by default decide, and may fail it."""

    def run(given: Given) -> Outcome:
        options = inputs.mapping(given.get("options"))
        node = Node(
            disabled_stages=frozenset(options.get("disabled_stages") or ()),
            fail=options.get("failure_policy") == "Fail",
            quirks=given.quirks,
        )
        pod = _message(given.get("pod"), m.PodSandbox())
        if stage in (RUN_POD, REMOVE_POD):
            outcome = decide(HOOKS, stage, messages.pod_context(pod), node)
        else:
            container = _message(given.get("container"), m.Container())
            outcome = decide(HOOKS, stage, messages.container_context(pod, container), node)
        return {**inputs.shown(outcome.changes), "error": outcome.failed is not None}

    return run


# --- host applications


def _parse_hostapps(given: Given) -> Outcome:
    kept = LastGood(inputs.mapping(given.get("current_host_applications")))
    updated = kept.take(lambda: host_application.by_name(given.get("host_applications")))
    return {"updated": updated, "host_applications": kept.rule, "error": bool(kept.error)}


def _refresh_hostapps(given: Given) -> Outcome:
    target = given.get("target")
    if target is None:
        return {"updated": False, "host_applications": inputs.mapping(given.get("current_host_applications"))}
    return _parse_hostapps(Given({**given, "host_applications": target.get("host_applications")}, given.quirks))


def _run_hostapps(given: Given) -> Outcome:
    if given.get("hook_fails"):
        return {"handled": {}}
    listed = inputs.mapping(given.get("current_host_applications")).values()
    return {"handled": {context.name: context.qos for context in map(context_of, listed)}}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "protocol/convert.container_to_nri": _to_nri,
    "protocol/convert.container_to_proxy": _container_to_proxy,
    "protocol/convert.pod_to_proxy": _pod_to_proxy,
    "protocol/convert.nri_to_pod": _pod_from_nri,
    "protocol/convert.nri_to_container": _container_from_nri,
    "protocol/convert.proxy_to_pod": _pod_from_proxy,
    "protocol/convert.proxy_to_container": _container_from_proxy,
    "protocol/convert.container_spec_to_resources": _from_container_spec,
    "protocol/convert.pod_spec_to_resources": _from_pod_spec,
    "protocol/filter.container": _filter,
    "protocol/helper.container_id": _container_id,
    "protocol/helper.has_origin_resource": _any_set,
    "nri_server/Configure": _configure,
    **{f"nri_server/{stage}": _served(stage) for stage in (CREATE, RUN_POD, UPDATE, REMOVE_POD)},
    "reconciler/hostapp.parse": _parse_hostapps,
    "reconciler/hostapp.refresh": _refresh_hostapps,
    "reconciler/hostapp.run": _run_hostapps,
}
