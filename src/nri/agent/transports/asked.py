"""The kubelet's request for a container, where the runtime only tells what was made of it.

A CPU quota that was scaled must not be scaled again by an agent that starts later. So it is asked of the API, if its
pods are known; else it is read from an annotation that the container was given when its quota was scaled. What is known
by neither is not known, and nothing is decided by it. Pure. Next: `nri.agent.transports.words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nri.agent.pods.described import ASKED_QUOTA
from nri.api import messages as m
from nri.policies.koordinator.contexts import Resources
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.values import Changes

__all__ = ["ASKED_QUOTA", "asked_before", "by_api", "note"]


def note(message: m.ContainerAdjustment, changes: Changes, asked: Resources | None) -> None:
    """Note in an adjustment which quota was asked for, if it gives the container another one."""
    quota = asked.cfs_quota if asked is not None else None
    if quota is not None and quota > 0 and changes.cfs_quota not in (None, quota, -1):
        message.annotations[ASKED_QUOTA] = f"{quota} {changes.cfs_quota}"


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
