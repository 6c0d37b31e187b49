"""The host applications that NodeSLO lists, by name. Next: `nri.policies.koordinator.hooks.host_application`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nri.policies.shapes import Items, Record, fit

__all__ = ["SPEC", "by_name"]

_PLACE = Record({"base": str, "parentDir": str, "relativePath": str})
SPEC = Items(Record({"name": str, "priority": str, "qos": str, "cgroupPath": _PLACE, "strategy": Record({})}))


def by_name(applications: Iterable[Any] | None) -> dict[str, dict[str, Any]]:
    """Read `spec.hostApplications`; of two of one name the last one counts. Raises ValueError."""
    listed = fit(list(applications or ()), SPEC, "hostApplications")
    return {each.get("name", ""): each for each in listed}
