"""Host applications: group identity and CPUs for the programs of the host that NodeSLO lists, in one decision.

They are no containers, so no runtime asks about them: a timer and a change of NodeSLO do. One that cannot be decided
changes nothing for the others. Next: `nri.policies.koordinator.profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nri.policies.koordinator.contexts import HostApplicationContext
from nri.policies.koordinator.paths import SYSTEMD, host_application_path
from nri.policies.koordinator.values import Decision, HookError
from nri.policies.koordinator.writes import Write, folder_writes

__all__ = ["context_of", "decide"]

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
    writes: list[Write] = []
    errors: list[HookError] = []
    for application in applications:
        context = context_of(application, driver)
        for hook in listed:
            try:
                decision = hook(context)
            except HookError as error:
                errors.append(error)
                continue
            writes.extend(folder_writes(context.cgroup_parent, decision.changes, decision.reason))
    return writes, errors
