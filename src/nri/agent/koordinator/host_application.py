"""Host applications: programs of the host that NodeSLO lists, and their cgroups.

They are not containers, so no runtime reports them. Decisions for them follow a timer and changes of NodeSLO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nri.agent.cgroup_paths import BEST_EFFORT, BURSTABLE, GUARANTEED, SYSTEMD, joined, kube_class_path
from nri.agent.koordinator.names import BE, LS, LSE, LSR, SYSTEM
from nri.agent.model import HostApplication
from nri.kube.shapes import Items, Record, Word, fit

#: The default cgroups of host applications, by QoS class.
_HOST_FOLDERS = {"LSE": "host-latency-sensitive", "LSR": "host-latency-sensitive", "LS": "host-latency-sensitive"}
_HOST_FOLDERS["BE"] = "host-best-effort"
_HOST_BASES = {"Kubepods": GUARANTEED, "KubepodsBurstable": BURSTABLE, "KubepodsBesteffort": BEST_EFFORT}
_BASE = Word(("CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort"))
_PLACE = Record({"base": _BASE, "parentDir": str, "relativePath": str})
_QOS = Word((LSE, LSR, LS, BE, SYSTEM))
SPEC = Items(Record({"name": str, "priority": str, "qos": _QOS, "cgroupPath": _PLACE, "strategy": Record({})}))


def by_name(applications: Iterable[Any] | None) -> dict[str, dict[str, Any]]:
    """Read `spec.hostApplications` by name. Of duplicates, the last is used. Raises ValueError for a malformed list."""
    listed = fit(list(applications or ()), SPEC, "hostApplications")
    return {application.get("name", ""): application for application in listed}


def context_of(application: Mapping[str, Any], driver: str = SYSTEMD) -> HostApplication:
    """Return the host application of an entry in NodeSLO."""
    path = host_application_path(dict(application), driver)
    return HostApplication(application.get("name", ""), application.get("qos", ""), path)


def host_application_path(application: dict[str, Any] | None, driver: str = SYSTEMD) -> str:
    """Return the cgroup of a host application, or "" if there is no application."""
    if application is None:
        return ""
    place = application.get("cgroupPath")
    if place is None:
        return joined(_HOST_FOLDERS.get(application.get("qos", ""), ""), application.get("name", ""))
    base = _HOST_BASES.get(place.get("base", ""))
    return joined(
        kube_class_path(base, driver) if base else "", place.get("parentDir", ""), place.get("relativePath", "")
    )
