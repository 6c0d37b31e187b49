"""BECPUSuppress: best-effort pods get the CPU that the others leave, by a quota of their folder or by its CPUs.

Rules: what was set is taken back once when NodeSLO switches it off or chooses the other way; a node without a first
sample is left as it is. Neither way batch pods get the CPUs of LSE pods, those that node or kubelet reserve, or those
that SYSTEM pods have alone; while it is not known which these are, their CPUs stay as they are. With batch share pools
(gate BECPUManager) it holds nothing back, and leaves containers that have some to the hook that gives them.
Next: :mod:`nri.agent.koordinator.cpu_burst`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nri.agent.koordinator import host_application, pod_class
from nri.agent.koordinator.cpuset import in_batch_pools, own_cpuset, reserved_milli
from nri.agent.koordinator.decisions.cpu_suppress import (
    Cpu,
    Folder,
    Situation,
    Suppression,
    Used,
    budget_milli,
    offline_program,
    pools,
)
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.names import qos_class
from nri.agent.koordinator.slo import NodeSlo
from nri.agent.loops.round import Round, StrategyPod, folder_subject
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.settings.values import AgentSettings
from nri.api import cpuset
from nri.kube.quantity import capped, ceil
from nri.policies.paths import BEST_EFFORT
from nri.policies.writes import CPUS, QUOTA

__all__ = ["NAME", "CpuSuppress"]

NAME: Final = "BECPUSuppress"


class CpuSuppress(Strategy):
    """Holds back best-effort pods."""

    name = NAME
    samples = Sampled.PODS | Sampled.PROGRAMS

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self._suppression = Suppression()
        #: The CPUs of pods that have some for themselves, as their annotations said when they could be read last.
        self._own: dict[str, frozenset[int]] = {}

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: NodeSLO asks for it."""
        return rules.threshold.enabled

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for the folder of best-effort pods."""
        rule, node = made.rules.threshold, made.parts.decisions.node
        self._own = {pod.uid: _own(pod, self._own.get(pod.uid, frozenset())) for pod in made.pods}
        enabled, budget, reason = rule.keys.get("enable"), None, "not held back: NodeSLO has it off"
        if node.batch_pools:
            enabled, reason = False, "not held back: batch pods have share pools of their own"
        elif enabled and made.sample.milli is None:
            made.cannot(NAME, "best-effort pods are not held back", made.sample.no_cpu)
        elif enabled and made.pods:  # a list without pods is more likely one that is not complete yet
            budget, reason = self.budget(made)
        subject = folder_subject(BEST_EFFORT)
        for folder, knob, value in self._suppression.decide(self._situation(made, enabled, budget)):
            made.set(subject, folder, knob, value, NAME, reason)

    @staticmethod
    def budget(made: Round[NodeSlo]) -> tuple[int, str]:
        """Return the thousandths of a CPU that are left for best-effort pods, and how they were computed."""
        rule, capacity, used = made.rules.threshold, made.sample.cpus * 1000, _used(made)
        budget = budget_milli(capacity, used, rule.suppress_percent, rule.suppress_least)
        reason = f"{budget} thousandths of a CPU are left: {rule.suppress_percent} % of {capacity}, "
        return budget, f"{reason}less {used.others:.0f}"

    def _situation(self, made: Round[NodeSlo], enabled: bool | None, budget: int | None) -> Situation:
        top, node = made.best_effort_folder, made.parts.decisions.node
        rule, apart = node.cpus, node.batch_pools and node.quirks.best_effort_cpus_left
        quota, present = made.read(top, QUOTA), made.read(top, CPUS)
        shared, lent = self._pools(made)
        own = {
            pod.folder
            for pod in made.pods
            if self._own[pod.uid] or (apart and in_batch_pools(pod.labels, pod.annotations))
        }
        return Situation(
            enabled=enabled,
            by_quota=made.rules.threshold.by_quota,
            budget=budget,
            cpus=made.sample.cpus,
            quota=quota if isinstance(quota, int) else None,
            present=(present or frozenset(made.topology.cpus)) if isinstance(present, frozenset) else None,
            shared=shared,
            lent=lent,
            folders=[Folder(path, depth, depth == 2 and above in own) for path, depth, above in _below(made, top)],
            static=rule is not None and rule.kubelet_policy == "static",
        )

    def _pools(self, made: Round[NodeSlo]) -> tuple[list[Cpu], list[Cpu]]:
        """CPUs that are free or shared by pods, and those of LSR pods; none at all while some may not be given."""
        rule = made.parts.decisions.node.cpus
        if rule is None and any(each.kind == "NodeResourceTopology" for each in made.parts.store.problems()):
            made.errors.append(f"{NAME}: the CPUs of batch pods stay as they are: NodeResourceTopology cannot be read")
            return [], []
        taken = {number: qos_class(pod.labels) for pod in made.pods for number in self._own[pod.uid]}
        cpus = [Cpu(each.number, each.core, each.node, each.package) for each in made.topology.cpus.values()]
        return pools(cpus, taken, frozenset() if rule is None else rule.withheld)


def _program_folders(made: Round[NodeSlo]) -> Iterator[tuple[str, bool]]:
    """The folders of the host's programs that NodeSLO lists, and whether they yield."""
    spec = (made.parts.store.document("NodeSLO") or {}).get("spec") or {}
    try:
        listed = host_application.by_name(spec.get("hostApplications"))
    except (TypeError, ValueError):
        return
    for application in listed.values():
        context = context_of(application, made.parts.driver)
        if context.cgroup_parent:
            yield context.cgroup_parent.strip("/"), offline_program(application)


def _used(made: Round[NodeSlo]) -> Used:
    """The CPU that is used now; what is not known yet of a pod counts as the system's, which is the careful side."""
    pods = others = programs = other_programs = 0.0
    for pod in made.pods:
        milli = made.sample.of(pod.folder).milli or 0
        pods += milli
        others += 0 if pod_class.offline(pod.manifest) else milli
    for folder, offline in _program_folders(made):
        milli = made.sample.of(folder).milli or 0
        programs += milli
        other_programs += 0 if offline else milli
    return Used(made.sample.milli or 0, pods, others, programs, other_programs, _reserved(made))


def _reserved(made: Round[NodeSlo]) -> int:
    """Thousandths of CPUs that the node keeps from pods, as its status tells, or its annotation if that is more."""
    document = made.parts.store.document("Node") or {}
    status = document.get("status") or {}
    kept = reserved_milli((document.get("metadata") or {}).get("annotations") or {})
    try:
        amounts = [ceil(capped((status.get(part) or {})["cpu"]) * 1000) for part in ("capacity", "allocatable")]
    except (KeyError, TypeError, ValueError):
        return kept
    return max(amounts[0] - amounts[1], kept)


def _own(pod: StrategyPod, before: frozenset[int]) -> frozenset[int]:
    """The CPUs that the scheduler gave a pod alone; those of before if that cannot be read."""
    try:
        return cpuset.parse(own_cpuset(pod.annotations))
    except ValueError:
        return before


def _below(made: Round[NodeSlo], top: str) -> Iterator[tuple[str, int, str]]:
    """A folder, the pods in it and their containers: each with its depth below it, and the folder above."""
    hierarchies = made.parts.executor.hierarchies
    yield top, 0, ""
    for pod in hierarchies.below(top, "cpuset"):
        yield f"{top}/{pod}", 1, top
        for container in hierarchies.below(f"{top}/{pod}", "cpuset"):
            yield f"{top}/{pod}/{container}", 2, f"{top}/{pod}"
