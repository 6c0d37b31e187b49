"""Create pods and containers for tests, with unique ids, and with defaults for all fields that a test does not set."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from nri.api import messages as m
from nri.config.complaint import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message

_numbers = itertools.count(1)


def make_pod(
    name: str = "pod",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> m.PodSandbox:
    """Create a pod sandbox, as a runtime would describe it. `fields` are further fields of the message."""
    _check(make_pod, m.PodSandbox, fields)
    number = next(_numbers)
    fields.setdefault("id", f"pod{number}")
    fields.setdefault("uid", f"00000000-0000-4000-8000-{number:012}")
    fields.setdefault("runtime_handler", "runc")
    return m.PodSandbox(name=name, namespace=namespace, labels=labels or {}, annotations=annotations or {}, **fields)


def make_container(
    name: str = "container",
    pod: m.PodSandbox | None = None,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> m.Container:
    """Create a container, as a runtime would describe it.

    Args:
        name: the container's name in its pod.
        pod: the container's pod, for `pod_sandbox_id`; without it, events set the field.
        env: the environment by name.
        labels: the labels.
        annotations: the annotations.
        fields: further fields of the message, for example `args`; `cpu_shares`, `cpu_quota`, `cpus`, `mems` and
            `memory_limit` set the container's resources.
    """
    resources = {key: fields.pop(key) for key in tuple(fields) if key in _RESOURCES}
    _check(make_container, m.Container, fields, *_RESOURCES)
    fields.setdefault("id", f"container{next(_numbers)}")
    if pod is not None:
        fields.setdefault("pod_sandbox_id", pod.id)
    variables = [f"{key}={value}" for key, value in (env or {}).items()]
    container = m.Container(name=name, env=variables, labels=labels or {}, annotations=annotations or {}, **fields)
    for key, value in resources.items():
        part, field, wrapped = _RESOURCES[key]
        target = getattr(container.linux.resources, part)
        if wrapped:
            getattr(target, field).value = value
        else:
            setattr(target, field, value)
    return container


def _check(function: Callable[..., object], kind: type[Message], fields: Mapping[str, object], *more: str) -> None:
    """Raise TypeError for an argument that neither the function nor the message has."""
    fields_by_name = kind.DESCRIPTOR.fields_by_name
    for key in fields:
        if key not in fields_by_name:
            arguments = [name for name in function.__annotations__ if name not in ("fields", "return")]
            step = suggest(key, [*arguments, *more, *fields_by_name])
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {key!r}; {step}")


# For each keyword: the message in the resources, the field in it, and whether the field is an optional wrapper.
_RESOURCES = {
    "cpu_shares": ("cpu", "shares", True),
    "cpu_quota": ("cpu", "quota", True),
    "cpu_period": ("cpu", "period", True),
    "cpus": ("cpu", "cpus", False),
    "mems": ("cpu", "mems", False),
    "memory_limit": ("memory", "limit", True),
}
