"""Convert pins to NRI messages, and a runtime's resources to requests."""

from __future__ import annotations

import nri
from nri.api import cpuset
from nri.kube.quantity import CPU_PERIOD_US
from nri.kube.requests import Requests, estimated
from nri.placement import masks
from nri.placement.containers import Container, Pins
from nri.placement.scheduling import SchedulingClass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nri.api.messages import LinuxCPU
    from nri.placement.policy import Policy

_NONE = Pins()


def adjustment_of(pins: Pins, scheduling: SchedulingClass | None = None) -> nri.Adjustment:
    """The adjustment that pins a new container."""
    adjustment = nri.Adjustment()
    if pins.cpus or pins.mems or pins.shares:
        _pin(adjustment.message.linux.resources.cpu, pins)
    if scheduling is not None:
        _schedule(adjustment, scheduling)
    return adjustment


def _schedule(adjustment: nri.Adjustment, kind: SchedulingClass) -> None:
    if kind.has_cpu_settings:
        adjustment.set_scheduler(
            (kind.policy or "other").upper(),
            nice=kind.nice or 0,
            priority=kind.priority or 0,
            flags=[flag.upper().replace("-", "_") for flag in kind.flags],
            runtime_ns=1000 * (kind.runtime or 0),
            deadline_ns=1000 * (kind.deadline or 0),
            period_ns=1000 * (kind.period or 0),
        )
    if kind.ioClass:
        adjustment.set_io_priority(kind.ioClass.upper(), kind.ioPriority or 0)


def updates_of(changes: Mapping[str, Pins], report_failures: bool = False) -> list[nri.Update]:
    """Updates of running containers.

    Args:
        report_failures: let the runtime report failed updates. Otherwise the runtime ignores such updates, because a
                container that has just ended must not fail the event.
    """
    updates = []
    for name, pins in changes.items():
        if pins.cpus or pins.mems or pins.shares:
            update = nri.Update(name)
            update.message.ignore_failure = not report_failures
            _pin(update.message.linux.resources.cpu, pins)
            updates.append(update)
    return updates


def _pin(cpu: LinuxCPU, pins: Pins) -> None:
    """Write pins into a message, without the checks of setters because they come from a policy."""
    cpu.cpus, cpu.mems = pins.cpus or "", pins.mems or ""
    if pins.shares:
        cpu.shares.value = pins.shares


def differing(pins: Pins, container: nri.Container, update: LinuxCPU | None = None) -> Pins:
    """The pins that differ from what the runtime reports of a container.

    Args:
        update: resources of an update in progress; they take precedence over the reported resources.
    """
    cpu = container.linux.resources.cpu
    cpus, mems, shares = cpu.cpus, cpu.mems, cpu.shares.value
    if update is not None:
        cpus, mems, shares = update.cpus or cpus, update.mems or mems, update.shares.value or shares
    return Pins(
        pins.cpus if pins.cpus and _differ(pins.cpus, cpus) else None,
        pins.mems if pins.mems and _differ(pins.mems, mems) else None,
        pins.shares if pins.shares and pins.shares != shares else None,
    )


def unpinned_resources(policy: Policy, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the resources that a policy does not pin, by container: "cpus", "mems" or "cpus mems".

    Args:
        names: look only at these containers.
    """
    free, pins = {}, policy.pins
    for name in policy.containers if names is None else [name for name in names if name in policy.containers]:
        cpus, mems, _ = pins.get(name, _NONE)
        if not (cpus and mems):
            free[name] = "mems" if cpus else "cpus" if mems else "cpus mems"
    return free


def unpinned_defaults(policy: Policy, containers: Iterable[Container], free: Mapping[str, str]) -> dict[str, Pins]:
    """The pins of containers after a change of policy.

    A container that is no longer pinned gets all CPUs and its first memory nodes. Otherwise the container would stay on
    CPUs that become exclusive to others.

    Args:
        free: the resources that were not pinned before the change, as `unpinned_resources` returned them.
    """
    cpus, nodes = masks.text(policy.machine.online), policy.machine.topology.nodes
    mems = masks.text(masks.of(number for number, node in nodes.items() if node.memory_bytes))
    result = {}
    for container in containers:
        pins, before = policy.pins.get(container.id, _NONE), free.get(container.id, "")
        if not pins.cpus and "cpus" not in before:
            pins = Pins(cpus, pins.mems, pins.shares or container.shares)
        if not pins.mems and "mems" not in before:
            pins = pins._replace(mems=container.mems or mems)
        result[container.id] = pins
    return result


def _differ(one: str, other: str) -> bool:
    try:
        return one != other and cpuset.parse(one) != cpuset.parse(other)
    except ValueError:
        return True


def requests_after(
    container: Container, message: nri.Container, resources: nri.LinuxResources, node_bytes: int
) -> Requests:
    """The requests of a container after an update; resources that the update does not contain stay the same."""
    before, cpu = container.requests if container.unmet_requests is None else container.unmet_requests, resources.cpu
    shares, limit = cpu.shares.value, resources.memory.limit.value
    estimate = estimated(
        container.qos,
        shares,
        cpu.quota.value,
        cpu.period.value or CPU_PERIOD_US,
        limit or before.memory_limit_bytes,
        message.linux.oom_score_adj.value,
        node_bytes,
    )
    limited = cpu.HasField("quota") or (shares and container.qos == "Guaranteed")
    return Requests(
        estimate.cpu_m if shares else before.cpu_m,
        estimate.cpu_limit_m if limited else before.cpu_limit_m,
        estimate.memory_bytes if limit else before.memory_bytes,
        limit or before.memory_limit_bytes,
    )
