"""The strategy BECPUSuppress: best-effort pods get the CPU that other pods leave, by a quota or a CPU set.

The budget is a percentage of the node (65 % by default) minus the usage of all other pods and programs. It grows by at
most a tenth of the node per round and shrinks immediately. Small changes of a quota are not written.

Values are reset once when NodeSLO switches the strategy off or chooses the other policy. Batch pods never get the CPUs
of LSE pods, CPUs that the node or the kubelet reserves, or exclusive CPUs of SYSTEM pods. While these CPUs are unknown,
the CPUs of batch pods stay unchanged. With batch share pools (gate BECPUManager) batch pods are not suppressed, and the
hook CPUSetAllocator sets the CPUs of containers in a pool.
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
from nri.agent.loops.strategy import SampledCgroups, Strategy
from nri.agent.model import CPUS, QUOTA, Pod
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.api import cpuset
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.quantity import CPU_PERIOD_US, capped, ceil

#: The minimum number of CPUs of best-effort pods.
_MIN_CPUS = 2
#: The minimum quota of best-effort pods, in microseconds for each period.
_MIN_QUOTA_US = 2000
#: The fraction of the node's CPU by which a quota has to change to be written.
_MIN_QUOTA_CHANGE: Final = 0.01
NAME: Final = "BECPUSuppress"


class Cpu(NamedTuple):
    """A logical CPU with its core, memory node and socket."""

    number: int
    core: int
    node: int = 0
    socket: int = 0


class CpuUsage(NamedTuple):
    """CPU usage in thousandths of a CPU. `other_pods` and `other_programs` exclude best effort."""

    node: float
    pods: float
    other_pods: float
    programs: float = 0
    other_programs: float = 0
    reserved: float = 0


def budget_milli(
    capacity: int, used: CpuUsage, percent: int = DEFAULT_PERCENT, least_percent: int | None = None
) -> int:
    """Return the CPU budget of best-effort pods, in thousandths of a CPU.

    Without `least_percent` it may be negative.
    """
    system = max(used.node - used.pods - used.programs, used.reserved, 0)
    # Each amount is rounded down separately, as in Koordinator.
    budget = capacity * percent // 100 - int(used.other_pods) - int(used.other_programs) - int(system)
    return budget if least_percent is None else max(budget, capacity * least_percent // 100)


def offline_program(application: Mapping[str, Any]) -> bool:
    """Return whether a host application of NodeSLO is best effort: its class is BE, and so is its cgroup."""
    place = application.get("cgroupPath") or {}
    return application.get("qos") == BE and place.get("base") == "KubepodsBesteffort"


def pools(
    cpus: Iterable[Cpu], class_by_cpu: Mapping[int, str], withheld: Collection[int]
) -> tuple[list[Cpu], list[Cpu]]:
    """Return the CPUs for best-effort pods: free or shared CPUs, and separately the CPUs that LSR pods lend.

    Args:
        cpus: the CPUs of the machine.
        class_by_cpu: the QoS class of the pod with exclusive use of a CPU, by the number of the CPU.
        withheld: the CPUs that batch pods must not get.
    """
    shared: list[Cpu] = []
    lent: list[Cpu] = []
    for cpu in sorted(cpus):
        if cpu.number not in withheld and class_by_cpu.get(cpu.number) != LSE:
            (lent if class_by_cpu.get(cpu.number) == LSR else shared).append(cpu)
    return shared, lent


def quota_us(budget: int, current_us: int, cpus: int) -> int | None:
    """Return the new quota of the best-effort cgroup, or None if the change is too small.

    Args:
        budget: the CPU for best-effort pods, in thousandths of a CPU.
        current_us: the current quota of the cgroup; -1 means unlimited.
        cpus: the number of CPUs of the node.
    """
    target_us = max(budget * CPU_PERIOD_US // 1000, _MIN_QUOTA_US)
    if current_us == UNLIMITED:  # every quota differs enough from unlimited
        return target_us
    if abs(target_us - current_us) < cpus * float(CPU_PERIOD_US) * _MIN_QUOTA_CHANGE and target_us != _MIN_QUOTA_US:
        return None
    step = cpus * CPU_PERIOD_US // 10
    return current_us + step if target_us - current_us > step else target_us


def cpu_count(budget: int, current: int, cpus: int) -> int:
    """Return the number of CPUs for best-effort pods: at least two, and at most a tenth of the node more than now."""
    return min(max(-(-budget // 1000), _MIN_CPUS), current + -(-cpus // 10))


def chosen_cpus(count: int, shared: Sequence[Cpu], reserved: Sequence[Cpu] = ()) -> list[int]:
    """Choose CPUs: whole cores first, spread over memory nodes, from shared and lent CPUs in proportion.

    Args:
        count: the number of CPUs to choose.
        shared: CPUs that are free or shared by latency-sensitive pods.
        reserved: CPUs that LSR pods lend.
    """
    if not shared and not reserved:
        return []
    lent = count * len(reserved) // (len(reserved) + len(shared))
    return _spread_cpus(lent, reserved) + _spread_cpus(count - lent, shared)


class Folder(NamedTuple):
    """A cgroup of best-effort pods: of the QoS class (depth 0), of a pod (1) or of a container (2)."""

    path: str
    depth: int
    own_cpus: bool = False


class Situation(NamedTuple):
    """The inputs of a decision.

    Attributes:
        enabled: the value of `enable` in NodeSLO; None if it is absent.
        by_quota: whether to use a quota instead of CPU sets.
        budget: the budget of best-effort pods in thousandths of a CPU; None while unknown.
        cpus: the number of CPUs of the node.
        quota: the quota of the QoS class in microseconds; None if its cgroup has no such file.
        present: the CPUs of the QoS class in force; None if its cgroup has no such file.
        shared: CPUs that are not exclusive to a pod.
        lent: the CPUs that LSR pods lend.
        folders: the cgroup of the QoS class, and the cgroups below it.
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
    """The suppression in force. Values are reset when suppression is switched off or the policy changes.

    Attributes:
        in_force: whether the policies `cpuset` and `cfsQuota` are in force; False after a reset, absent before the
            first use.
    """

    def __init__(self) -> None:
        self.in_force: dict[str, bool] = {}

    def decide(self, now: Situation) -> list[tuple[str, str, str]]:
        """Return the values to write: cgroup, knob and value. Values in force are left out."""
        if now.enabled is None or (now.enabled and now.budget is None):
            return []
        if not now.enabled:
            return [*self._free_quota(now), *self._recovery_writes(now)]
        assert now.budget is not None
        if now.by_quota:
            return [*self._by_quota(now, now.budget), *self._recovery_writes(now)]
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
            return _cpu_writes(now.folders, chosen)
        # The kubelet gives all CPUs of the QoS class to new containers, so only existing containers get fewer CPUs.
        numbers = [cpu.number for cpu in (*now.shared, *now.lent)]
        return [
            *_cpu_writes([folder for folder in now.folders if folder.depth < 2], numbers),
            *_cpu_writes([folder for folder in now.folders if folder.depth == 2], chosen),
        ]

    def _recovery_writes(self, now: Situation) -> list[tuple[str, str, str]]:
        """Return writes of all CPUs for best-effort pods, also for cgroups with other CPUs: a pool may have changed."""
        numbers = [cpu.number for cpu in (*now.shared, *now.lent)]
        if not numbers or now.present is None:
            return []
        self.in_force["cpuset"] = False
        return _cpu_writes(now.folders, numbers)


def _cpu_writes(folders: Iterable[Folder], cpus: Iterable[int]) -> list[tuple[str, str, str]]:
    text = cpuset.to_text(frozenset(cpus))
    return [(folder.path, "cpuset.cpus", text) for folder in folders if not folder.own_cpus]


def _spread_cpus(count: int, cpus: Sequence[Cpu]) -> list[int]:
    if not 0 < count <= len(cpus):
        return []
    groups: dict[tuple[int, int], list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda cpu_: (cpu_.core, cpu_.number)):
        groups.setdefault((cpu.socket, cpu.node), []).append(cpu)
    nodes = sorted(groups.values(), key=lambda group: (-len(group), group[0].number))
    pairs = _in_turn([_pairs(node) for node in nodes])[: count // 2]
    chosen = [cpu for pair in pairs for cpu in pair]
    used, enough = set(chosen), len(pairs) == count // 2
    # Single CPUs start with the node after the node of the last pair, or with the first node if pairs are missing.
    turn = next((place + 1 for place, node in enumerate(nodes) if enough and chosen and chosen[-1] in node), 0)
    turn %= len(nodes)
    remaining = [[(cpu,) for cpu in node if cpu not in used] for node in (*nodes[turn:], *nodes[:turn])]
    singles = [cpu for (cpu,) in _in_turn(remaining)]
    return [cpu.number for cpu in (*chosen, *singles[: count - len(chosen)])]


def _pairs(node: Sequence[Cpu]) -> list[tuple[Cpu, ...]]:
    """Return the pairs of threads that share a core."""
    pairs: list[tuple[Cpu, ...]] = []
    place = 0
    while place < len(node) - 1:
        if node[place].core == node[place + 1].core:
            pairs.append((node[place], node[place + 1]))
            place += 1
        place += 1
    return pairs


def _in_turn(lists: Iterable[Sequence[tuple[Cpu, ...]]]) -> list[tuple[Cpu, ...]]:
    """Return the first items of all lists, then the second items, and so on."""
    queues = [list(list_) for list_ in lists]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]


class CpuSuppress(Strategy):
    """The strategy that suppresses best-effort pods."""

    name = NAME
    samples = SampledCgroups.PODS | SampledCgroups.PROGRAMS

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self._suppression = Suppression()
        #: The exclusive CPUs of pods, from the last readable annotation.
        self._exclusive_by_pod: dict[str, frozenset[int]] = {}

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether NodeSLO switches suppression on."""
        return rules[THRESHOLD].enabled

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for the cgroups of best-effort pods."""
        rule, node = round_.rules[THRESHOLD], round_.parts.decisions.node
        self._exclusive_by_pod = {
            pod.uid: _exclusive_cpus(pod, self._exclusive_by_pod.get(pod.uid, frozenset())) for pod in round_.pods
        }
        enabled, budget, reason = rule.keys.get("enable"), None, "not suppressed: NodeSLO switches suppression off"
        if node.batch_pools:
            enabled, reason = False, "not suppressed: batch pods have their own share pools"
        elif enabled and round_.sample.milli is None:
            round_.cannot(NAME, "best-effort pods are not suppressed", round_.sample.no_cpu)
        elif enabled and round_.pods:  # an empty list of pods is probably incomplete
            budget, reason = self.budget(round_)
        subject = folder_subject(BEST_EFFORT)
        for folder, knob, value in self._suppression.decide(self._situation(round_, enabled, budget)):
            round_.set(subject, folder, knob, value, NAME, reason)

    @staticmethod
    def budget(round_: Round[NodeSlo]) -> tuple[int, str]:
        """Return the budget of best-effort pods in thousandths of a CPU, and its computation."""
        rule, capacity, used = round_.rules[THRESHOLD], round_.sample.cpus * 1000, _cpu_usage(round_)
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
            if self._exclusive_by_pod[pod.uid] or (apart and in_batch_pools(pod.labels, pod.annotations))
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
                Folder(path, depth, depth == 2 and above in pod_folders)
                for path, depth, above in _cgroups_below(round_, top)
            ],
            static=rule is not None and rule.kubelet_policy == "static",
        )

    def _pools(self, round_: Round[NodeSlo]) -> tuple[list[Cpu], list[Cpu]]:
        """Return the shared CPUs and the CPUs that LSR pods lend. Both are empty while reserved CPUs are unknown."""
        rule = round_.parts.decisions.node.cpus
        if rule is None and any(problem.kind == "NodeResourceTopology" for problem in round_.parts.store.problems()):
            round_.errors.append(f"{NAME}: the CPUs of batch pods stay unchanged: NodeResourceTopology cannot be read")
            return [], []
        class_by_cpu = {
            number: qos_class(pod.labels) for pod in round_.pods for number in self._exclusive_by_pod[pod.uid]
        }
        cpus = [Cpu(cpu.number, cpu.core, cpu.node, cpu.package) for cpu in round_.topology.cpus.values()]
        return pools(cpus, class_by_cpu, frozenset() if rule is None else rule.withheld)


def _program_folders(round_: Round[NodeSlo]) -> Iterator[tuple[str, bool]]:
    """Yield the cgroups of the host programs in NodeSLO, each with True if the program is best effort."""
    spec = (round_.parts.store.document("NodeSLO") or {}).get("spec") or {}
    try:
        listed = host_application.by_name(spec.get("hostApplications"))
    except (TypeError, ValueError):
        return
    for application in listed.values():
        context = context_of(application, round_.parts.driver)
        if context.folder:
            yield context.folder.strip("/"), offline_program(application)


def _cpu_usage(round_: Round[NodeSlo]) -> CpuUsage:
    """Return the current CPU usage. Unknown usage of a pod counts as system usage, which is the cautious choice."""
    pods = other_pods = programs = other_programs = 0.0
    for pod in round_.pods:
        milli = round_.sample.of(pod.folder).milli or 0
        pods += milli
        other_pods += 0 if pod_class.offline(pod.manifest) else milli
    for folder, offline in _program_folders(round_):
        milli = round_.sample.of(folder).milli or 0
        programs += milli
        other_programs += 0 if offline else milli
    return CpuUsage(round_.sample.milli or 0, pods, other_pods, programs, other_programs, _reserved(round_))


def _reserved(round_: Round[NodeSlo]) -> int:
    """Return the CPU that the node reserves in thousandths: the larger amount of its status and its annotation."""
    document = round_.parts.store.document("Node") or {}
    status = document.get("status") or {}
    reserved = reserved_milli((document.get("metadata") or {}).get("annotations") or {})
    try:
        amounts = [ceil(capped((status.get(part) or {})["cpu"]) * 1000) for part in ("capacity", "allocatable")]
    except (KeyError, TypeError, ValueError):
        return reserved
    return max(amounts[0] - amounts[1], reserved)


def _exclusive_cpus(pod: Pod, before: frozenset[int]) -> frozenset[int]:
    """Return the exclusive CPUs of a pod, or the earlier CPUs if the annotation cannot be read."""
    try:
        return cpuset.parse(own_cpuset(pod.annotations))
    except ValueError:
        return before


def _cgroups_below(round_: Round[NodeSlo], top: str) -> Iterator[tuple[str, int, str]]:
    """Yield a cgroup, the pods in it and their containers, each with its depth and its parent."""
    hierarchies = round_.parts.executor.hierarchies
    yield top, 0, ""
    for pod in hierarchies.below(top, "cpuset"):
        yield f"{top}/{pod}", 1, top
        for container in hierarchies.below(f"{top}/{pod}", "cpuset"):
            yield f"{top}/{pod}/{container}", 2, f"{top}/{pod}"


STRATEGY: Final = StrategyRow(
    NAME,
    True,
    "best-effort pods get the CPU that other pods leave",
    "nri.agent.koordinator.cpu_suppress:CpuSuppress",
    (
        OwnedKnob(Level.KUBE_QOS, "cpu.cfs_quota"),
        OwnedKnob(Level.KUBE_QOS, "cpuset.cpus"),
        OwnedKnob(Level.POD, "cpuset.cpus"),
        # For pods in the best-effort cgroup, which depends on requests, not on classes. For these pods the hook only
        # clears CPUs, or sets CPUs of batch share pools. With share pools, and for pods with exclusive CPUs, this
        # strategy does nothing.
        *(
            OwnedKnob(level, "cpuset.cpus", unless=frozenset({CPUSET_HOOK}))
            for level in (Level.SANDBOX, Level.CONTAINER)
        ),
    ),
    document_keys=((SLO, "resourceUsedThresholdWithBE"),),
)
