"""Cgroups of both versions with neutral names of settings, written in an order that the kernel accepts."""

from nri.host.cgroups.batch import Write
from nri.host.cgroups.drivers import (
    Driver,
    KubeQos,
    ParsedCgroup,
    container_path,
    expand,
    expand_slice,
    parse,
    pod_path,
    qos_path,
)
from nri.host.cgroups.hierarchies import Hierarchies, Hierarchy, detect
from nri.host.cgroups.knobs import KNOBS, Knob, knob
from nri.host.cgroups.support import LocatedFile, probe, survey
from nri.host.cgroups.systemd import SystemdUnits
from nri.host.cgroups.units import Value
from nri.host.cgroups.writer import Writer

__all__ = [
    "KNOBS",
    "Driver",
    "Hierarchies",
    "Hierarchy",
    "Knob",
    "KubeQos",
    "LocatedFile",
    "ParsedCgroup",
    "SystemdUnits",
    "Value",
    "Write",
    "Writer",
    "container_path",
    "detect",
    "expand",
    "expand_slice",
    "knob",
    "parse",
    "pod_path",
    "probe",
    "qos_path",
    "survey",
]
