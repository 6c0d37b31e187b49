"""TCNetworkQoS: classes of traffic control that share the node's bandwidth between system, LS and BE pods.

The plan, which `tc_programs` carries out: one HTB discipline 1: on the node's interface with root 1:1, which has all of
the bandwidth, and below it system 1:2, LS 1:3, BE 1:4, and one class for each pod with a limit; each may borrow up to
its ceiling. A packet is classified by its sender's address before that is translated, in our chain, which is replaced
in one step; programs of the host and pods in its network by the class id in `net_cls.classid`. Bandwidths are bits per
second.

A pod without a QoS class is left alone, and its traffic is the system's. An address counts only for a pod that has it
alone, so not for a pod in the host's network. A bad annotation leaves the pod the limit that it had, if it had one, and
the others as they are. Ingress is not shaped, and a pod that asks for that is reported.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nri.agent.hooks import Hook
from nri.agent.koordinator.bandwidths import (
    ANNOTATION_NETWORK_QOS,
    DOCUMENT_KEYS,
    Bandwidths,
    node_total,
    pod_bandwidths,
    shared_out,
    unsigned,
)
from nri.agent.koordinator.documents import SLO, read_spec
from nri.agent.koordinator.names import BE, LABEL_QOS, LS, LSE, LSR, SYSTEM
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import HookError
from nri.agent.ownership import Level, Owns
from nri.kube import quantity

NAME: Final = "TCNetworkQoS"
#: Minor number, share of the bandwidth in percent while NodeSLO gives none, and priority of each class.
_DEFAULTS: Final = {"system": (2, 40, 1), "ls": (3, 30, 2), "be": (4, 30, 3)}
_MINORS: Final = {SYSTEM: 2, LSE: 3, LSR: 3, LS: 3, BE: 4}
#: The handle of our discipline, its class above all others, and where traffic of nobody goes: the system's class.
_MAJOR, ROOT, _DEFAULT = 1, 1, 2
CHAIN: Final = "NRI-NETQOS"
#: The set of addresses of each class.
SETS: Final = {2: "nri_netqos_system", 3: "nri_netqos_ls", 4: "nri_netqos_be"}
#: The first class of a pod, and the last.
_FIRST, _LAST = 0x10, 0xFFFE


class TrafficClass(NamedTuple):
    """One class: what it is sure of (`rate`) and what it may have at most (`ceil`), in bits per second."""

    minor: int
    rate: int
    ceil: int
    priority: int


@dataclass(frozen=True, slots=True)
class TcRule:
    """Whether rule_of shapes the node's traffic, and to what, in bits per second."""

    enabled: bool = False
    bandwidths: Bandwidths = field(default_factory=Bandwidths)


def rule_of(spec: Any, current: TcRule, quirks: Quirks = Quirks.DEFAULT) -> TcRule:
    """Return the rule; tc is the default policy. A spec without the node's bandwidth changes nothing."""
    found = read_spec(spec)
    policy = found.get("resourceQOSStrategy", {}).get("policies", {}).get("netQOSPolicy", "tc")
    if policy != "tc":
        return TcRule(False, current.bandwidths)
    if "systemStrategy" not in found:
        return current
    return TcRule(True, bandwidths_of(spec, quirks))


def bandwidths_of(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> Bandwidths:
    """Return the bandwidths in bits per second."""
    found = read_spec(spec)
    try:
        total = unsigned(node_total(found), quirks)
    except ValueError as error:
        raise ValueError(f"spec.systemStrategy.totalNetworkBandwidth: {error}") from None
    return shared_out(found, total, lambda value: bits_per_s(value, total, quirks))


def bits_per_s(value: int | str | None, total: int, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return a class's share in bits per second; 0 for none, for a percentage out of range, for no quantity."""
    if value is None:
        return 0
    if isinstance(value, int):
        return total * value // 100 if 0 <= value <= 100 else 0
    try:
        return unsigned(quantity.ceil(quantity.capped(value)), quirks)
    except ValueError:
        return 0


def classes(rule: TcRule) -> list[TrafficClass]:
    """Return the classes below the root; none while tc is off or the node's bandwidth is not known."""
    total = rule.bandwidths.hw_tx_bps_max
    if not rule.enabled or not total:
        return []
    own = {"ls": (rule.bandwidths.l1_tx_bps_min, rule.bandwidths.l1_tx_bps_max)}
    own["be"] = (rule.bandwidths.l2_tx_bps_min, rule.bandwidths.l2_tx_bps_max)
    return [
        TrafficClass(
            minor, own.get(name, (0, 0))[0] or total * percent // 100, own.get(name, (0, 0))[1] or total, first
        )
        for name, (minor, percent, first) in _DEFAULTS.items()
    ]


def own_limits(annotations: Mapping[str, str]) -> tuple[int, int]:
    """Return what a pod may be sent and may send, in bits per second; 0 for no limit of its own.

    Raises HookError for an annotation that cannot be read, or a negative bandwidth.
    """
    try:
        found = pod_bandwidths(annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if min(found.values(), default=0) < 0:
        raise HookError(NAME, f"annotation {ANNOTATION_NETWORK_QOS}: a bandwidth is not {min(found.values())}")
    return found.get("ingressLimit", 0), found.get("egressLimit", 0)


def minor_of(qos: str) -> int:
    """Return the class that a pod's traffic belongs to; 0 for a pod without a QoS class, which stays in the default."""
    return _MINORS.get(qos, 0)


def class_name(major: int, minor: int) -> str:
    """Return a class as tc writes it: `1:2`."""
    return f"{major}:{minor}"


class Traffic(NamedTuple):
    """The traffic of a pod.

    Attributes:
        uid: the pod's.
        minor: the class that it belongs to.
        priority: of that class.
        addresses: IPv4 addresses that are the pod's alone; none if it uses the network of the host.
        limit: its own limit in bits per second; 0 is none.
        own_minor: its own class, if it has a limit.
        ingress: what it asks for of what it is sent, which is not shaped.
    """

    uid: str
    minor: int
    priority: int = 0
    addresses: tuple[str, ...] = ()
    limit: int = 0
    own_minor: int = 0
    ingress: int = 0

    @property
    def class_minor(self) -> int:
        """The class that its packets go into."""
        return self.own_minor or self.minor


class Plan(NamedTuple):
    """All of it.

    Attributes:
        interface: the network interface.
        total: its bandwidth in bits per second.
        classes: those below the root.
        pods: the pods' traffic.
        with_sets: whether addresses are held in sets; else each is a rule.
    """

    interface: str
    total: int
    classes: tuple[TrafficClass, ...]
    pods: tuple[Traffic, ...]
    with_sets: bool

    def qdisc(self) -> list[str]:
        """Words for tc that make the discipline."""
        handle = f"{_MAJOR}:"
        return ["qdisc", "replace", "dev", self.interface, "root", "handle", handle, "htb", "default", str(_DEFAULT)]

    def class_lines(self) -> Iterator[tuple[int, list[str]]]:
        """The minor number of each class, and words for tc that make or change it; those above first."""
        yield ROOT, self._class(f"{_MAJOR}:", ROOT, self.total, self.total, 0)
        for each in self.classes:
            yield each.minor, self._class(class_name(_MAJOR, ROOT), each.minor, each.rate, each.ceil, each.priority)
        for pod in self.pods:
            if pod.own_minor:
                parent, limit = class_name(_MAJOR, ROOT), min(pod.limit, self.total)
                yield pod.own_minor, self._class(parent, pod.own_minor, limit, limit, pod.priority)

    def by_cgroup(self) -> list[str]:
        """Words for tc that have packets of the host's own programs classified by their cgroup."""
        where = ["dev", self.interface, "parent", f"{_MAJOR}:", "protocol", "ip", "prio", "1", "handle", "1:"]
        return ["filter", "replace", *where, "cgroup"]

    def sets(self) -> str:
        """Input for `ipset restore`: each set is filled beside the old one and then takes its place."""
        lines: list[str] = []
        for minor, name in SETS.items():
            new = f"{name}_new"
            lines += [f"create {name} hash:ip -exist", f"create {new} hash:ip -exist", f"flush {new}"]
            lines += [f"add {new} {address} -exist" for address in self._addresses(minor)]
            lines += [f"swap {name} {new}", f"destroy {new}"]
        return "\n".join(lines) + "\n"

    def chain(self) -> str:
        """Input for `iptables-restore --noflush`: the chain with all its rules, in the place of the old one."""
        lines = ["*mangle", f":{CHAIN} - [0:0]"]
        for minor, name in SETS.items():
            if self.with_sets:
                lines.append(f"-A {CHAIN} -m set --match-set {name} src {_classify(minor)}")
            else:
                lines += [f"-A {CHAIN} -s {address}/32 {_classify(minor)}" for address in self._addresses(minor)]
        for pod in self.pods:
            if pod.own_minor:
                lines += [f"-A {CHAIN} -s {address}/32 {_classify(pod.own_minor)}" for address in pod.addresses]
        return "\n".join([*lines, "COMMIT"]) + "\n"

    def _addresses(self, minor: int) -> list[str]:
        return sorted({address for pod in self.pods if pod.class_minor == minor for address in pod.addresses})

    def _class(self, parent: str, minor: int, rate: int, ceil: int, priority: int) -> list[str]:
        limits = ["htb", "rate", f"{max(rate, 8)}bit", "ceil", f"{max(ceil, rate, 8)}bit", "prio", str(priority)]
        classid = f"{_MAJOR}:{minor:x}"
        return ["class", "replace", "dev", self.interface, "parent", parent, "classid", classid, *limits]


def minors(text: str) -> set[int]:
    """The minor numbers of the classes that `tc class show` lists below our discipline."""
    rows = (line.split() for line in text.splitlines())
    names = (words[2] for words in rows if len(words) > 2 and words[:2] == ["class", "htb"])
    return {int(minor, 16) for major, _, minor in (name.partition(":") for name in names) if major == "1" and minor}


def own_minors(uids: Iterable[str]) -> dict[str, int]:
    """A class for each pod, the same after a restart as long as no two pods meet in one."""
    given: dict[str, int] = {}
    taken: set[int] = set()
    span = _LAST - _FIRST + 1
    for uid in sorted(set(uids))[:span]:
        place = zlib.crc32(uid.encode()) % span
        while place in taken:
            place = (place + 1) % span
        taken.add(place)
        given[uid] = _FIRST + place
    return given


def _classify(minor: int) -> str:
    return f"-j CLASSIFY --set-class {_MAJOR}:{minor:x}"


HOOK: Final = Hook(
    NAME,
    False,
    (SLO, "pods"),
    (LABEL_QOS, ANNOTATION_NETWORK_QOS),
    {},
    (Owns(Level.NODE, "tc"), Owns(Level.POD, "net_cls.classid")),
    document_keys=DOCUMENT_KEYS,
)
