"""Pods and containers as plugins see them, made of what was asked for and of what the runtime tells.

Rules: pure. A container that is being made is what its request says; once the runtime has it, its OCI spec is shown if
the runtime tells it. Plugins know a container by the name that it had when they were first asked about it; the
runtime's own id is the annotation `RUNTIME_ID`, as soon as there is one. Next: `nri.proxy.events.domain`.
"""

from __future__ import annotations

from typing import Any

from nri.api import messages as m
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError
from nri.proxy.events.runtime_queries import ContainerFacts, PodFacts
from nri.proxy.state import ContainerRecord

__all__ = ["RUNTIME_ID", "asked_for", "made", "pod_shown"]

#: The annotation in which plugins find the runtime's id of a container whose name for them is another one.
RUNTIME_ID = "nri.proxy/runtime-id"


def pod_shown(facts: PodFacts, config: pb.PodSandboxConfig) -> m.PodSandbox:
    """A pod as plugins see it. Raises RequestError for resources that NRI has no value for."""
    try:
        part = {"linux": {key: facts.spec.get("linux", {}).get(key) for key in ("cgroupsPath", "namespaces")}}
        return convert.pod_sandbox(facts.status, config, part, pid=facts.pid).value
    except (KeyError, TypeError, AttributeError):  # a spec of no form that is known
        return convert.pod_sandbox(facts.status, config, pid=facts.pid).value


def asked_for(record: ContainerRecord) -> m.Container:
    """A container that is about to be made, as plugins see it. Raises RequestError."""
    status = pb.ContainerStatus(id=record.id)
    shown = convert.container(status, record.config, convert.requested(record.config), pod_id=record.pod_id).value
    shown.state = m.ContainerState.CONTAINER_UNKNOWN
    shown.annotations.pop(RUNTIME_ID, None)
    _resources_for_plugins(shown, record.config.linux.resources)
    return shown


def made(record: ContainerRecord, facts: ContainerFacts | None) -> m.Container:
    """A container that the runtime has, as plugins see it; `facts` are None where it could not be asked."""
    if facts is None:
        shown = asked_for(record)
        shown.state = m.ContainerState.CONTAINER_CREATED
    else:
        shown = _of(record, facts)
    shown.annotations.pop(RUNTIME_ID, None)  # nobody else may say it
    if record.runtime_id != record.id:
        shown.annotations[RUNTIME_ID] = record.runtime_id
    return shown


def _of(record: ContainerRecord, facts: ContainerFacts) -> m.Container:
    status = pb.ContainerStatus()
    status.CopyFrom(facts.status)
    status.id = record.id
    try:
        spec = facts.spec or convert.requested(record.config)
        shown = convert.container(status, record.config, spec, pod_id=record.pod_id, pid=facts.pid).value
    except RequestError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError):  # a spec of no form that is known
        spec = convert.requested(record.config)
        shown = convert.container(status, record.config, spec, pod_id=record.pod_id, pid=facts.pid).value
    _resources_for_plugins(shown, record.resources)
    return shown


def _resources_for_plugins(shown: m.Container, resources: pb.LinuxContainerResources) -> None:
    """Put the resources in that are known to be in force, or are asked for: a spec may be from before an update."""
    known: Any = convert.to_nri(resources).value
    for part in ("cpu", "memory"):
        for field, value in getattr(known, part).ListFields():
            target = getattr(shown.linux.resources, part)
            if field.message_type is None:
                setattr(target, field.name, value)
            elif value.value:
                getattr(target, field.name).CopyFrom(value)
    if known.unified:
        shown.linux.resources.unified.update(known.unified)
