"""Convert changes to NRI messages, and compare changes with a runtime's view of a container.

A value that no runtime accepts, for example a malformed CPU list, is left out with its reason. A scaled CPU quota must
not be scaled again by an agent that starts later. The kubelet's quota is therefore read from the API's pods, or from an
annotation that the container got when the quota was scaled; without either, no quota is decided.
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

#: Knobs with a list of CPUs or memory nodes as value.
_SETS: Final = (CPUS, "cpuset.mems")
#: Values that only a runtime can set.
_BY_RUNTIME: Final = AT_CREATION - {OOM_SCORE}

#: Returns whether this machine has cgroup v2 with a knob or a file (`unified.FILE`).
OnV2 = Callable[[str], bool]


def valid_changes(changes: Changes, target: str) -> tuple[Changes, list[Result]]:
    """Return changes without values that no runtime accepts, and a result for each left-out value."""
    refused = {name: reason for name, value in changes.knobs.items() if (reason := _complaint(name, value))}
    if not refused:
        return changes, []
    return changes.without(refused), [
        Result(target, name, cut(str(changes.knobs[name]), 80), Outcome.REFUSED, reason)
        for name, reason in refused.items()
    ]


def _complaint(name: str, value: Setting) -> str:
    """Return the reason why no runtime accepts a value, or "" for a valid value."""
    if name in _SETS and isinstance(value, str):
        cpu_set, reason = cpus(value)
        return "" if cpu_set or not value else reason or "the list has no CPU"
    return KNOBS[name].complaint(value) if name in KNOBS and isinstance(value, int) else ""


def adjustment(changes: Changes, requested: Resources | None, on_v2: OnV2) -> m.ContainerAdjustment:
    """Return changes as an adjustment of a container for which the kubelet requested these resources."""
    message = messages.adjustment(changes, on_v2)
    _add_quota_annotation(message, changes, requested)
    return message


def _add_quota_annotation(message: m.ContainerAdjustment, changes: Changes, requested: Resources | None) -> None:
    """Add an annotation with the requested quota, if the adjustment sets another quota."""
    quota = requested.cfs_quota if requested is not None else None
    if quota is not None and quota > 0 and (scaled := changes.number(QUOTA)) not in (None, quota, -1):
        message.annotations[ASKED_QUOTA] = f"{quota} {scaled}"


def requested_resources(pod: m.PodSandbox, container: m.Container, resources: Resources | None) -> Resources | None:
    """Return the requested resources of a running container. A quota that may be scaled counts as unknown.

    The annotation is trusted only if it names the current quota as the scaled quota, and the pod does not have the
    annotation as well: some runtimes copy the annotations of pods, which users write.
    """
    if resources is None or not resources.cfs_quota or resources.cfs_quota < 0:
        return resources
    requested, _, scaled = container.annotations.get(ASKED_QUOTA, "").partition(" ")
    numbers = all(len(number) < 19 and number.isascii() and number.isdecimal() for number in (requested, scaled))
    trusted = numbers and ASKED_QUOTA not in pod.annotations and int(scaled) == resources.cfs_quota
    return replace(resources, cfs_quota=int(requested) if trusted else None)


def requests_from_api(pods: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Resources]:
    """Return the requests of API pods by the pod's uid and the container's name."""
    resources_by_container = {}
    for pod in pods:
        uid = (pod.get("metadata") or {}).get("uid", "")
        for container in (pod.get("spec") or {}).get("containers") or ():
            try:
                resources_by_container[(uid, container.get("name", ""))] = manifest.container_resources(container)
            except (ValueError, TypeError, AttributeError):  # an unchecked manifest
                continue
    return resources_by_container


def updatable(changes: Changes, on_v2: OnV2) -> Changes:
    """Return the changes that an update can express."""
    return changes.only(
        [name for name in changes.knobs if name not in AT_CREATION and messages.is_expressible(name, on_v2)]
    )


def written_changes(changes: Changes, on_v2: OnV2) -> Changes:
    """Return the changes that only a write can express, without a clear of CPUs."""
    by_update = updatable(changes, on_v2).knobs
    return changes.only([name for name in changes.knobs if name not in by_update and name not in _BY_RUNTIME])


def update(
    changes: Changes, container: str, on_v2: OnV2, container_message: m.Container | None = None
) -> m.ContainerUpdate | None:
    """Return changes as an update of a container, or None if the update would be empty.

    Args:
        changes: the changes.
        container: the id of the container.
        on_v2: as for `messages.is_expressible`.
        container_message: the runtime's view; values that are already in force are left out.
    """
    if container_message is not None:
        current = messages.reported(container_message.linux.resources)
        changes = changes.without(
            {name for name, value in changes.knobs.items() if same(name, value, current.get(name))}
        )
    return messages.update(changes, container, on_v2)


def comparison_results(container: m.Container, changes: Changes, target: str) -> list[Result]:
    """Return the results of changes according to the runtime's view. Unreported values have no result."""
    results = []
    current = messages.reported(container.linux.resources)
    for name, value in changes.knobs.items():
        has = current.get(name)
        if value != "" and has is not None:
            results.append(_result(target, name, value, has, same(name, value, has)))
    for what, value, has in _other_fields(container, changes):
        results.append(_result(target, what, value, has, value == has))
    return results


def confirmed(container: m.Container, changes: Changes, on_v2: OnV2) -> bool:
    """Return whether the runtime reports all values that could otherwise be written."""
    score = changes.number(OOM_SCORE)
    return update(changes, container.id, on_v2, container) is None and (
        not written_changes(changes, on_v2).without((OOM_SCORE,))
        and (score is None or container.linux.oom_score_adj.value == score)
    )


def _other_fields(container: m.Container, changes: Changes) -> Iterator[tuple[str, Any, Any]]:
    """Yield values that are not resources: the name, the decided value, and the runtime's value."""
    env = dict(entry.partition("=")[::2] for entry in container.env)
    yield from ((f"env.{name}", value, env.get(name)) for name, value in changes.env.items())
    mounts = {mount.destination: mount.source for mount in container.mounts}
    yield from ((f"mount.{mount.destination}", mount.source, mounts.get(mount.destination)) for mount in changes.mounts)
    devices = {device.path: (device.major, device.minor) for device in container.linux.devices}
    yield from (
        (f"device.{device.path}", (device.major, device.minor), devices.get(device.path)) for device in changes.devices
    )
    if (score := changes.number(OOM_SCORE)) is not None and container.linux.HasField("oom_score_adj"):
        yield OOM_SCORE, score, container.linux.oom_score_adj.value
    if changes.resctrl is not None and container.linux.resources.HasField("rdt_class"):
        yield "rdt_class", changes.resctrl.group, container.linux.resources.rdt_class.value


def same(name: str, value: Setting, has: Setting | None) -> bool:
    """Return whether a runtime's value of a knob equals a decided value. `has` is None for an unreported value."""
    if has is None:
        return False
    if name not in _SETS or not (isinstance(value, str) and isinstance(has, str)):
        return value == has
    try:
        return cpuset.parse(value) == cpuset.parse(has)
    except ValueError:
        return False


def _result(target: str, name: str, value: Any, has: Any, same: bool) -> Result:
    if same:
        return Result(target, name, value, Outcome.APPLIED, after=has)
    reason = f"the runtime has {plain(cut(str(has), 80))}" if has is not None else "the runtime lacks this value"
    return Result(target, name, value, Outcome.CLAMPED, reason, after=has)
