"""Pins as messages of NRI, and a runtime's resources as requests. Pure.

One job: the way between `nri.placement.containers` and answers. Next: `plugin`, which gives them.
"""

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

__all__ = ["adjustment_of", "differing", "free_of", "freed", "requests_after", "updates_of"]

_NONE = Pins()


def adjustment_of(pins: Pins, scheduling: SchedulingClass | None = None) -> nri.Adjustment:
    """The adjustment of a container that is created."""
    made = nri.Adjustment()
    if pins.cpus or pins.mems or pins.shares:
        _pin(made.message.linux.resources.cpu, pins)
    if scheduling is not None:
        _schedule(made, scheduling)
    return made


def _schedule(made: nri.Adjustment, kind: SchedulingClass) -> None:
    if kind.schedules:
        made.set_scheduler(
            (kind.policy or "other").upper(),
            nice=kind.nice or 0,
            priority=kind.priority or 0,
            flags=[flag.upper().replace("-", "_") for flag in kind.flags],
            runtime_ns=1000 * (kind.runtime or 0),
            deadline_ns=1000 * (kind.deadline or 0),
            period_ns=1000 * (kind.period or 0),
        )
    if kind.ioClass:
        made.set_io_priority(kind.ioClass.upper(), kind.ioPriority or 0)


def updates_of(changes: Mapping[str, Pins], heard: bool = False) -> list[nri.Update]:
    """Updates of containers that run; one that has just ended is no reason to fail what they come with.

    They may be hundreds. With `heard` the runtime is to say which of them fail.
    """
    made = []
    for name, pins in changes.items():
        if pins.cpus or pins.mems or pins.shares:
            update = nri.Update(name)
            update.message.ignore_failure = not heard
            _pin(update.message.linux.resources.cpu, pins)
            made.append(update)
    return made


def _pin(cpu: LinuxCPU, pins: Pins) -> None:
    """Write pins into a message. They are a policy's, so that no setter has to check them."""
    cpu.cpus, cpu.mems = pins.cpus or "", pins.mems or ""
    if pins.shares:
        cpu.shares.value = pins.shares


def differing(pins: Pins, container: nri.Container, asked: LinuxCPU | None = None) -> Pins:
    """Those pins that a container does not have, by what the runtime reports and by what is asked for."""
    cpu = container.linux.resources.cpu
    cpus, mems, shares = cpu.cpus, cpu.mems, cpu.shares.value
    if asked is not None:
        cpus, mems, shares = asked.cpus or cpus, asked.mems or mems, asked.shares.value or shares
    return Pins(
        pins.cpus if pins.cpus and _differ(pins.cpus, cpus) else None,
        pins.mems if pins.mems and _differ(pins.mems, mems) else None,
        pins.shares if pins.shares and pins.shares != shares else None,
    )


def free_of(policy: Policy, names: Iterable[str] | None = None) -> dict[str, str]:
    """The containers of a policy whose CPUs, memory nodes or both it leaves as they are, as the state has them.

    With `names` no others.
    """
    made, pins = {}, policy.pins
    for name in policy.containers if names is None else [each for each in names if each in policy.containers]:
        cpus, mems, _ = pins.get(name, _NONE)
        if not (cpus and mems):
            made[name] = "mems" if cpus else "cpus" if mems else "cpus mems"
    return made


def freed(policy: Policy, containers: Iterable[Container], free: Mapping[str, str]) -> dict[str, Pins]:
    """The pins of containers that were placed before, those that are pinned no more to all that there is, or was given.

    Else they would go on with CPUs that others get for themselves. `free` is what was left as it was before.
    """
    cpus, nodes = masks.text(policy.machine.online), policy.machine.topology.nodes
    mems = masks.text(masks.of(number for number, node in nodes.items() if node.memory_bytes))
    made = {}
    for each in containers:
        pins, before = policy.pins.get(each.id, _NONE), free.get(each.id, "")
        if not pins.cpus and "cpus" not in before:
            pins = Pins(cpus, pins.mems, pins.shares or each.shares)
        if not pins.mems and "mems" not in before:
            pins = pins._replace(mems=each.mems or mems)
        made[each.id] = pins
    return made


def _differ(wanted: str, found: str) -> bool:
    try:
        return wanted != found and cpuset.parse(wanted) != cpuset.parse(found)
    except ValueError:
        return True


def requests_after(
    container: Container, told: nri.Container, resources: nri.LinuxResources, node_bytes: int
) -> Requests:
    """The requests of a container that gets other resources; what these do not say stays as it is."""
    before, cpu = container.requests if container.asked is None else container.asked, resources.cpu
    shares, limit = cpu.shares.value, resources.memory.limit.value
    found = estimated(
        container.qos,
        shares,
        cpu.quota.value,
        cpu.period.value or CPU_PERIOD_US,
        limit or before.memory_limit_bytes,
        told.linux.oom_score_adj.value,
        node_bytes,
    )
    limited = cpu.HasField("quota") or (shares and container.qos == "Guaranteed")
    return Requests(
        found.cpu_m if shares else before.cpu_m,
        found.cpu_limit_m if limited else before.cpu_limit_m,
        found.memory_bytes if limit else before.memory_bytes,
        limit or before.memory_limit_bytes,
    )
