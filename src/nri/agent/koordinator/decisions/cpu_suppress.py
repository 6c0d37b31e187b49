"""The CPU that is left for best-effort pods, and the CPUs or the quota by which they are held to it.

The budget is a share of the node (65 % by default) less what all others use. It grows by a tenth of the node per
round at most, shrinks at once, and small changes of a quota are not worth a write. Units: thousandths of a CPU, and
microseconds per period. Next: `nri.agent.koordinator.decisions.cpu_burst`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.names import BE, LSE, LSR
from nri.api import cpuset
from nri.kube.quantity import CPU_PERIOD_US
from nri.policies.formulas import UNLIMITED

__all__ = [
    "DEFAULT_PERCENT",
    "Cpu",
    "Used",
    "budget_milli",
    "chosen_cpus",
    "cpu_count",
    "offline_program",
    "pools",
    "quota_us",
]

DEFAULT_PERCENT: Final = 65
_LEAST_CPUS, _LEAST_QUOTA_US = 2, 2000
#: The part of the node's CPU by which a quota has to change.
_WORTH: Final = 0.01


class Cpu(NamedTuple):
    """A logical CPU, with its core, memory node and socket."""

    number: int
    core: int
    node: int = 0
    socket: int = 0


class Used(NamedTuple):
    """The CPU that is used now, in thousandths of one. `others` are pods and host programs that are not best effort."""

    node: float
    pods: float
    others: float
    programs: float = 0
    other_programs: float = 0
    reserved: float = 0


def budget_milli(capacity: int, used: Used, percent: int = DEFAULT_PERCENT, least_percent: int | None = None) -> int:
    """Return what best-effort pods may use, in thousandths of a CPU; it may be below 0 without a least."""
    system = max(used.node - used.pods - used.programs, used.reserved, 0)
    # Each amount is cut to whole thousandths by itself, as in Koordinator.
    budget = capacity * percent // 100 - int(used.others) - int(used.other_programs) - int(system)
    return budget if least_percent is None else max(budget, capacity * least_percent // 100)


def offline_program(application: Mapping[str, Any]) -> bool:
    """Whether a host application of NodeSLO yields: it is BE, and among the best-effort pods."""
    place = application.get("cgroupPath") or {}
    return application.get("qos") == BE and place.get("base") == "KubepodsBesteffort"


def pools(cpus: Iterable[Cpu], taken: Mapping[int, str], withheld: Collection[int]) -> tuple[list[Cpu], list[Cpu]]:
    """Return the CPUs that are free or shared by pods, and those of LSR pods, which lend them; without all others.

    Args:
        cpus: of the machine.
        taken: the QoS class of the pod that has a CPU for itself, by the CPU's number.
        withheld: CPUs that no batch pod gets.
    """
    shared: list[Cpu] = []
    lent: list[Cpu] = []
    for cpu in sorted(cpus):
        if cpu.number not in withheld and taken.get(cpu.number) != LSE:
            (lent if taken.get(cpu.number) == LSR else shared).append(cpu)
    return shared, lent


def quota_us(budget: int, current_us: int, cpus: int) -> int | None:
    """Return the new quota of the best-effort folder; None if the change is not worth a write.

    Args:
        budget: what is left, in thousandths of a CPU.
        current_us: the folder's quota now, -1 for none.
        cpus: how many CPUs the node has.
    """
    wanted = max(budget * CPU_PERIOD_US // 1000, _LEAST_QUOTA_US)
    if current_us == UNLIMITED:  # -1 is no quota that the wanted one could be near to
        return wanted
    if abs(wanted - current_us) < cpus * float(CPU_PERIOD_US) * _WORTH and wanted != _LEAST_QUOTA_US:
        return None
    step = cpus * CPU_PERIOD_US // 10
    return current_us + step if wanted - current_us > step else wanted


def cpu_count(budget: int, current: int, cpus: int) -> int:
    """Return how many CPUs the best-effort folder is to have: two at least, a tenth of the node more at most."""
    return min(max(-(-budget // 1000), _LEAST_CPUS), current + -(-cpus // 10))


def chosen_cpus(count: int, shared: Sequence[Cpu], reserved: Sequence[Cpu] = ()) -> list[int]:
    """Return the CPUs: whole cores first, spread over memory nodes, from both kinds in proportion.

    Args:
        count: how many.
        shared: CPUs of no pod, or of latency-sensitive pods that share theirs.
        reserved: CPUs of LSR pods, which lend them.
    """
    if not shared and not reserved:
        return []
    lent = count * len(reserved) // (len(reserved) + len(shared))
    return _spread(lent, reserved) + _spread(count - lent, shared)


class Folder(NamedTuple):
    """A folder of best-effort pods: the top one (depth 0), that of a pod (1) or of a container (2)."""

    path: str
    depth: int
    own_cpus: bool = False


class Situation(NamedTuple):
    """All that suppression may look at.

    Attributes:
        enabled: what NodeSLO says; None is nothing.
        by_quota: whether it is by a quota, and not by CPUs.
        budget: thousandths of a CPU that are left; None while that is not known.
        cpus: how many CPUs the node has.
        quota: of the top folder, in microseconds; None if it has none to set.
        present: the CPUs that the top folder has in force; None if it has none to set.
        shared: CPUs of no pod alone.
        lent: CPUs of LSR pods.
        folders: the top folder and those below it.
        static: whether the kubelet gives CPUs to containers by itself.
    """

    enabled: bool | None
    by_quota: bool
    budget: int | None
    cpus: int
    quota: int | None
    present: frozenset[int] | None
    shared: Sequence[Cpu]
    lent: Sequence[Cpu]
    folders: Sequence[Folder]
    static: bool = False


class Suppression:
    """Suppression over time: what was set is taken back when it is switched off, or done the other way.

    Attributes:
        in_force: whether pods are held back by `cpuset` and by `cfsQuota`, Koordinator's names of the two ways; False
            after it was taken back, absent before either.
    """

    def __init__(self) -> None:
        self.in_force: dict[str, bool] = {}

    def decide(self, now: Situation) -> list[tuple[str, str, str]]:
        """Return what is to be written: folder, knob and value; nothing where that is how it is."""
        if now.enabled is None or (now.enabled and now.budget is None):
            return []
        if not now.enabled:
            return [*self._free_quota(now), *self._recovered(now)]
        assert now.budget is not None
        if now.by_quota:
            return [*self._by_quota(now, now.budget), *self._recovered(now)]
        return [*self._free_quota(now), *self._by_cpus(now, now.budget)]

    def _by_quota(self, now: Situation, budget: int) -> list[tuple[str, str, str]]:
        self.in_force["cfsQuota"] = True
        if now.quota is None:
            return []
        wanted = quota_us(budget, now.quota, now.cpus)
        return [] if wanted is None else [(now.folders[0].path, "cpu.cfs_quota", str(wanted))]

    def _free_quota(self, now: Situation) -> list[tuple[str, str, str]]:
        if self.in_force.get("cfsQuota") is False or now.quota is None:
            return []
        self.in_force["cfsQuota"] = False
        return [] if now.quota == UNLIMITED else [(now.folders[0].path, "cpu.cfs_quota", str(UNLIMITED))]

    def _by_cpus(self, now: Situation, budget: int) -> list[tuple[str, str, str]]:
        if now.present is None:
            return []
        count = cpu_count(budget, len(now.present), now.cpus)
        self.in_force["cpuset"] = True
        chosen = chosen_cpus(min(count, len(now.shared) + len(now.lent)), now.shared, now.lent)
        if not chosen:
            return []
        if not now.static:
            return _to(now.folders, chosen)
        # The kubelet gives all that a folder has to containers that it makes, so only these are narrowed.
        every = [each.number for each in (*now.shared, *now.lent)]
        return [
            *_to([each for each in now.folders if each.depth < 2], every),
            *_to([each for each in now.folders if each.depth == 2], chosen),
        ]

    def _recovered(self, now: Situation) -> list[tuple[str, str, str]]:
        """All CPUs that they may have, also where others were set: a pool may have changed."""
        every = [each.number for each in (*now.shared, *now.lent)]
        if not every or now.present is None:
            return []
        self.in_force["cpuset"] = False
        return _to(now.folders, every)


def _to(folders: Iterable[Folder], cpus: Iterable[int]) -> list[tuple[str, str, str]]:
    text = cpuset.to_text(frozenset(cpus))
    return [(each.path, "cpuset.cpus", text) for each in folders if not each.own_cpus]


def _spread(count: int, cpus: Sequence[Cpu]) -> list[int]:
    if not 0 < count <= len(cpus):
        return []
    groups: dict[tuple[int, int], list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda each: (each.core, each.number)):
        groups.setdefault((cpu.socket, cpu.node), []).append(cpu)
    nodes = sorted(groups.values(), key=lambda group: (-len(group), group[0].number))
    pairs = _in_turn([_pairs(node) for node in nodes])[: count // 2]
    taken = [cpu for pair in pairs for cpu in pair]
    used, enough = set(taken), len(pairs) == count // 2
    # Single ones go on in the group after that of the last pair; in the first one if there were too few pairs.
    turn = next((place + 1 for place, node in enumerate(nodes) if enough and taken and taken[-1] in node), 0)
    turn %= len(nodes)
    rest = [[(cpu,) for cpu in node if cpu not in used] for node in (*nodes[turn:], *nodes[:turn])]
    singles = [cpu for (cpu,) in _in_turn(rest)]
    return [cpu.number for cpu in (*taken, *singles[: count - len(taken)])]


def _pairs(node: Sequence[Cpu]) -> list[tuple[Cpu, ...]]:
    """The pairs of threads of whole cores."""
    pairs: list[tuple[Cpu, ...]] = []
    place = 0
    while place < len(node) - 1:
        if node[place].core == node[place + 1].core:
            pairs.append((node[place], node[place + 1]))
            place += 1
        place += 1
    return pairs


def _in_turn(lists: Iterable[Sequence[tuple[Cpu, ...]]]) -> list[tuple[Cpu, ...]]:
    """One of each list, then the next of each."""
    queues = [list(each) for each in lists]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]
