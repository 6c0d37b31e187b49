"""Messages about pods and containers for plugins, built from requests and the runtime's answers.

Plugins know a container by the id of its first event. The annotation `RUNTIME_ID` has the runtime's id.
"""

from __future__ import annotations

from typing import Any

from nri.api import messages as m
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError
from nri.proxy.events.runtime_queries import ContainerFacts, PodFacts
from nri.proxy.state import ContainerRecord

#: The annotation with the runtime's id of a container, if its id for plugins differs.
RUNTIME_ID = "nri.proxy/runtime-id"


def pod_shown(facts: PodFacts, config: pb.PodSandboxConfig) -> m.PodSandbox:
    """A pod as plugins see it. Raises RequestError for resources that NRI cannot express."""
    try:
        part = {"linux": {key: facts.spec.get("linux", {}).get(key) for key in ("cgroupsPath", "namespaces")}}
        return convert.pod_sandbox(facts.status, config, part, pid=facts.pid).value
    except (KeyError, TypeError, AttributeError):  # a spec of unknown form
        return convert.pod_sandbox(facts.status, config, pid=facts.pid).value


def requested_container(record: ContainerRecord) -> m.Container:
    """A container before its creation, as plugins see it. Raises RequestError."""
    status = pb.ContainerStatus(id=record.id)
    shown = convert.container(status, record.config, convert.requested(record.config), pod_id=record.pod_id).value
    shown.state = m.ContainerState.CONTAINER_UNKNOWN
    shown.annotations.pop(RUNTIME_ID, None)
    _resources_for_plugins(shown, record.config.linux.resources)
    return shown


def created_container(record: ContainerRecord, facts: ContainerFacts | None) -> m.Container:
    """An existing container as plugins see it. `facts` is None if the runtime could not be queried."""
    if facts is None:
        shown = requested_container(record)
        shown.state = m.ContainerState.CONTAINER_CREATED
    else:
        shown = _container_from_spec(record, facts)
    shown.annotations.pop(RUNTIME_ID, None)  # only the proxy sets it
    if record.runtime_id != record.id:
        shown.annotations[RUNTIME_ID] = record.runtime_id
    return shown


def _container_from_spec(record: ContainerRecord, facts: ContainerFacts) -> m.Container:
    status = pb.ContainerStatus()
    status.CopyFrom(facts.status)
    status.id = record.id
    try:
        spec = facts.spec or convert.requested(record.config)
        shown = convert.container(status, record.config, spec, pod_id=record.pod_id, pid=facts.pid).value
    except RequestError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError):  # a spec of unknown form
        spec = convert.requested(record.config)
        shown = convert.container(status, record.config, spec, pod_id=record.pod_id, pid=facts.pid).value
    _resources_for_plugins(shown, record.resources)
    return shown


def _resources_for_plugins(shown: m.Container, resources: pb.LinuxContainerResources) -> None:
    """Set the resources in force, or the requested resources, because a spec may be older than an update."""
    converted: Any = convert.to_nri(resources).value
    for part in ("cpu", "memory"):
        for field, value in getattr(converted, part).ListFields():
            target = getattr(shown.linux.resources, part)
            if field.message_type is None:
                setattr(target, field.name, value)
            elif value.value:
                getattr(target, field.name).CopyFrom(value)
    if converted.unified:
        shown.linux.resources.unified.update(converted.unified)
