"""Convert NRI messages to pods and containers, and changes to adjustments and updates.

The executor writes values that neither a field (`FIELDS`) nor `unified` can express, values of pods, and explicit
clears of CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from nri.agent import cgroup_paths as paths
from nri.agent.model import AT_CREATION, OOM_SCORE, UNIFIED, Changes, Container, Pod, Resources, Setting
from nri.api import messages as m
from nri.host.cgroups.fields import FIELDS, HUGE_PAGES, knob_of_file, unified_place

_LIMIT: Final = ".limit"

#: For each knob: a getter of the nested message with its field, if the message is nested, and the name of the field.
_PLACES: Final = {
    name: (attrgetter(parent) if parent else None, field)
    for name, (parent, _, field) in ((name, path.rpartition(".")) for name, path in FIELDS.items())
}
#: An annotation of pods that the kubelet's former docker shim created.
_DOCKER_TYPE = "io.kubernetes.docker.type"


def pod_context(pod: m.PodSandbox) -> Pod:
    """Return a pod from its NRI message. Its resources are unknown."""
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        labels=dict(pod.labels),
        annotations=dict(pod.annotations),
        folder=pod.linux.cgroup_parent,
        host_network=_host_network(pod.linux.namespaces),
    )


def container_context(
    pod: m.PodSandbox,
    container: m.Container,
    runtime: str = "containerd",
    driver: str = paths.SYSTEMD,
    context: Pod | None = None,
) -> Container:
    """Return a container from its NRI message. Its cgroup is computed; empty variables are left out.

    Args:
        pod: the message of its pod.
        container: the runtime's message.
        runtime: the prefix of the container's id.
        driver: the kubelet's cgroup driver.
        context: the pod, if its message was converted before.
    """
    context = context or pod_context(pod)
    number = container_id(container.id, context.annotations, runtime)
    pairs = (entry.partition("=") for entry in container.env)
    has_resources = container.HasField("linux") and container.linux.HasField("resources")
    has_score = container.linux.HasField("oom_score_adj")
    return Container(
        pod=context,
        id=number,
        name=container.name,
        folder=paths.container_path(context.folder, number, driver),
        env={name: value for name, _, value in pairs if name and value},
        resources=_resources(container.linux) if has_resources or has_score else None,
    )


def container_id(number: str, annotations: Mapping[str, str] | None = None, runtime: str = "containerd") -> str:
    """Return a container's id with its runtime as prefix."""
    return f"{'docker' if _DOCKER_TYPE in (annotations or {}) else runtime}://{number}"


def _no_name(_name: str) -> bool:
    return False


def is_expressible(name: str, on_v2: Callable[[str], bool] = _no_name) -> bool:
    """Return whether NRI can express a knob.

    Args:
        name: the knob.
        on_v2: returns whether this machine has cgroup v2 with a knob or a file (`unified.FILE`).
    """
    if name in FIELDS or name == OOM_SCORE or name.startswith(HUGE_PAGES):
        return True
    return (name.startswith(UNIFIED) or unified_place(name) is not None) and on_v2(name)


def adjustment(changes: Changes, on_v2: Callable[[str], bool] = _no_name) -> m.ContainerAdjustment:
    """Return changes as an adjustment of a container that is being created; `on_v2` as for `is_expressible`."""
    message = m.ContainerAdjustment()
    _set(message.linux.resources, changes.knobs, on_v2)
    for rule in changes.device_rules:
        device_rule = message.linux.resources.devices.add(allow=rule.allow, type=rule.type, access=rule.access)
        for part in ("major", "minor"):
            if (number := getattr(rule, part)) is not None:
                getattr(device_rule, part).value = number
    if not message.linux.resources.ByteSize():
        message.ClearField("linux")
    if changes.resctrl is not None:
        message.linux.resources.rdt_class.value = changes.resctrl.group
    if (score := changes.number(OOM_SCORE)) is not None:
        message.linux.oom_score_adj.value = score
    for name, value in changes.env.items():
        message.env.add(key=name, value=value)
    for mount in changes.mounts:
        message.mounts.add(
            destination=mount.destination, type=mount.type, source=mount.source, options=list(mount.options)
        )
    for device in changes.devices:
        node = message.linux.devices.add(path=device.path, type=device.type, major=device.major, minor=device.minor)
        node.file_mode.value = device.mode
    return message


def update(
    changes: Changes, container: str, on_v2: Callable[[str], bool] = _no_name, *, rdt_class: bool = False
) -> m.ContainerUpdate | None:
    """Return changes as an update of a container, or None if the update would be empty.

    Args:
        changes: the changes.
        container: the id of the container at the runtime.
        on_v2: as for `is_expressible`.
        rdt_class: whether to include an RDT class, which runtimes drop from updates.
    """
    message = m.ContainerUpdate()
    _set(message.linux.resources, changes.without(AT_CREATION).knobs, on_v2)
    if changes.resctrl is not None and rdt_class:
        message.linux.resources.rdt_class.value = changes.resctrl.group
    if not message.linux.resources.ByteSize():
        return None
    message.container_id = container
    return message


def reported(resources: m.LinuxResources) -> dict[str, Setting]:
    """Return the resources of a message by knob. A file of cgroup v2 without a knob has the name `unified.FILE`."""
    value_by_knob: dict[str, Setting] = {}
    for name, (parent, field) in _PLACES.items():
        part: Any = parent(resources) if parent else resources
        part_value = getattr(part, field)
        if isinstance(part_value, str):
            value_by_knob |= {name: part_value} if part_value else {}
        elif isinstance(part_value, int):  # pids.limit; the parent message has its presence
            value_by_knob |= {name: part_value} if resources.HasField("pids") else {}
        elif part.HasField(field):
            value_by_knob[name] = part_value.value if isinstance(part_value.value, str) else int(part_value.value)
    for limit in resources.hugepage_limits:
        value_by_knob[f"{HUGE_PAGES}{limit.page_size}{_LIMIT}"] = limit.limit
    for file, text in resources.unified.items():
        name = knob_of_file(file)
        place = unified_place(name)
        try:
            value = None if place is None else place.codec.decode(text)
        except ValueError:
            value = None
        value_by_knob |= {name: value} if isinstance(value, int) else {f"{UNIFIED}{file}": text}
    return value_by_knob


def _host_network(namespaces: Iterable[m.LinuxNamespace]) -> bool:
    """Return whether a pod uses the node's network: it has namespaces, but not a network namespace."""
    kinds = {namespace.type for namespace in namespaces}
    return bool(kinds) and "network" not in kinds


def _resources(linux: m.LinuxContainer) -> Resources:
    cpu, limit = linux.resources.cpu, linux.resources.memory.limit.value
    return Resources(
        cpu_shares=cpu.shares.value or None,
        cfs_quota=cpu.quota.value or None,
        cfs_period=cpu.period.value or None,
        cpuset=cpu.cpus or None,
        memory_limit=max(limit, -1) or None,
        oom_score_adj=linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None,
    )


def _set(resources: m.LinuxResources, knobs: Mapping[str, Setting], on_v2: Callable[[str], bool]) -> None:
    for name, value in knobs.items():
        if value == "" or not is_expressible(name, on_v2):  # NRI cannot express a clear of CPUs
            continue
        if name in FIELDS:
            _set_field(resources, FIELDS[name], value)
        elif name.startswith(HUGE_PAGES):
            resources.hugepage_limits.add(page_size=name.removeprefix(HUGE_PAGES).removesuffix(_LIMIT), limit=value)
        elif (place := unified_place(name)) is not None:
            resources.unified[place.file] = place.codec.encode(value, "")[-1]
        elif name.startswith(UNIFIED):
            resources.unified[name.removeprefix(UNIFIED)] = str(value)


def _set_field(resources: m.LinuxResources, path: str, value: Any) -> None:
    parent, _, field = path.rpartition(".")
    part: Any = attrgetter(parent)(resources) if parent else resources
    current = getattr(part, field)
    if isinstance(current, (str, int)):
        setattr(part, field, value)
    else:
        current.value = type(current.value)(value)
