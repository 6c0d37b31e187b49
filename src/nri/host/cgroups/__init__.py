"""Cgroups of both versions under one table of neutral names, written in an order that the kernel takes.

Reading order: `units` (text of a file to value and back), `knobs` (the table), `hierarchies` (where a controller is),
`support` (what works here, and why not), `batch` (the order), `knob_file` (one write), `writer` (all of them, and what
is remembered), `drivers` (paths of pods and containers).
"""

from nri.host.cgroups.batch import Write
from nri.host.cgroups.drivers import (
    Driver,
    KubeQos,
    Parsed,
    container_path,
    expand,
    expand_slice,
    parse,
    pod_path,
    qos_path,
)
from nri.host.cgroups.hierarchies import Hierarchies, Hierarchy, detect
from nri.host.cgroups.knobs import KNOBS, Knob, knob
from nri.host.cgroups.support import Located, probe, survey
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
    "Located",
    "Parsed",
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
