"""Contexts from NRI's messages, and changes as an adjustment or an update.

NRI has a field for some knobs, `FIELDS`; a file of cgroup v2 it can name in `unified`, where the machine has it; for
the rest, a pod's values and an explicit clear of the CPUs, there is the executor. Runtimes drop some fields from an
update, `AT_CREATION`. Next: `nri.agent.koordinator.hook_fields`.
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

#: The fields by knob: how the message that has each is found, if it is below, and its name there.
_PLACES: Final = {
    name: (attrgetter(above) if above else None, field)
    for name, (above, _, field) in ((name, path.rpartition(".")) for name, path in FIELDS.items())
}
#: A pod of the kubelet's former docker shim bears this.
_DOCKER_TYPE = "io.kubernetes.docker.type"


def pod_context(pod: m.PodSandbox) -> Pod:
    """Return the context of a pod; its resources are not known."""
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
    """Return the context of a container. Its folder is computed from its pod's; empty variables are left out.

    Args:
        pod: its pod.
        container: what the runtime tells of it.
        runtime: what its ids have in front.
        driver: the kubelet's.
        context: that of its pod, if it is there already.
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
    """Return a container's id with its runtime in front."""
    return f"{'docker' if _DOCKER_TYPE in (annotations or {}) else runtime}://{number}"


def _never(_name: str) -> bool:
    return False


def sayable(name: str, on_v2: Callable[[str], bool] = _never) -> bool:
    """Whether NRI has a word for a knob.

    Args:
        name: the knob.
        on_v2: whether this machine has a knob, or a file named as `unified.FILE`, on cgroup v2.
    """
    if name in FIELDS or name == OOM_SCORE or name.startswith(HUGE_PAGES):
        return True
    return (name.startswith(UNIFIED) or unified_place(name) is not None) and on_v2(name)


def adjustment(changes: Changes, on_v2: Callable[[str], bool] = _never) -> m.ContainerAdjustment:
    """Return changes as an adjustment of a container that is being created; `on_v2` as for `sayable`."""
    message = m.ContainerAdjustment()
    _set(message.linux.resources, changes.knobs, on_v2)
    for rule in changes.device_rules:
        made = message.linux.resources.devices.add(allow=rule.allow, type=rule.type, access=rule.access)
        for part in ("major", "minor"):
            if (number := getattr(rule, part)) is not None:
                getattr(made, part).value = number
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
    changes: Changes, container: str, on_v2: Callable[[str], bool] = _never, *, rdt_class: bool = False
) -> m.ContainerUpdate | None:
    """Return changes as an update of a container; None if an update would say nothing.

    Args:
        changes: what is to be set.
        container: the container's id at the runtime.
        on_v2: as for `sayable`.
        rdt_class: whether it asks for an RDT class as well, which runtimes drop from updates.
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
    """Return what a message says of resources, by knob; a file of cgroup v2 that has none is `unified.FILE`."""
    found: dict[str, Setting] = {}
    for name, (above, field) in _PLACES.items():
        part: Any = above(resources) if above else resources
        held = getattr(part, field)
        if isinstance(held, str):
            found |= {name: held} if held else {}
        elif isinstance(held, int):  # of processes; the message above says whether it is set
            found |= {name: held} if resources.HasField("pids") else {}
        elif part.HasField(field):
            found[name] = held.value if isinstance(held.value, str) else int(held.value)
    for limit in resources.hugepage_limits:
        found[f"{HUGE_PAGES}{limit.page_size}{_LIMIT}"] = limit.limit
    for file, text in resources.unified.items():
        name = knob_of_file(file)
        place = unified_place(name)
        try:
            value = None if place is None else place.codec.decode(text)
        except ValueError:
            value = None
        found |= {name: value} if isinstance(value, int) else {f"{UNIFIED}{file}": text}
    return found


def _host_network(namespaces: Iterable[m.LinuxNamespace]) -> bool:
    """Whether a pod has the node's network: it has namespaces, and none of that."""
    kinds = {each.type for each in namespaces}
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
        if value == "" or not sayable(name, on_v2):  # a clear of CPUs has no word
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
    above, _, field = path.rpartition(".")
    part: Any = attrgetter(above)(resources) if above else resources
    held = getattr(part, field)
    if isinstance(held, (str, int)):
        setattr(part, field, value)
    else:
        held.value = type(held.value)(value)
