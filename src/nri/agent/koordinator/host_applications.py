"""The host applications that NodeSLO lists, by name. Next: `nri.agent.koordinator.host_application`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nri.agent.koordinator.names import BE, LS, LSE, LSR, SYSTEM
from nri.policies.shapes import Items, Record, Word, fit

__all__ = ["SPEC", "by_name"]

_BASE = Word(("CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort"))
_PLACE = Record({"base": _BASE, "parentDir": str, "relativePath": str})
_QOS = Word((LSE, LSR, LS, BE, SYSTEM))
SPEC = Items(Record({"name": str, "priority": str, "qos": _QOS, "cgroupPath": _PLACE, "strategy": Record({})}))


def by_name(applications: Iterable[Any] | None) -> dict[str, dict[str, Any]]:
    """Read `spec.hostApplications`; of two of one name the last one counts. Raises ValueError."""
    listed = fit(list(applications or ()), SPEC, "hostApplications")
    return {each.get("name", ""): each for each in listed}
