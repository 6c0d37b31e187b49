"""BECPUSuppress: best-effort pods get the CPU that the others leave, by a quota of their folder or by its CPUs.

Rules: what was set is taken back once when NodeSLO switches it off or chooses the other way; a node without a first
sample is left as it is. With batch share pools (gate BECPUManager) it does nothing, because both set the same CPUs.
Next: :mod:`nri.agent.loops.cpu_burst`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nri.agent.loops.moment import LoopPod, Moment, folder_subject
from nri.agent.loops.strategy import Strategies
from nri.api import cpuset
from nri.host.topology import Cpu as HostCpu
from nri.kube.quantity import capped, ceil
from nri.policies.koordinator.formulas import UNLIMITED
from nri.policies.koordinator.hooks.host_application import context_of
from nri.policies.koordinator.loops.cpu_suppress import Cpu, Used, budget_milli, chosen_cpus, cpu_count, quota_us
from nri.policies.koordinator.names import BE, BEST_EFFORT, LSE, LSR
from nri.policies.koordinator.pod_annotations import own_cpuset
from nri.policies.koordinator.rules import host_applications
from nri.policies.koordinator.writes import KNOBS

__all__ = ["NAME", "CpuSuppress", "program_folders"]

NAME: Final = "BECPUSuppress"
_QUOTA, _CPUS = KNOBS["cfs_quota"], KNOBS["cpuset"]


class CpuSuppress:
    """Holds back best-effort pods."""

    name = NAME

    def __init__(self) -> None:
        self._quota_free = self._cpus_free = False

    def wants(self, strategies: Strategies) -> bool:
        """Whether there is work: NodeSLO asks for it."""
        return strategies.threshold.enabled

    def round(self, moment: Moment) -> None:
        """Decide for the folder of best-effort pods."""
        rule, node = moment.strategies.threshold, moment.parts.decisions.node
        if not rule.enabled or node.batch_pools:
            why = "NodeSLO has it off" if not rule.enabled else "batch pods have share pools of their own"
            self._free_quota(moment, why)
            self._free_cpus(moment, why)
            return
        if moment.sample.milli is None:
            moment.cannot(NAME, "best-effort pods are not held back", moment.sample.no_cpu)
            return
        capacity = moment.sample.cpus * 1000
        used = _used(moment)
        budget = budget_milli(capacity, used, rule.suppress_percent, rule.suppress_least)
        reason = f"{budget} thousandths of a CPU are left: {rule.suppress_percent} % of {capacity}, less {used.others}"
        if rule.by_quota:
            self._free_cpus(moment, "NodeSLO holds them back by a quota")
            self._by_quota(moment, budget, reason)
        else:
            self._free_quota(moment, "NodeSLO holds them back by CPUs")
            self._by_cpus(moment, budget, reason)

    def _by_quota(self, moment: Moment, budget: int, reason: str) -> None:
        folder = moment.best_effort_folder
        current = moment.read(folder, _QUOTA)
        if not isinstance(current, int):
            return
        self._quota_free = False
        wanted = quota_us(budget, current, moment.sample.cpus)
        if wanted is not None:
            moment.wish(folder_subject(BEST_EFFORT), folder, _QUOTA, wanted, NAME, reason)

    def _by_cpus(self, moment: Moment, budget: int, reason: str) -> None:
        folder = moment.best_effort_folder
        present = moment.read(folder, _CPUS)
        if not isinstance(present, frozenset):
            return
        self._cpus_free = False
        shared, lent = _free_cpus_of(moment)
        count = cpu_count(budget, len(present) or moment.sample.cpus, moment.sample.cpus)
        chosen = chosen_cpus(min(count, len(shared) + len(lent)), shared, lent)
        if chosen:
            rule = moment.parts.decisions.node.cpus
            static = rule is not None and rule.kubelet_policy == "static"
            self._write_cpus(moment, frozenset(chosen), reason, leaves_only=static)

    def _free_quota(self, moment: Moment, why: str) -> None:
        """Take the folder's quota away, once."""
        if not self._quota_free:
            self._quota_free = True
            moment.wish(
                folder_subject(BEST_EFFORT), moment.best_effort_folder, _QUOTA, UNLIMITED, NAME, f"not held back: {why}"
            )

    def _free_cpus(self, moment: Moment, why: str) -> None:
        """Give the folder all CPUs that no pod has for itself, once."""
        if not self._cpus_free:
            self._cpus_free = True
            shared, lent = _free_cpus_of(moment)
            every = frozenset(each.number for each in (*shared, *lent))
            present = moment.read(moment.best_effort_folder, _CPUS)
            if isinstance(present, frozenset) and present and not every <= present:
                self._write_cpus(moment, every, f"not held back: {why}", leaves_only=False)

    def _write_cpus(self, moment: Moment, cpus: frozenset[int], reason: str, *, leaves_only: bool) -> None:
        text, subject = cpuset.to_text(cpus), folder_subject(BEST_EFFORT)
        own = {pod.folder for pod in moment.pods if _own(pod)}
        for path, depth in _below(moment, moment.best_effort_folder):
            pod_folder = path if depth == 1 else path.rpartition("/")[0]
            if (depth == 2 and pod_folder in own) or (leaves_only and depth < 2):
                continue
            moment.wish(subject, path, _CPUS, text, NAME, reason)


def program_folders(moment: Moment) -> Iterator[tuple[str, str]]:
    """The folders of the host's programs that NodeSLO lists, with their classes."""
    spec = (moment.parts.book.document("NodeSLO") or {}).get("spec") or {}
    try:
        listed = host_applications.by_name(spec.get("hostApplications"))
    except (TypeError, ValueError):
        return
    for application in listed.values():
        context = context_of(application, moment.parts.driver)
        if context.cgroup_parent:
            yield context.cgroup_parent.strip("/"), context.qos


def _used(moment: Moment) -> Used:
    """The CPU that is used now; what is not known yet of a pod counts as the system's, which is the careful side."""
    pods = others = programs = other_programs = 0
    for pod in moment.pods:
        milli = moment.sample.of(pod.folder).milli or 0
        pods += milli
        others += 0 if pod.best_effort else milli
    for folder, qos in program_folders(moment):
        milli = moment.sample.of(folder).milli or 0
        programs += milli
        other_programs += 0 if qos == BE else milli
    return Used(moment.sample.milli or 0, pods, others, programs, other_programs, _reserved(moment))


def _reserved(moment: Moment) -> int:
    """Thousandths of CPUs that the node keeps from pods, as its status tells."""
    status = (moment.parts.book.document("Node") or {}).get("status") or {}
    try:
        amounts = [ceil(capped((status.get(part) or {})["cpu"]) * 1000) for part in ("capacity", "allocatable")]
    except (KeyError, TypeError, ValueError):
        return 0
    return max(amounts[0] - amounts[1], 0)


def _free_cpus_of(moment: Moment) -> tuple[list[Cpu], list[Cpu]]:
    """CPUs that are free or shared by pods, and those of LSR pods; without those of LSE pods."""
    taken: dict[int, str] = {}
    for pod in moment.pods:
        for number in _own(pod):
            taken[number] = pod.qos
    shared: list[Cpu] = []
    lent: list[Cpu] = []
    for number, cpu in sorted(moment.topology.cpus.items()):
        if taken.get(number) != LSE:
            (lent if taken.get(number) == LSR else shared).append(_cpu(cpu))
    return shared, lent


def _cpu(cpu: HostCpu) -> Cpu:
    return Cpu(cpu.number, cpu.core, cpu.node, cpu.package)


def _own(pod: LoopPod) -> frozenset[int]:
    """The CPUs that the scheduler gave a pod alone; none if that cannot be read."""
    try:
        return cpuset.parse(own_cpuset(pod.annotations))
    except ValueError:
        return frozenset()


def _below(moment: Moment, top: str) -> Iterator[tuple[str, int]]:
    """A folder, the pods in it and their containers, with their depth below it."""
    hierarchies = moment.parts.executor.hierarchies
    yield top, 0
    for pod in hierarchies.below(top, "cpuset"):
        yield f"{top}/{pod}", 1
        for container in hierarchies.below(f"{top}/{pod}", "cpuset"):
            yield f"{top}/{pod}/{container}", 2
