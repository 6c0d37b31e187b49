"""The capabilities of this machine: each knob and feature, the hooks that need it, and the reason if it is unsupported.

The rows are only shown. The agent does not use them for decisions: it tries each write and reports the outcome.
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


class Capability(NamedTuple):
    """A knob or feature of this machine.

    Attributes:
        what: the neutral name of the knob, or the name of the feature.
        supported: whether it works on this machine.
        found: the file or feature that was detected.
        reason: why it does not work; "" if it works.
        instead: the knob or feature that replaces it on this kernel; "" if there is none or it works.
        needed_by: the hooks and strategies of the profile that set it.
    """

    what: str
    supported: bool
    found: str
    reason: str
    instead: str
    needed_by: tuple[str, ...]


_Evidence = host.Unsupported | str


def capabilities(root: host.Root, profile: Profile) -> list[Capability]:
    """Return all rows: features, then the knobs that the profile sets, then other knobs."""
    strategies = [row.name for row in profile.strategies]
    rows = [
        _feature(
            root,
            what,
            probe,
            instead,
            (*profile.owners_of(*names), *(strategy for strategy in strategies if strategy in names)),
        )
        for what, probe, instead, names in _FEATURES
    ]
    survey = host.survey(host.detect(root))
    knobs = [_knob(name, knob_file, profile.owners_of(name)) for name, knob_file in survey.items()]
    return rows + sorted(knobs, key=lambda row: not row.needed_by)


def _knob(name: str, knob_file: object, needed: tuple[str, ...]) -> Capability:
    row = host.knob(name)
    if isinstance(knob_file, host.Unsupported):
        reason = knob_file.reason.removesuffix(f"; use {row.instead}").removesuffix(f": use {row.instead}")
        return Capability(name, False, "", reason, row.instead, needed)
    return Capability(name, True, str(getattr(knob_file, "path", "")), "", "", needed)


def _cgroups(root: host.Root) -> _Evidence:
    mode = host.detect(root).mode
    return host.Unsupported("no cgroup hierarchy is mounted") if mode == "none" else mode


def _driver(root: host.Root) -> _Evidence:
    driver = driver_in_use(host.detect(root))
    if driver is None:
        return host.Unsupported("no pod was ever created here: neither kubepods nor kubepods.slice exists")
    return driver.value


def _pressure(root: host.Root) -> _Evidence:
    pressure = host.machine_pressure(root, "cpu")
    return pressure if isinstance(pressure, host.Unsupported) else "/proc/pressure"


def _cache(root: host.Root) -> _Evidence:
    abilities = host.Resctrl(root).capabilities()
    if isinstance(abilities, host.Unsupported):
        return abilities
    return ", ".join(abilities.caches) or host.Unsupported("the processor can partition memory bandwidth, not a cache")


def _bandwidth(root: host.Root) -> _Evidence:
    abilities = host.Resctrl(root).capabilities()
    if isinstance(abilities, host.Unsupported):
        return abilities
    return "MB" if abilities.bandwidth else host.Unsupported("the processor can partition a cache, but not bandwidth")


def _cycles(_: host.Root) -> _Evidence:
    return probe_events((Event.CYCLES, Event.INSTRUCTIONS)) or "perf_event_open"


def _misses(_: host.Root) -> _Evidence:
    events = (Event.MISSES, Event.REFERENCES, Event.LAST_LEVEL_MISSES, Event.LAST_LEVEL_READS)
    return probe_events(events) or "perf_event_open"


def _network(root: host.Root) -> _Evidence:
    path = "/proc/qos/net_qos_enable"
    return path if root.exists(path) else host.Unsupported("this requires an openEuler kernel with the module oncn-bwm")


def _core_scheduling(_: host.Root) -> _Evidence:
    return host.CoreScheduler().probe() or "prctl"


def _identity(root: host.Root) -> _Evidence:
    name = "kernel.sched_group_identity_enabled"
    switch = host.read_switch(root, name)
    return switch if isinstance(switch, host.Unsupported) else f"{switches.KERNEL_SETTINGS[name].path} is {switch}"


def _programs(root: host.Root) -> _Evidence:
    folders = ("/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin")
    missing = [
        name for name in ("tc", "iptables", "ipset") if not any(root.exists(f"{folder}/{name}") for folder in folders)
    ]
    return host.Unsupported(f"not installed: {', '.join(missing)}") if missing else "tc, iptables, ipset"


def _rdma(root: host.Root) -> _Evidence:
    names = root.names("/sys/class/infiniband")
    return ", ".join(names) or host.Unsupported("no RDMA device found")


def _terway(root: host.Root) -> _Evidence:
    folder = str(TerwaySettings().folder)
    return folder if root.exists(folder) else host.Unsupported(f"no {folder}: no terway daemon has created it")


_Probe = Callable[[host.Root], _Evidence]
#: Each feature: its name, its probe, its substitute where it is missing, and the knobs and strategies that need it.
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
        evidence = probe(root)
    except (OSError, ValueError) as error:
        evidence = host.Unsupported(str(error))
    if isinstance(evidence, host.Unsupported):
        return Capability(what, False, "", evidence.reason, instead, needed)
    return Capability(what, True, evidence, "", "", needed)
