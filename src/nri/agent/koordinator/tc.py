"""The hook TCNetworkQoS: traffic classes that share the node's bandwidth between system, LS and BE pods.

`tc_programs` applies the plan of this module. It has an HTB discipline 1: on the node's interface. The root class 1:1
has the whole bandwidth. Below it are system 1:2, LS 1:3, BE 1:4, and a class for each pod with a limit. Each class may
borrow up to its ceiling. Packets are classified by the sender's address before translation, in a chain of the agent
that is replaced in one step. Host programs and pods in the host's network are classified by `net_cls.classid`.
Bandwidths are bits per second.

Traffic of a pod without a QoS class counts as system traffic. An address counts only if a single pod has it. An
unreadable annotation keeps the pod's last valid limit. Ingress is not shaped; a pod that requests it is reported.
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
from nri.agent.ownership import Level, OwnedKnob
from nri.kube import quantity

NAME: Final = "TCNetworkQoS"
#: Minor number, default share of the bandwidth in percent, and priority of each class.
_DEFAULTS: Final = {"system": (2, 40, 1), "ls": (3, 30, 2), "be": (4, 30, 3)}
_MINORS: Final = {SYSTEM: 2, LSE: 3, LSR: 3, LS: 3, BE: 4}
#: The handle of the agent's discipline, its root class, and the class of unclassified traffic, which is system's.
_MAJOR, ROOT, _DEFAULT = 1, 1, 2
CHAIN: Final = "NRI-NETQOS"
#: The ipset with the addresses of each class.
SETS: Final = {2: "nri_netqos_system", 3: "nri_netqos_ls", 4: "nri_netqos_be"}
#: The first and last minor number of classes for pods.
_FIRST, _LAST = 0x10, 0xFFFE


class TrafficClass(NamedTuple):
    """A traffic class with its guaranteed (`rate`) and maximum bandwidth (`ceil`), in bits per second."""

    minor: int
    rate: int
    ceil: int
    priority: int


@dataclass(frozen=True, slots=True)
class TcRule:
    """Whether the agent shapes the node's traffic, and the bandwidths in bits per second."""

    enabled: bool = False
    bandwidths: Bandwidths = field(default_factory=Bandwidths)


def rule_of(spec: Any, current: TcRule, quirks: Quirks = Quirks.DEFAULT) -> TcRule:
    """Return the rule; tc is the default policy. A spec without the node's bandwidth keeps the current rule."""
    fields = read_spec(spec)
    policy = fields.get("resourceQOSStrategy", {}).get("policies", {}).get("netQOSPolicy", "tc")
    if policy != "tc":
        return TcRule(False, current.bandwidths)
    if "systemStrategy" not in fields:
        return current
    return TcRule(True, bandwidths_of(spec, quirks))


def bandwidths_of(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> Bandwidths:
    """Return the bandwidths in bits per second."""
    fields = read_spec(spec)
    try:
        total = unsigned(node_total(fields), quirks)
    except ValueError as error:
        raise ValueError(f"spec.systemStrategy.totalNetworkBandwidth: {error}") from None
    return shared_out(fields, total, lambda value: bits_per_s(value, total, quirks))


def bits_per_s(value: int | str | None, total: int, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return a class's share in bits per second, or 0 if it is absent or invalid."""
    if value is None:
        return 0
    if isinstance(value, int):
        return total * value // 100 if 0 <= value <= 100 else 0
    try:
        return unsigned(quantity.ceil(quantity.capped(value)), quirks)
    except ValueError:
        return 0


def classes(rule: TcRule) -> list[TrafficClass]:
    """Return the classes below the root class. There are none while tc is off or the node's bandwidth is unknown."""
    total = rule.bandwidths.hw_tx_bps_max
    if not rule.enabled or not total:
        return []
    limits_by_class = {"ls": (rule.bandwidths.l1_tx_bps_min, rule.bandwidths.l1_tx_bps_max)}
    limits_by_class["be"] = (rule.bandwidths.l2_tx_bps_min, rule.bandwidths.l2_tx_bps_max)
    return [
        TrafficClass(
            minor,
            limits_by_class.get(name, (0, 0))[0] or total * percent // 100,
            limits_by_class.get(name, (0, 0))[1] or total,
            first,
        )
        for name, (minor, percent, first) in _DEFAULTS.items()
    ]


def own_limits(annotations: Mapping[str, str]) -> tuple[int, int]:
    """Return a pod's ingress and egress limits in bits per second; 0 means no limit.

    Raises HookError if the annotation is unreadable or a bandwidth is negative.
    """
    try:
        limits = pod_bandwidths(annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if min(limits.values(), default=0) < 0:
        raise HookError(NAME, f"annotation {ANNOTATION_NETWORK_QOS}: bandwidth {min(limits.values())} is negative")
    return limits.get("ingressLimit", 0), limits.get("egressLimit", 0)


def minor_of(qos: str) -> int:
    """Return the minor number of a QoS class; 0 without a class, so that traffic stays in the default class."""
    return _MINORS.get(qos, 0)


def class_name(major: int, minor: int) -> str:
    """Return a class as tc writes it: `1:2`."""
    return f"{major}:{minor}"


class Traffic(NamedTuple):
    """The traffic of a pod.

    Attributes:
        uid: the uid of the pod.
        minor: the minor number of its QoS class.
        priority: the priority of that class.
        addresses: the IPv4 addresses of the pod; empty if the pod uses the host's network.
        limit: the egress limit in bits per second; 0 means no limit.
        own_minor: the minor number of the pod's own class, if the pod has a limit.
        ingress: the requested ingress limit, which is not applied.
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
        """The minor number of the class of the pod's packets."""
        return self.own_minor or self.minor


class Plan(NamedTuple):
    """The traffic control of the node.

    Attributes:
        interface: the network interface.
        total: the bandwidth of the interface in bits per second.
        classes: the classes of QoS classes.
        pods: the traffic of the pods.
        with_sets: whether addresses are in ipsets; otherwise each address has a rule.
    """

    interface: str
    total: int
    classes: tuple[TrafficClass, ...]
    pods: tuple[Traffic, ...]
    with_sets: bool

    def qdisc(self) -> list[str]:
        """Return the arguments of tc that create the discipline."""
        handle = f"{_MAJOR}:"
        return ["qdisc", "replace", "dev", self.interface, "root", "handle", handle, "htb", "default", str(_DEFAULT)]

    def class_lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each class, parents first: its minor number, and the arguments of tc that create or change it."""
        yield ROOT, self._class(f"{_MAJOR}:", ROOT, self.total, self.total, 0)
        for qos_class in self.classes:
            yield (
                qos_class.minor,
                self._class(
                    class_name(_MAJOR, ROOT), qos_class.minor, qos_class.rate, qos_class.ceil, qos_class.priority
                ),
            )
        for pod in self.pods:
            if pod.own_minor:
                parent, limit = class_name(_MAJOR, ROOT), min(pod.limit, self.total)
                yield pod.own_minor, self._class(parent, pod.own_minor, limit, limit, pod.priority)

    def by_cgroup(self) -> list[str]:
        """Return the arguments of tc that classify packets of host programs by cgroup."""
        where = ["dev", self.interface, "parent", f"{_MAJOR}:", "protocol", "ip", "prio", "1", "handle", "1:"]
        return ["filter", "replace", *where, "cgroup"]

    def sets(self) -> str:
        """Return the input of `ipset restore`: each set is filled under a temporary name and then swapped."""
        lines: list[str] = []
        for minor, name in SETS.items():
            new = f"{name}_new"
            lines += [f"create {name} hash:ip -exist", f"create {new} hash:ip -exist", f"flush {new}"]
            lines += [f"add {new} {address} -exist" for address in self._addresses(minor)]
            lines += [f"swap {name} {new}", f"destroy {new}"]
        return "\n".join(lines) + "\n"

    def chain(self) -> str:
        """Return the input of `iptables-restore --noflush`, which replaces the chain with all its rules."""
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
    """Return the minor numbers of the classes that `tc class show` lists below the agent's discipline."""
    rows = (line.split() for line in text.splitlines())
    names = (words[2] for words in rows if len(words) > 2 and words[:2] == ["class", "htb"])
    return {int(minor, 16) for major, _, minor in (name.partition(":") for name in names) if major == "1" and minor}


def own_minors(uids: Iterable[str]) -> dict[str, int]:
    """Return a minor number for each pod. It stays the same after a restart unless the numbers of two pods collide."""
    minor_by_uid: dict[str, int] = {}
    used_places: set[int] = set()
    span = _LAST - _FIRST + 1
    for uid in sorted(set(uids))[:span]:
        place = zlib.crc32(uid.encode()) % span
        while place in used_places:
            place = (place + 1) % span
        used_places.add(place)
        minor_by_uid[uid] = _FIRST + place
    return minor_by_uid


def _classify(minor: int) -> str:
    return f"-j CLASSIFY --set-class {_MAJOR}:{minor:x}"


HOOK: Final = Hook(
    NAME,
    False,
    (SLO, "pods"),
    (LABEL_QOS, ANNOTATION_NETWORK_QOS),
    {},
    (OwnedKnob(Level.NODE, "tc"), OwnedKnob(Level.POD, "net_cls.classid")),
    document_keys=DOCUMENT_KEYS,
)
