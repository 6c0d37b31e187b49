"""Read and change the machine through a root path: cgroups, processes, topology, pressure, cache shares.

All paths are below a :class:`Root`, which is a folder in a test. A knob is a setting of a cgroup, with one neutral name
and one unit on every kernel (:data:`KNOBS`). Each write returns a :class:`Result`: applied, unchanged, clamped,
unsupported, refused or gone, with the reason.
"""

from nri.host.cgroups import (
    KNOBS,
    Driver,
    Hierarchies,
    Knob,
    KubeQos,
    SystemdUnits,
    Write,
    Writer,
    detect,
    knob,
    parse,
    pod_path,
    probe,
    qos_path,
    survey,
)
from nri.host.core_sched import CoreScheduler
from nri.host.net_class import ClassId
from nri.host.outcome import Outcome, Result, Unsupported
from nri.host.pressure import Pressure, cgroup_pressure, machine_pressure
from nri.host.process import Process, set_oom_scores
from nri.host.resctrl import Resctrl
from nri.host.root import Root
from nri.host.switches import read_switch, set_features, set_switch
from nri.host.topology import Topology, read_topology
from nri.host.usage import cgroup_usage, cpu_times

__all__ = [
    "KNOBS",
    "ClassId",
    "CoreScheduler",
    "Driver",
    "Hierarchies",
    "Knob",
    "KubeQos",
    "Outcome",
    "Pressure",
    "Process",
    "Resctrl",
    "Result",
    "Root",
    "SystemdUnits",
    "Topology",
    "Unsupported",
    "Write",
    "Writer",
    "cgroup_pressure",
    "cgroup_usage",
    "cpu_times",
    "detect",
    "knob",
    "machine_pressure",
    "parse",
    "pod_path",
    "probe",
    "qos_path",
    "read_switch",
    "read_topology",
    "set_features",
    "set_oom_scores",
    "set_switch",
    "survey",
]


def __dir__() -> list[str]:
    return __all__
