"""Changes in NRI's words, and what a runtime says of a container: whether it has them.

Rules: pure. A value that no runtime could take, such as CPUs that are no list, is left out with its reason, so that it
costs the container nothing else. A CPU quota that was scaled must not be scaled again by an agent that starts later:
the kubelet's is asked of the API, if its pods are known; else it is read from an annotation that the container was
given when its quota was scaled; nothing is decided by one that is known by neither. Next:
`nri.agent.transports.clear_cpus`, for what NRI has no word for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from nri.agent.model import AT_CREATION, CPUS, OOM_SCORE, QUOTA, Changes, Resources, Setting
from nri.agent.pods import manifest
from nri.agent.pods.verbose_info import ASKED_QUOTA
from nri.agent.transports import messages
from nri.agent.writing.cpus import cpus
from nri.api import cpuset
from nri.api import messages as m
from nri.host import KNOBS, Outcome, Result
from nri.text import cut, plain

__all__ = [
    "adjustment",
    "asked_before",
    "beside",
    "by_api",
    "compared",
    "confirmed",
    "same",
    "sayable",
    "updatable",
    "update",
]

#: Knobs whose values are lists of numbers.
_SETS: Final = (CPUS, "cpuset.mems")
#: Values that only a runtime sets, and no write.
_BY_RUNTIME: Final = AT_CREATION - {OOM_SCORE}

#: Whether this machine has a knob, or a file named as `unified.FILE`, on cgroup v2.
OnV2 = Callable[[str], bool]


def sayable(changes: Changes, target: str) -> tuple[Changes, list[Result]]:
    """Return changes without what no runtime could take, and one result for each that was left out."""
    refused = {name: reason for name, value in changes.knobs.items() if (reason := _complaint(name, value))}
    if not refused:
        return changes, []
    return changes.without(refused), [
        Result(target, name, cut(str(changes.knobs[name]), 80), Outcome.REFUSED, reason)
        for name, reason in refused.items()
    ]


def _complaint(name: str, value: Setting) -> str:
    """The reason why no runtime could take a value; "" if one could."""
    if name in _SETS and isinstance(value, str):
        found, reason = cpus(value)
        return "" if found or not value else reason or "it names no CPU"
    return KNOBS[name].complaint(value) if name in KNOBS and isinstance(value, int) else ""


def adjustment(changes: Changes, asked: Resources | None, on_v2: OnV2) -> m.ContainerAdjustment:
    """Return changes as an adjustment of a container for which these resources were asked."""
    message = messages.adjustment(changes, on_v2)
    _note(message, changes, asked)
    return message


def _note(message: m.ContainerAdjustment, changes: Changes, asked: Resources | None) -> None:
    """Note in an adjustment which quota was asked for, if it gives the container another one."""
    quota = asked.cfs_quota if asked is not None else None
    if quota is not None and quota > 0 and (made := changes.number(QUOTA)) not in (None, quota, -1):
        message.annotations[ASKED_QUOTA] = f"{quota} {made}"


def asked_before(pod: m.PodSandbox, container: m.Container, resources: Resources | None) -> Resources | None:
    """Return what was asked for a container that runs already; a quota that may have been scaled is not known.

    The annotation counts only if the quota is the one that was made then, and only if the pod has not
    got it as well: some runtimes hand annotations of pods on, and those are written by users.
    """
    if resources is None or not resources.cfs_quota or resources.cfs_quota < 0:
        return resources
    asked, _, made = container.annotations.get(ASKED_QUOTA, "").partition(" ")
    numbers = all(len(each) < 19 and each.isascii() and each.isdecimal() for each in (asked, made))
    trusted = numbers and ASKED_QUOTA not in pod.annotations and int(made) == resources.cfs_quota
    return replace(resources, cfs_quota=int(asked) if trusted else None)


def by_api(pods: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Resources]:
    """Return what pods of the API ask for each container, by the pod's uid and the container's name."""
    found = {}
    for pod in pods:
        uid = (pod.get("metadata") or {}).get("uid", "")
        for each in (pod.get("spec") or {}).get("containers") or ():
            try:
                found[(uid, each.get("name", ""))] = manifest.container_resources(each)
            except (ValueError, TypeError, AttributeError):  # a manifest that nobody has checked
                continue
    return found


def updatable(changes: Changes, on_v2: OnV2) -> Changes:
    """Return the part of changes that an update can say."""
    return changes.only([name for name in changes.knobs if name not in AT_CREATION and messages.sayable(name, on_v2)])


def beside(changes: Changes, on_v2: OnV2) -> Changes:
    """Return the knobs that no update can say, and that a write can bring about; without a clear of CPUs."""
    by_update = updatable(changes, on_v2).knobs
    return changes.only([name for name in changes.knobs if name not in by_update and name not in _BY_RUNTIME])


def update(
    changes: Changes, container: str, on_v2: OnV2, container_message: m.Container | None = None
) -> m.ContainerUpdate | None:
    """Return changes as an update of a container; None if there is nothing to say.

    Args:
        changes: what is to be set.
        container: the container's id.
        on_v2: whether this machine has a knob on cgroup v2.
        container_message: the container as the runtime has it, if what it has already may be left out.
    """
    if container_message is not None:
        found = messages.reported(container_message.linux.resources)
        changes = changes.without({name for name, value in changes.knobs.items() if same(name, value, found.get(name))})
    return messages.update(changes, container, on_v2)


def compared(container: m.Container, changes: Changes, target: str) -> list[Result]:
    """Return what came of changes, by what the runtime says of the container; nothing of what it does not say."""
    results = []
    found = messages.reported(container.linux.resources)
    for name, wanted in changes.knobs.items():
        has = found.get(name)
        if wanted != "" and has is not None:
            results.append(_result(target, name, wanted, has, same(name, wanted, has)))
    for what, wanted, has in _others(container, changes):
        results.append(_result(target, what, wanted, has, wanted == has))
    return results


def confirmed(container: m.Container, changes: Changes, on_v2: OnV2) -> bool:
    """Whether the runtime says of a container that it has all that a write could bring about as well."""
    score = changes.number(OOM_SCORE)
    return update(changes, container.id, on_v2, container) is None and (
        not beside(changes, on_v2).without((OOM_SCORE,))
        and (score is None or container.linux.oom_score_adj.value == score)
    )


def _others(container: m.Container, changes: Changes) -> Iterator[tuple[str, Any, Any]]:
    """Yield the values that are no resources: name, wanted, and what the runtime says."""
    env = dict(entry.partition("=")[::2] for entry in container.env)
    yield from ((f"env.{name}", value, env.get(name)) for name, value in changes.env.items())
    mounts = {each.destination: each.source for each in container.mounts}
    yield from ((f"mount.{each.destination}", each.source, mounts.get(each.destination)) for each in changes.mounts)
    devices = {each.path: (each.major, each.minor) for each in container.linux.devices}
    yield from ((f"device.{each.path}", (each.major, each.minor), devices.get(each.path)) for each in changes.devices)
    if (score := changes.number(OOM_SCORE)) is not None and container.linux.HasField("oom_score_adj"):
        yield OOM_SCORE, score, container.linux.oom_score_adj.value
    if changes.resctrl is not None and container.linux.resources.HasField("rdt_class"):
        yield "rdt_class", changes.resctrl.group, container.linux.resources.rdt_class.value


def same(name: str, wanted: Setting, has: Setting | None) -> bool:
    """Whether a runtime that has this value of a knob has the one that is wanted; None is that it says nothing."""
    if has is None:
        return False
    if name not in _SETS or not (isinstance(wanted, str) and isinstance(has, str)):
        return wanted == has
    try:
        return cpuset.parse(wanted) == cpuset.parse(has)
    except ValueError:
        return False


def _result(target: str, name: str, wanted: Any, has: Any, same: bool) -> Result:
    if same:
        return Result(target, name, wanted, Outcome.APPLIED, after=has)
    reason = f"the runtime has {plain(cut(str(has), 80))}" if has is not None else "the runtime does not have it"
    return Result(target, name, wanted, Outcome.CLAMPED, reason, after=has)
