"""Convert messages of the CRI and of the hook protocol to dicts with the protocol's field names, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nri.cri.pb import api_pb2 as cri
from nri.proxy.hook_servers.dispatch import STAGES
from nri.proxy.hook_servers.pb import api_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["RuntimeHookService"]
#: The full name of the service.
SERVICE: Final[str] = _SERVICE.full_name


class Method(NamedTuple):
    """A method of the service: its name, and the classes of its request and its response."""

    name: str
    request: type[Message]
    response: type[Message]


def _method(name: str) -> Method:
    descriptor = _SERVICE.methods_by_name[name]
    return Method(name, GetMessageClass(descriptor.input_type), GetMessageClass(descriptor.output_type))


#: The methods by stage.
METHODS: Final[Mapping[str, Method]] = {stage: _method(f"{stage}Hook") for stage in STAGES}


def fields_of(message: Message) -> dict[str, Any]:
    """All fields that are set in a message, and in its inner messages. Bytes stay bytes."""
    return {field.name: _plain_value(value) for field, value in message.ListFields()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Message):
        return fields_of(value)
    if isinstance(value, (str, bytes, int, float)):
        return value
    if hasattr(value, "items"):
        return {key: _plain_value(item) for key, item in value.items()}
    return [_plain_value(item) for item in value]


#: Fields of resources that have the same name in both protocols, and a single value.
_SINGLE = (
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "memory_limit_in_bytes",
    "oom_score_adj",
    "cpuset_cpus",
    "cpuset_mems",
    "memory_swap_limit_in_bytes",
)

Fields = Mapping[str, Any]


def change_pod(request: cri.RunPodSandboxRequest, before: Fields, after: Fields) -> None:
    """Apply the changes of a pod's hook request to a RunPodSandbox request."""
    for name in ("annotations", "labels"):
        _merge(getattr(request.config, name), before.get(name), after.get(name))
    parent = after.get("cgroup_parent")
    if parent and parent != before.get("cgroup_parent"):
        request.config.linux.cgroup_parent = parent


def change_container(request: cri.CreateContainerRequest, before: Fields, after: Fields) -> None:
    """Apply the changes of a container's hook request to a CreateContainer request."""
    _merge(request.config.annotations, before.get("container_annotations"), after.get("container_annotations"))
    parent = after.get("pod_cgroup_parent")
    if parent and parent != before.get("pod_cgroup_parent"):
        request.sandbox_config.linux.cgroup_parent = parent
    old, new = before.get("container_resources") or {}, after.get("container_resources") or {}
    if _field_differs(old, new):
        _set(request.config.linux.resources, old, new)
    _set_env(request.config, before.get("container_envs") or {}, after.get("container_envs") or {})


def change_update(request: cri.UpdateContainerResourcesRequest, before: Fields, after: Fields) -> None:
    """Apply the changes of a container's hook request to an UpdateContainerResources request.

    The stored fields of the container are sent as well, as Koordinator's proxy does: otherwise an update with only CPUs
    would remove values that a hook server has set before.
    """
    _merge(request.annotations, before.get("container_annotations"), after.get("container_annotations"))
    resources = after.get("container_resources")
    if resources:
        _set(request.linux, fields_of(request.linux), resources)


def _merge(target: Any, before: Fields | None, after: Fields | None) -> None:
    for key, value in (after or {}).items():
        if (before or {}).get(key) != value:
            target[key] = value


def _field_differs(old: Fields, new: Fields) -> bool:
    return any((old.get(name) or 0) != (new.get(name) or 0) for name in (*_SINGLE, "unified"))


def _set(target: cri.LinuxContainerResources, old: Fields, new: Fields) -> None:
    for name in _SINGLE:
        if (old.get(name) or 0) != (value := new.get(name) or 0):
            setattr(target, name, value or type(getattr(target, name))())
    _merge(target.unified, old.get("unified"), new.get("unified"))


def _set_env(config: cri.ContainerConfig, old: Fields, new: Fields) -> None:
    if old == new:
        return
    variables = [variable for variable in config.envs if variable.key in new]
    for variable in variables:
        if old.get(variable.key) != new[variable.key]:
            variable.value = new[variable.key].encode()
    added = [cri.KeyValue(key=key, value=new[key].encode()) for key in sorted(new.keys() - old.keys())]
    entries = [cri.KeyValue.FromString(variable.SerializeToString()) for variable in variables] + added
    del config.envs[:]
    config.envs.extend(entries)
