"""The wanted state of the network, as words for tc, ipset and iptables; pure.

Rules: one HTB discipline 1: on the node's interface, with the classes of `nri.agent.koordinator.tc` and one
more for each pod that has a limit of its own. A packet is classified by its sender's address before that is translated,
in a chain of our own, which is replaced in one step; programs of the host and pods in its network by `net_cls`. Next:
:mod:`nri.agent.koordinator.traffic.shaper`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nri.agent.koordinator.tc import TrafficClass, class_name

__all__ = ["CHAIN", "ROOT", "SETS", "Plan", "Traffic", "minors", "own_minors"]

#: The handle of our discipline, its class above all others, and where traffic of nobody goes: the system's class.
_MAJOR, ROOT, _DEFAULT = 1, 1, 2
CHAIN: Final = "NRI-NETQOS"
#: The set of addresses of each class.
SETS: Final = {2: "nri_netqos_system", 3: "nri_netqos_ls", 4: "nri_netqos_be"}
#: The first class of a pod, and the last.
_FIRST, _LAST = 0x10, 0xFFFE


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
