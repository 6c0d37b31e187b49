"""Changes in NRI's words, and what a runtime says of a container: whether it has them.

Rules: pure. A value that no runtime could take, such as CPUs that are no list, is left out with its reason, so that it
costs the container nothing else. Next: `nri.agent.transports.clears`, for what NRI has no word for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from nri.agent.transports.asked import note
from nri.agent.writing.cpus import cpus
from nri.api import cpuset
from nri.api import messages as m
from nri.host import Outcome, Result
from nri.policies.koordinator.contexts import Resources
from nri.policies.koordinator.convert import messages
from nri.policies.koordinator.values import NO_CHANGES, Changes
from nri.policies.koordinator.writes import KNOBS
from nri.text import cut, plain

__all__ = ["adjustment", "compared", "confirmed", "sayable", "updatable", "update"]

#: What an update can say, by the attribute of `Changes`.
_UPDATABLE: Final = ("cpu_shares", "cfs_quota", "cpuset", "memory_limit")


def sayable(changes: Changes, target: str) -> tuple[Changes, list[Result]]:
    """Return changes without what no runtime could take, and one result for each that was left out."""
    text = changes.cpuset
    if not text:
        return changes, []
    found, reason = cpus(text)
    if found:
        return changes, []
    refused = Result(target, KNOBS["cpuset"], cut(text, 80), Outcome.REFUSED, reason or "it names no CPU")
    return replace(changes, cpuset=None), [refused]


def adjustment(changes: Changes, asked: Resources | None) -> m.ContainerAdjustment:
    """Return changes as an adjustment of a container for which these resources were asked."""
    message = messages.adjustment(changes)
    note(message, changes, asked)
    return message


def updatable(changes: Changes) -> Changes:
    """Return the part of changes that an update can say."""
    values: dict[str, Any] = {name: getattr(changes, name) for name in _UPDATABLE}
    return replace(NO_CHANGES, **values)


def update(changes: Changes, container: str, container_message: m.Container | None = None) -> m.ContainerUpdate | None:
    """Return changes as an update of a container; None if there is nothing to say.

    Args:
        changes: what is to be set.
        container: the container's id.
        container_message: the container as the runtime has it, if what it has already may be left out.
    """
    if container_message is not None:
        found = _reported(container_message)
        has: dict[str, Any] = {name: None for name in _UPDATABLE if _same(name, getattr(changes, name), found[name])}
        changes = replace(changes, **has)
    return messages.update(changes, container)


def compared(container: m.Container, changes: Changes, target: str) -> list[Result]:
    """Return what came of changes, by what the runtime says of the container; nothing of what it does not say."""
    results = []
    found = _reported(container)
    for name in _UPDATABLE:
        wanted, has = getattr(changes, name), found[name]
        if wanted not in (None, "") and has is not None:
            results.append(_result(target, KNOBS[name], wanted, has, _same(name, wanted, has)))
    for what, wanted, has in _others(container, changes):
        results.append(_result(target, what, wanted, has, wanted == has))
    return results


def confirmed(container: m.Container, changes: Changes) -> bool:
    """Whether the runtime says of a container that it has all that a write could bring about as well."""
    score = changes.oom_score_adj
    return update(updatable(changes), container.id, container) is None and (
        score is None or container.linux.oom_score_adj.value == score
    )


def _others(container: m.Container, changes: Changes) -> Iterator[tuple[str, Any, Any]]:
    """Yield the values that are no resources: name, wanted, and what the runtime says."""
    env = dict(entry.partition("=")[::2] for entry in container.env)
    yield from ((f"env.{name}", value, env.get(name)) for name, value in changes.env.items())
    mounts = {each.destination: each.source for each in container.mounts}
    yield from ((f"mount.{each.destination}", each.source, mounts.get(each.destination)) for each in changes.mounts)
    devices = {each.path: (each.major, each.minor) for each in container.linux.devices}
    yield from ((f"device.{each.path}", (each.major, each.minor), devices.get(each.path)) for each in changes.devices)
    if changes.oom_score_adj is not None and container.linux.HasField("oom_score_adj"):
        yield "oom_score_adj", changes.oom_score_adj, container.linux.oom_score_adj.value
    if changes.resctrl is not None and container.linux.resources.HasField("rdt_class"):
        yield "rdt_class", changes.resctrl.group, container.linux.resources.rdt_class.value


def _reported(container: m.Container) -> dict[str, Any]:
    """The resources that the runtime says a container has, None where it says nothing."""
    resources = container.linux.resources
    cpu, memory = resources.cpu, resources.memory
    return {
        "cpu_shares": cpu.shares.value if cpu.HasField("shares") else None,
        "cfs_quota": cpu.quota.value if cpu.HasField("quota") else None,
        "cpuset": cpu.cpus or None,
        "memory_limit": memory.limit.value if memory.HasField("limit") else None,
    }


def _same(name: str, wanted: Any, has: Any) -> bool:
    if wanted is None or has is None:
        return False
    if name != "cpuset":
        return bool(wanted == has)
    try:
        return cpuset.parse(wanted) == cpuset.parse(has)
    except ValueError:
        return False


def _result(target: str, name: str, wanted: Any, has: Any, same: bool) -> Result:
    if same:
        return Result(target, name, wanted, Outcome.APPLIED, after=has)
    reason = f"the runtime has {plain(cut(str(has), 80))}" if has is not None else "the runtime does not have it"
    return Result(target, name, wanted, Outcome.CLAMPED, reason, after=has)
