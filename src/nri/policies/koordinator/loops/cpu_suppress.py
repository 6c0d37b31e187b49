"""The CPU that is left for best-effort pods, and the CPUs or the quota by which they are held to it.

The budget is a share of the node (65 % by default) less what all others use. It grows by a tenth of the node per
round at most, shrinks at once, and small changes of a quota are not worth a write. Units: thousandths of a CPU, and
microseconds per period. Next: `nri.policies.koordinator.loops.cpu_burst`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nri.kube.quantity import CPU_PERIOD_US
from nri.policies.koordinator.formulas import UNLIMITED

__all__ = ["DEFAULT_PERCENT", "Cpu", "Used", "budget_milli", "chosen_cpus", "cpu_count", "quota_us"]

DEFAULT_PERCENT: Final = 65
_LEAST_CPUS, _LEAST_QUOTA_US = 2, 2000


class Cpu(NamedTuple):
    """A logical CPU, with its core, memory node and socket."""

    number: int
    core: int
    node: int = 0
    socket: int = 0


class Used(NamedTuple):
    """The CPU that is used now, in thousandths of one. `others` are pods and host programs that are not best effort."""

    node: int
    pods: int
    others: int
    programs: int = 0
    other_programs: int = 0
    reserved: int = 0


def budget_milli(capacity: int, used: Used, percent: int = DEFAULT_PERCENT, least_percent: int | None = None) -> int:
    """Return what best-effort pods may use, in thousandths of a CPU; it may be below 0 without a least."""
    system = max(used.node - used.pods - used.programs, used.reserved, 0)
    budget = capacity * percent // 100 - used.others - used.other_programs - system
    return budget if least_percent is None else max(budget, capacity * least_percent // 100)


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
    if abs(wanted - current_us) * 100 < cpus * CPU_PERIOD_US and wanted != _LEAST_QUOTA_US:
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


def _spread(count: int, cpus: Sequence[Cpu]) -> list[int]:
    if not 0 < count <= len(cpus):
        return []
    groups: dict[tuple[int, int], list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda each: (each.core, each.number)):
        groups.setdefault((cpu.socket, cpu.node), []).append(cpu)
    nodes = sorted(groups.values(), key=lambda group: (-len(group), group[0].number))
    pairs = _in_turn([_pairs(node) for node in nodes])[: count // 2]
    taken = [cpu for pair in pairs for cpu in pair]
    used = set(taken)
    turn = len(pairs) % len(nodes)
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
