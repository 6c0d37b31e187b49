"""The abilities of this machine: each knob and feature, the hooks that need it, and where one is not there, why.

Rules: reads only, and never fails: what cannot be found out is not supported, and says so. The rows are for people,
`nri agent capabilities` and the agent's own socket; nothing decides by them, for each write is tried and told. Next:
`nri.service.http`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from nri import host
from nri.agent.profile import Profile
from nri.agent.settings.values import TerwaySettings
from nri.host import switches
from nri.host.cgroups.drivers import driver_in_use
from nri.host.perf import Event, probe_events

__all__ = ["Capability", "capabilities"]


class Capability(NamedTuple):
    """One row.

    Attributes:
        what: the knob's neutral name, or the feature.
        supported: whether it works here.
        found: the file that it is, or what was found.
        reason: why it does not work; empty if it does.
        instead: what does the same on this kernel; empty if nothing does, or nothing is needed.
        needed_by: the hooks and strategies of the profile that set it.
    """

    what: str
    supported: bool
    found: str
    reason: str
    instead: str
    needed_by: tuple[str, ...]


_Found = host.Unsupported | str


def capabilities(root: host.Root, profile: Profile) -> list[Capability]:
    """All rows: features first, then knobs, those that the profile sets before others."""
    strategies = [row.name for row in profile.strategies]
    rows = [
        _feature(
            root, what, probe, instead, (*profile.owners_of(*names), *(each for each in strategies if each in names))
        )
        for what, probe, instead, names in _FEATURES
    ]
    found = host.survey(host.detect(root))
    knobs = [_knob(name, each, profile.owners_of(name)) for name, each in found.items()]
    return rows + sorted(knobs, key=lambda row: not row.needed_by)


def _knob(name: str, found: object, needed: tuple[str, ...]) -> Capability:
    row = host.knob(name)
    if isinstance(found, host.Unsupported):
        reason = found.reason.removesuffix(f"; use {row.instead}").removesuffix(f": use {row.instead}")
        return Capability(name, False, "", reason, row.instead, needed)
    return Capability(name, True, str(getattr(found, "path", "")), "", "", needed)


def _cgroups(root: host.Root) -> _Found:
    mode = host.detect(root).mode
    return host.Unsupported("no cgroup hierarchy is mounted") if mode == "none" else mode


def _driver(root: host.Root) -> _Found:
    found = driver_in_use(host.detect(root))
    if found is None:
        return host.Unsupported("no pod was ever made here: there is neither kubepods nor kubepods.slice")
    return found.value


def _pressure(root: host.Root) -> _Found:
    found = host.machine_pressure(root, "cpu")
    return found if isinstance(found, host.Unsupported) else "/proc/pressure"


def _cache(root: host.Root) -> _Found:
    found = host.Resctrl(root).capabilities()
    if isinstance(found, host.Unsupported):
        return found
    return ", ".join(found.caches) or host.Unsupported("the processor shares memory bandwidth, and no cache")


def _bandwidth(root: host.Root) -> _Found:
    found = host.Resctrl(root).capabilities()
    if isinstance(found, host.Unsupported):
        return found
    return "MB" if found.bandwidth else host.Unsupported("the processor shares a cache, and no memory bandwidth")


def _cycles(_: host.Root) -> _Found:
    return probe_events((Event.CYCLES, Event.INSTRUCTIONS)) or "perf_event_open"


def _misses(_: host.Root) -> _Found:
    events = (Event.MISSES, Event.REFERENCES, Event.LAST_LEVEL_MISSES, Event.LAST_LEVEL_READS)
    return probe_events(events) or "perf_event_open"


def _network(root: host.Root) -> _Found:
    path = "/proc/qos/net_qos_enable"
    return path if root.exists(path) else host.Unsupported("only kernels of openEuler with the module oncn-bwm have it")


def _core_scheduling(_: host.Root) -> _Found:
    return host.CoreScheduler().probe() or "prctl"


def _identity(root: host.Root) -> _Found:
    name = "kernel.sched_group_identity_enabled"
    found = host.read_switch(root, name)
    return found if isinstance(found, host.Unsupported) else f"{switches.SWITCHES[name].path} is {found}"


def _programs(root: host.Root) -> _Found:
    folders = ("/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin")
    lacking = [
        name for name in ("tc", "iptables", "ipset") if not any(root.exists(f"{folder}/{name}") for folder in folders)
    ]
    return host.Unsupported(f"not installed: {', '.join(lacking)}") if lacking else "tc, iptables, ipset"


def _rdma(root: host.Root) -> _Found:
    names = root.names("/sys/class/infiniband")
    return ", ".join(names) or host.Unsupported("there is no RDMA device")


def _terway(root: host.Root) -> _Found:
    folder = str(TerwaySettings().folder)
    return folder if root.exists(folder) else host.Unsupported(f"no {folder}: no terway daemon has made it")


_Probe = Callable[[host.Root], _Found]
#: Each feature: what finds it, what does the same where it is missing, and the names of what it sets or who needs it.
_FEATURES: Final[tuple[tuple[str, _Probe, str, tuple[str, ...]], ...]] = (
    ("cgroups", _cgroups, "", ()),
    ("cgroup driver", _driver, "", ()),
    ("pressure (PSI)", _pressure, "", ("psi",)),
    ("counters of cycles", _cycles, "", ("cpi",)),
    ("counters of cache misses", _misses, "dynCache's static shares", ("dynCache",)),
    ("network levels", _network, "", ("preemption",)),
    ("resctrl caches", _cache, "", ("resctrl",)),
    ("resctrl bandwidth", _bandwidth, "", ("resctrl",)),
    ("core scheduling", _core_scheduling, "cpu.idle, or cpu.shares", ("core_sched.cookie",)),
    ("group identity", _identity, "cpu.idle or cpu.shares", ("cpu.bvt",)),
    ("traffic control", _programs, "", ("tc",)),
    ("RDMA devices", _rdma, "", ("devices",)),
    ("terway", _terway, "", ("terway",)),
)


def _feature(root: host.Root, what: str, probe: _Probe, instead: str, needed: tuple[str, ...]) -> Capability:
    try:
        found = probe(root)
    except (OSError, ValueError) as error:
        found = host.Unsupported(str(error))
    if isinstance(found, host.Unsupported):
        return Capability(what, False, "", found.reason, instead, needed)
    return Capability(what, True, found, "", "", needed)
