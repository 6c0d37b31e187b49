"""BECPUSuppress: best-effort pods get the CPU that the other pods leave, by a quota of their folder or by its CPU set.

The budget is a share of the node (65 % by default) less the use of all others. It grows by at most a tenth of the node
per round and shrinks at once. Small changes of a quota are not written. Units: thousandths of a CPU, and microseconds
per period.

Values are reset once when NodeSLO switches the strategy off or chooses the other policy. Batch pods never get the CPUs
of LSE pods, CPUs that node or kubelet reserve, or exclusive CPUs of SYSTEM pods; while these are unknown, the CPUs of
batch pods stay unchanged. With batch share pools (gate BECPUManager) nothing is withheld, and containers in a pool are
left to the hook that assigns it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.cgroup_paths import BEST_EFFORT
from nri.agent.koordinator import host_application, pod_class
from nri.agent.koordinator.cpuset import NAME as CPUSET_HOOK
from nri.agent.koordinator.cpuset import in_batch_pools, own_cpuset, reserved_milli
from nri.agent.koordinator.documents import SLO, NodeSlo
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.names import BE, LSE, LSR, qos_class
from nri.agent.koordinator.thresholds import DEFAULT_PERCENT, THRESHOLD
from nri.agent.loops.round import Round, folder_subject
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.model import CPUS, QUOTA, Pod
from nri.agent.ownership import Level, Owns
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.api import cpuset
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.quantity import CPU_PERIOD_US, capped, ceil

_MIN_CPUS, _MIN_QUOTA_US = 2, 2000
#: The fraction of the node's CPU by which a quota has to change to be written.
_MIN_QUOTA_CHANGE: Final = 0.01
NAME: Final = "BECPUSuppress"


class Cpu(NamedTuple):
    """A logical CPU, with its core, memory node and socket."""

    number: int
    core: int
    node: int = 0
    socket: int = 0


class Used(NamedTuple):
    """CPU use in thousandths of a CPU; `other_pods` and `other_programs` are those that are not best effort."""

    node: float
    pods: float
    other_pods: float
    programs: float = 0
    other_programs: float = 0
    reserved: float = 0


def budget_milli(capacity: int, used: Used, percent: int = DEFAULT_PERCENT, least_percent: int | None = None) -> int:
    """Return what best-effort pods may use, in thousandths of a CPU; it may be below 0 without a least."""
    system = max(used.node - used.pods - used.programs, used.reserved, 0)
    # Each amount is cut to whole thousandths by itself, as in Koordinator.
    budget = capacity * percent // 100 - int(used.other_pods) - int(used.other_programs) - int(system)
    return budget if least_percent is None else max(budget, capacity * least_percent // 100)


def offline_program(application: Mapping[str, Any]) -> bool:
    """Whether a host application of NodeSLO yields: it is BE, and among the best-effort pods."""
    place = application.get("cgroupPath") or {}
    return application.get("qos") == BE and place.get("base") == "KubepodsBesteffort"


def pools(
    cpus: Iterable[Cpu], class_by_cpu: Mapping[int, str], withheld: Collection[int]
) -> tuple[list[Cpu], list[Cpu]]:
    """Return the CPUs that are free or shared by pods, and those of LSR pods, which lend them; without all others.

    Args:
        cpus: of the machine.
        class_by_cpu: the QoS class of the pod that has a CPU for itself, by the CPU's number.
        withheld: CPUs that no batch pod gets.
    """
    shared: list[Cpu] = []
    lent: list[Cpu] = []
    for cpu in sorted(cpus):
        if cpu.number not in withheld and class_by_cpu.get(cpu.number) != LSE:
            (lent if class_by_cpu.get(cpu.number) == LSR else shared).append(cpu)
    return shared, lent


def quota_us(budget: int, current_us: int, cpus: int) -> int | None:
    """Return the new quota of the best-effort folder; None if the change is too small.

    Args:
        budget: the CPU for best-effort pods, in thousandths of a CPU.
        current_us: the folder's current quota, -1 for unlimited.
        cpus: the number of CPUs of the node.
    """
    target_us = max(budget * CPU_PERIOD_US // 1000, _MIN_QUOTA_US)
    if current_us == UNLIMITED:  # unlimited is not near any quota
        return target_us
    if abs(target_us - current_us) < cpus * float(CPU_PERIOD_US) * _MIN_QUOTA_CHANGE and target_us != _MIN_QUOTA_US:
        return None
    step = cpus * CPU_PERIOD_US // 10
    return current_us + step if target_us - current_us > step else target_us


def cpu_count(budget: int, current: int, cpus: int) -> int:
    """Return how many CPUs the best-effort folder is to have: two at least, a tenth of the node more at most."""
    return min(max(-(-budget // 1000), _MIN_CPUS), current + -(-cpus // 10))


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
    """The inputs of a decision on suppression.

    Attributes:
        enabled: the value in NodeSLO; None without one.
        by_quota: whether to use a quota instead of CPU sets.
        budget: thousandths of a CPU for best-effort pods; None while unknown.
        cpus: the number of CPUs of the node.
        quota: of the top folder, in microseconds; None if it has no such file.
        present: the CPUs in force in the top folder; None if it has no such file.
        shared: CPUs that are not exclusive to a pod.
        lent: CPUs of LSR pods.
        folders: the top folder and those below it.
        static: whether the kubelet assigns CPUs to containers (static policy).
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
    """Suppression over time; values are reset when it is switched off or the policy changes.

    Attributes:
        in_force: whether the policies `cpuset` and `cfsQuota` are in force; False
            after a reset, absent before the first use.
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
        quota = quota_us(budget, now.quota, now.cpus)
        return [] if quota is None else [(now.folders[0].path, "cpu.cfs_quota", str(quota))]

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
        # The kubelet gives new containers all CPUs of the folder, so only existing containers are narrowed.
        numbers = [cpu.number for cpu in (*now.shared, *now.lent)]
        return [
            *_to([folder for folder in now.folders if folder.depth < 2], numbers),
            *_to([folder for folder in now.folders if folder.depth == 2], chosen),
        ]

    def _recovered(self, now: Situation) -> list[tuple[str, str, str]]:
        """All CPUs that they may have, also where others were set: a pool may have changed."""
        numbers = [cpu.number for cpu in (*now.shared, *now.lent)]
        if not numbers or now.present is None:
            return []
        self.in_force["cpuset"] = False
        return _to(now.folders, numbers)


def _to(folders: Iterable[Folder], cpus: Iterable[int]) -> list[tuple[str, str, str]]:
    text = cpuset.to_text(frozenset(cpus))
    return [(folder.path, "cpuset.cpus", text) for folder in folders if not folder.own_cpus]


def _spread(count: int, cpus: Sequence[Cpu]) -> list[int]:
    if not 0 < count <= len(cpus):
        return []
    groups: dict[tuple[int, int], list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda cpu_: (cpu_.core, cpu_.number)):
        groups.setdefault((cpu.socket, cpu.node), []).append(cpu)
    nodes = sorted(groups.values(), key=lambda group: (-len(group), group[0].number))
    pairs = _in_turn([_pairs(node) for node in nodes])[: count // 2]
    chosen = [cpu for pair in pairs for cpu in pair]
    used, enough = set(chosen), len(pairs) == count // 2
    # Single CPUs continue with the node after that of the last pair, or with the first node without enough pairs.
    turn = next((place + 1 for place, node in enumerate(nodes) if enough and chosen and chosen[-1] in node), 0)
    turn %= len(nodes)
    remaining = [[(cpu,) for cpu in node if cpu not in used] for node in (*nodes[turn:], *nodes[:turn])]
    singles = [cpu for (cpu,) in _in_turn(remaining)]
    return [cpu.number for cpu in (*chosen, *singles[: count - len(chosen)])]


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
    queues = [list(list_) for list_ in lists]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]


class CpuSuppress(Strategy):
    """The strategy that suppresses best-effort pods."""

    name = NAME
    samples = Sampled.PODS | Sampled.PROGRAMS

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self._suppression = Suppression()
        #: The exclusive CPUs of pods, by the last readable annotation.
        self._own: dict[str, frozenset[int]] = {}

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: NodeSLO requests it."""
        return rules[THRESHOLD].enabled

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for the folder of best-effort pods."""
        rule, node = round_.rules[THRESHOLD], round_.parts.decisions.node
        self._own = {pod.uid: _exclusive_cpus(pod, self._own.get(pod.uid, frozenset())) for pod in round_.pods}
        enabled, budget, reason = rule.keys.get("enable"), None, "not held back: NodeSLO has it off"
        if node.batch_pools:
            enabled, reason = False, "not held back: batch pods have share pools of their own"
        elif enabled and round_.sample.milli is None:
            round_.cannot(NAME, "best-effort pods are not held back", round_.sample.no_cpu)
        elif enabled and round_.pods:  # an empty list of pods is probably incomplete
            budget, reason = self.budget(round_)
        subject = folder_subject(BEST_EFFORT)
        for folder, knob, value in self._suppression.decide(self._situation(round_, enabled, budget)):
            round_.set(subject, folder, knob, value, NAME, reason)

    @staticmethod
    def budget(round_: Round[NodeSlo]) -> tuple[int, str]:
        """Return the thousandths of a CPU for best-effort pods, and how they were computed."""
        rule, capacity, used = round_.rules[THRESHOLD], round_.sample.cpus * 1000, _used(round_)
        budget = budget_milli(capacity, used, rule.suppress_percent, rule.suppress_least)
        reason = f"{budget} thousandths of a CPU are left: {rule.suppress_percent} % of {capacity}, "
        return budget, f"{reason}less {used.other_pods:.0f}"

    def _situation(self, round_: Round[NodeSlo], enabled: bool | None, budget: int | None) -> Situation:
        top, node = round_.best_effort_folder, round_.parts.decisions.node
        rule, apart = node.cpus, node.batch_pools and node.quirks.best_effort_cpus_left
        quota, present = round_.read(top, QUOTA), round_.read(top, CPUS)
        shared, lent = self._pools(round_)
        pod_folders = {
            pod.folder
            for pod in round_.pods
            if self._own[pod.uid] or (apart and in_batch_pools(pod.labels, pod.annotations))
        }
        return Situation(
            enabled=enabled,
            by_quota=round_.rules[THRESHOLD].by_quota,
            budget=budget,
            cpus=round_.sample.cpus,
            quota=quota if isinstance(quota, int) else None,
            present=(present or frozenset(round_.topology.cpus)) if isinstance(present, frozenset) else None,
            shared=shared,
            lent=lent,
            folders=[
                Folder(path, depth, depth == 2 and above in pod_folders) for path, depth, above in _below(round_, top)
            ],
            static=rule is not None and rule.kubelet_policy == "static",
        )

    def _pools(self, round_: Round[NodeSlo]) -> tuple[list[Cpu], list[Cpu]]:
        """Shared CPUs and those of LSR pods; empty while reserved CPUs are unknown."""
        rule = round_.parts.decisions.node.cpus
        if rule is None and any(problem.kind == "NodeResourceTopology" for problem in round_.parts.store.problems()):
            round_.errors.append(
                f"{NAME}: the CPUs of batch pods stay as they are: NodeResourceTopology cannot be read"
            )
            return [], []
        class_by_cpu = {number: qos_class(pod.labels) for pod in round_.pods for number in self._own[pod.uid]}
        cpus = [Cpu(cpu.number, cpu.core, cpu.node, cpu.package) for cpu in round_.topology.cpus.values()]
        return pools(cpus, class_by_cpu, frozenset() if rule is None else rule.withheld)


def _program_folders(round_: Round[NodeSlo]) -> Iterator[tuple[str, bool]]:
    """The folders of the host's programs that NodeSLO lists, and whether they yield."""
    spec = (round_.parts.store.document("NodeSLO") or {}).get("spec") or {}
    try:
        listed = host_application.by_name(spec.get("hostApplications"))
    except (TypeError, ValueError):
        return
    for application in listed.values():
        context = context_of(application, round_.parts.driver)
        if context.folder:
            yield context.folder.strip("/"), offline_program(application)


def _used(round_: Round[NodeSlo]) -> Used:
    """Current CPU use; unknown use of a pod counts as the system's, the conservative choice."""
    pods = other_pods = programs = other_programs = 0.0
    for pod in round_.pods:
        milli = round_.sample.of(pod.folder).milli or 0
        pods += milli
        other_pods += 0 if pod_class.offline(pod.manifest) else milli
    for folder, offline in _program_folders(round_):
        milli = round_.sample.of(folder).milli or 0
        programs += milli
        other_programs += 0 if offline else milli
    return Used(round_.sample.milli or 0, pods, other_pods, programs, other_programs, _reserved(round_))


def _reserved(round_: Round[NodeSlo]) -> int:
    """Thousandths of CPUs that the node reserves, by its status, or its annotation if that is more."""
    document = round_.parts.store.document("Node") or {}
    status = document.get("status") or {}
    reserved = reserved_milli((document.get("metadata") or {}).get("annotations") or {})
    try:
        amounts = [ceil(capped((status.get(part) or {})["cpu"]) * 1000) for part in ("capacity", "allocatable")]
    except (KeyError, TypeError, ValueError):
        return reserved
    return max(amounts[0] - amounts[1], reserved)


def _exclusive_cpus(pod: Pod, before: frozenset[int]) -> frozenset[int]:
    """The CPUs that the scheduler gave a pod alone; those of before if that cannot be read."""
    try:
        return cpuset.parse(own_cpuset(pod.annotations))
    except ValueError:
        return before


def _below(round_: Round[NodeSlo], top: str) -> Iterator[tuple[str, int, str]]:
    """A folder, the pods in it and their containers: each with its depth below it, and the folder above."""
    hierarchies = round_.parts.executor.hierarchies
    yield top, 0, ""
    for pod in hierarchies.below(top, "cpuset"):
        yield f"{top}/{pod}", 1, top
        for container in hierarchies.below(f"{top}/{pod}", "cpuset"):
            yield f"{top}/{pod}/{container}", 2, f"{top}/{pod}"


STRATEGY: Final = StrategyRow(
    NAME,
    True,
    "best-effort pods get the CPU that the others leave",
    "nri.agent.koordinator.cpu_suppress:CpuSuppress",
    (
        Owns(Level.KUBE_QOS, "cpu.cfs_quota"),
        Owns(Level.KUBE_QOS, "cpuset.cpus"),
        Owns(Level.POD, "cpuset.cpus"),
        # Of pods in the best-effort folder, which is a matter of requests and not of classes. There the hook only
        # clears CPUs, and gives some where batch pods have share pools; then, and for pods with CPUs of their own,
        # this does nothing.
        *(Owns(level, "cpuset.cpus", unless=frozenset({CPUSET_HOOK})) for level in (Level.SANDBOX, Level.CONTAINER)),
    ),
    document_keys=((SLO, "resourceUsedThresholdWithBE"),),
)
