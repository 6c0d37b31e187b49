"""Host applications: group identity and CPUs for the programs of the host that NodeSLO lists, in one decision.

They are no containers, so no runtime asks about them: a timer and a change of NodeSLO do. One that cannot be decided
changes nothing for the others. Next: `nri.policies.koordinator.profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nri.policies.changes import Decision, HookError
from nri.policies.contexts import HostApplicationContext
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED, SYSTEMD, joined, kube_class_path
from nri.policies.writes import Write, writes

__all__ = ["context_of", "decide", "host_application_path"]

#: Folders of host applications that do not say where they are, by class.
_HOST_FOLDERS = {"LSE": "host-latency-sensitive", "LSR": "host-latency-sensitive", "LS": "host-latency-sensitive"}
_HOST_FOLDERS["BE"] = "host-best-effort"
_HOST_BASES = {"Kubepods": GUARANTEED, "KubepodsBurstable": BURSTABLE, "KubepodsBesteffort": BEST_EFFORT}

_Hook = Callable[[HostApplicationContext], Decision]


def context_of(application: Mapping[str, Any], driver: str = SYSTEMD) -> HostApplicationContext:
    """Return the context of an application of NodeSLO."""
    path = host_application_path(dict(application), driver)
    return HostApplicationContext(application.get("name", ""), application.get("qos", ""), path)


def decide(
    applications: Iterable[Mapping[str, Any]], hooks: Iterable[_Hook], driver: str = SYSTEMD
) -> tuple[list[Write], list[HookError]]:
    """Run every hook for every application; return what is to be written, and what could not be decided."""
    listed = list(hooks)
    found: list[Write] = []
    errors: list[HookError] = []
    for application in applications:
        context = context_of(application, driver)
        for hook in listed:
            try:
                decision = hook(context)
            except HookError as error:
                errors.append(error)
                continue
            found.extend(writes(context.cgroup_parent, decision.changes, decision.reason))
    return found, errors


def host_application_path(application: dict[str, Any] | None, driver: str = SYSTEMD) -> str:
    """The folder of a host application of NodeSLO."""
    if application is None:
        return ""
    place = application.get("cgroupPath")
    if place is None:
        return joined(_HOST_FOLDERS.get(application.get("qos", ""), ""), application.get("name", ""))
    base = _HOST_BASES.get(place.get("base", ""))
    return joined(
        kube_class_path(base, driver) if base else "", place.get("parentDir", ""), place.get("relativePath", "")
    )
