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
    actual: Outcome = {"cpuset": cpu.cpus or None, "rdt_class": message.linux.resources.rdt_class.value or None}
    actual["cpu_shares"] = cpu.shares.value if cpu.HasField("shares") else None
    actual["cfs_quota"] = cpu.quota.value if cpu.HasField("quota") else None
    actual["memory_limit"] = memory.limit.value if memory.HasField("limit") else None
    if isinstance(message, m.ContainerAdjustment):
        actual["env"] = {entry.key: entry.value for entry in message.env}
        actual["mounts"] = [
            {
                "destination": mount.destination,
                "type": mount.type,
                "source": mount.source,
                "options": list(mount.options),
            }
            for mount in message.mounts
        ]
        actual["devices"] = [
            {
                "path": device.path,
                "type": device.type,
                "major": device.major,
                "minor": device.minor,
                "file_mode": f"{device.file_mode.value:04o}",
            }
            for device in message.linux.devices
        ]
    return {name: value for name, value in actual.items() if value not in (None, {}, [])}


def _message(case: Any, kind: Any) -> Any:
    try:
        return json_format.ParseDict(inputs.mapping(case), kind, ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None


def _to_nri(case: Given) -> Outcome:
    changes = inputs.changes_of(case.get("response"))
    update = messages.update(changes, "", rdt_class=True)
    return {
        "error": False,
        "nri_adjustment": shown_message(messages.adjustment(changes)),
        "nri_update": {} if update is None else shown_message(update),
    }


def _container_to_proxy(case: Given) -> Outcome:
    changes = inputs.changes_of(case.get("response"))
    return {"proxy_response_after": proxy.container_response(changes, case.get("proxy_response_before") or {})}


def _pod_to_proxy(case: Given) -> Outcome:
    changes = inputs.changes_of(case.get("response"))
    return {"proxy_response_after": proxy.pod_response(changes, case.get("proxy_response_before") or {})}


def _pod_from_nri(case: Given) -> Outcome:
    context = _with_annotation(messages.pod_context(_message(case.get("nri_pod"), m.PodSandbox())))
    return {"request": _pod_shown(context), "error": False}


def _container_from_nri(case: Given) -> Outcome:
    config = inputs.mapping(case.get("config"))
    context = messages.container_context(
        _message(case.get("nri_pod"), m.PodSandbox()),
        _message(case.get("nri_container"), m.Container()),
        config.get("default_runtime") or "containerd",
        config.get("cgroup_driver") or "systemd",
    )
    extended = (_with_annotation(context.pod).extended or {}).get(context.name)
    return {"request": _container_shown(replace(context, extended=extended)), "error": False}


def _with_annotation(context: Pod) -> Pod:
    """A pod's context with what its annotation says, which here the hook that needs it reads for itself."""
    return replace(context, extended=batch_resource.annotated(context.annotations))


def _pod_from_proxy(case: Given) -> Outcome:
    return {
        "request": _pod_shown(proxy.pod_context(_proxy_request(case))),
        "error": False,
    }


def _container_from_proxy(case: Given) -> Outcome:
    config = inputs.mapping(case.get("config"))
    context = proxy.container_context(
        _proxy_request(case),
        config.get("default_runtime") or "containerd",
        config.get("cgroup_driver") or "systemd",
    )
    return {"request": _container_shown(context), "error": False}


def _proxy_request(case: Input) -> Mapping[str, Any]:
    """The request of the hook protocol, which is all that a case has beside its configuration."""
    return next((inputs.mapping(entry) for name, entry in case.items() if name != "config" and entry), {})


def _pod_shown(context: Pod) -> Outcome:
    extended = None
    if context.extended is not None:
        extended = {"containers": {name: _extended(entry) for name, entry in context.extended.items()}}
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
    actual = {"name": context.name, "namespace": context.namespace, "uid": context.uid}
    return {key: value for key, value in actual.items() if value}


def _extended(case: ExtendedResources) -> Outcome:
    return {
        "requests": {name: str(value) for name, value in case.requests.items()},
        "limits": {name: str(value) for name, value in case.limits.items()},
    }


def _resources(case: Resources | None) -> Outcome | None:
    if case is None:
        return None
    names = ("cpu_shares", "cfs_quota", "cpuset", "memory_limit")
    return {name: value for name in names if (value := getattr(case, name)) is not None}


def _from_container_spec(case: Given) -> Outcome:
    return {"resources": _resources(manifest.container_resources(inputs.mapping(case.get("container"))))}


def _from_pod_spec(case: Given) -> Outcome:
    return {"resources": _resources(manifest.listed_pod(inputs.mapping(case.get("pod")), "").resources)}


def _filter(case: Given) -> Outcome:
    return {"ignored": manifest.ignored(inputs.mapping(case.get("pod")))}


def _container_id(case: Given) -> Outcome:
    runtime = case.get("system_conf_default_runtime") or "containerd"
    annotations = inputs.mapping(case.get("pod_annotations") or case.get("annotations"))
    return {"container_id": messages.container_id(case.get("container_uid") or "", annotations, runtime)}


def _any_set(case: Given) -> Outcome:
    return {"set": inputs.resources(case.get("resources")) != Resources()}


# --- the NRI server


def _configure(case: Given) -> Outcome:
    import yaml

    text = case.get("config") or ""
    try:
        loaded = yaml.safe_load(text) if text else {}
        if isinstance(loaded, dict):
            loaded = {key: value for key, value in loaded.items() if value is not None}
        actual = fit({} if loaded is None else loaded, Record({"events": Items(str)}), "configuration")
        EventMask.parse(*actual.get("events", ()))
    except (yaml.YAMLError, ValueError):
        return {"error": True}
    return {"error": False}


def _served(stage: str) -> Callable[[Given], Outcome]:
    """Serve a request of the runtime: the hooks that are on by default decide, and may fail it."""

    def run(case: Given) -> Outcome:
        options = inputs.mapping(case.get("options"))
        node = Node(
            disabled_stages=frozenset(options.get("disabled_stages") or ()),
            fail=options.get("failure_policy") == "Fail",
            quirks=case.quirks,
        )
        pod = _message(case.get("pod"), m.PodSandbox())
        if stage in (RUN_POD, REMOVE_POD):
            outcome = decide(HOOKS, stage, messages.pod_context(pod), node)
        else:
            container = _message(case.get("container"), m.Container())
            outcome = decide(HOOKS, stage, messages.container_context(pod, container), node)
        return {**inputs.shown(outcome.changes), "error": outcome.failed is not None}

    return run


# --- host applications


def _parse_hostapps(case: Given) -> Outcome:
    last_good = LastGood(inputs.mapping(case.get("current_host_applications")))
    updated = last_good.take(lambda: host_application.by_name(case.get("host_applications")))
    return {"updated": updated, "host_applications": last_good.rule, "error": bool(last_good.error)}


def _refresh_hostapps(case: Given) -> Outcome:
    target = case.get("target")
    if target is None:
        return {"updated": False, "host_applications": inputs.mapping(case.get("current_host_applications"))}
    return _parse_hostapps(Given({**case, "host_applications": target.get("host_applications")}, case.quirks))


def _run_hostapps(case: Given) -> Outcome:
    if case.get("hook_fails"):
        return {"handled": {}}
    listed = inputs.mapping(case.get("current_host_applications")).values()
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
