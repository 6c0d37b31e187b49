"""CPUBurst: containers that are throttled may borrow CPU, by `cpu.cfs_burst_us` and by a quota that grows in steps.

For pods that share CPUs: all but LSE, LSR and BE. The burst is static. The quota is scaled in steps between the limit
and three times that: up while the container is throttled, down while its token bucket is empty or the shared CPUs are
overloaded. Mainline kernels refuse a burst above the quota, so there it is cut to that. A quota that CPUNormalization
repairs is not scaled, because each would undo the other. Scaled values are put back when it is switched off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from nri.agent.koordinator import cpu_normalization, pod_class
from nri.agent.koordinator.documents import SLO, NodeSlo, Part, PodAnnotation
from nri.agent.koordinator.names import BE, LS, LSE, LSR, NONE, SYSTEM, qos_class
from nri.agent.koordinator.node import NO_RATIO
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.model import BVT, QUOTA, Pod
from nri.agent.ownership import Level, Owns
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.host import Unsupported, probe
from nri.kube import cgroup_limits as formulas
from nri.kube.pod_resources import container_amounts
from nri.kube.quantity import CPU_PERIOD_US
from nri.kube.shapes import Record, decode, fit

ANNOTATION_BURST: Final = "koordinator.sh/cpuBurst"
#: NodeSLO's keys, which are also those of the annotation, by field of `BurstConfig`.
BURST_FIELDS: Final = {
    "policy": "policy",
    "cpuBurstPercent": "burst_percent",
    "cfsQuotaBurstPercent": "quota_percent",
    "cfsQuotaBurstPeriodSeconds": "quota_seconds",
    "sharePoolThresholdPercent": "pool_percent",
}
#: The least and the most that each number may be.
BURST_RANGES: Final = {
    "cpuBurstPercent": (1, 10_000),
    "cfsQuotaBurstPercent": (100, 10_000),
    "cfsQuotaBurstPeriodSeconds": (-1, 86_400),
    "sharePoolThresholdPercent": (0, 100),
}
SHAPE: Final = Record({name: str if name == "policy" else int for name in BURST_FIELDS})
_UP, _DOWN, _COOLING = 1.2, 0.8, 0.9
#: Usage in percent of the limit: from here on tokens are spent, and below there they are saved.
_SPEND_FROM, _SAVE_BELOW = 100, 60
NAME: Final = "CPUBurst"
_BURST: Final = "cpu.cfs_burst"
#: The seconds over which the use of the shared CPUs is averaged, and the number of samples in them at most.
_POOL_WINDOW_S: Final = 5.0
_MAX_SAMPLES: Final = 64


class BurstConfig(NamedTuple):
    """NodeSLO's `cpuBurstStrategy`: policy none, cpuBurstOnly, cfsQuotaBurstOnly or auto; -1 seconds is no bucket."""

    policy: str = "none"
    burst_percent: int = 1000
    quota_percent: int = 300
    quota_seconds: int = -1
    pool_percent: int = 50

    @property
    def bursts(self) -> bool:
        """Whether `cpu.cfs_burst_us` is set."""
        return self.policy in ("auto", "cpuBurstOnly")

    @property
    def scales(self) -> bool:
        """Whether quotas are scaled."""
        return self.policy in ("auto", "cfsQuotaBurstOnly")


def burst_of(annotation: str | None, node: BurstConfig) -> BurstConfig:
    """Return what holds for a pod: its annotation over the node's word, field by field. Raises ValueError."""
    if not annotation:
        return node
    return burst_from(decode(annotation, SHAPE), node, "")


def burst_from(given: Any, base: BurstConfig, where: str) -> BurstConfig:
    """Return what is written of bursts over what holds without it. Raises ValueError naming the place, `where`."""
    found = fit(given, SHAPE, where)
    return base._replace(**{BURST_FIELDS[name]: value for name, value in found.items() if value != ""})


class Pool(Enum):
    """The load of the CPUs that pods share."""

    IDLE = "idle"
    COOLING = "cooling"
    OVERLOADED = "overloaded"
    UNKNOWN = "unknown"


class Step(Enum):
    """The change of a container's quota."""

    UP = "up"
    DOWN = "down"
    KEEP = "keep"
    RESET = "reset"


class Bucket:
    """Tokens of one container: percent of its limit, times seconds.

    It starts at a quarter of its capacity, the mean of Koordinator's random start: a container that is busy from its
    start, or when the agent starts again, keeps its burst for a while.

    Attributes:
        capacity: the most, and below 0 the least, that it holds.
        tokens: what it holds.
    """

    def __init__(self, config: BurstConfig, now: float) -> None:
        self.capacity = config.quota_seconds * (config.quota_percent - 100)
        self.tokens: float = self.capacity / 4
        self._seen = now

    def allows(self, usage_percent: int, now: float) -> bool:
        """Spend or save for the time since the last call; return whether any tokens are left."""
        passed = int(now - self._seen)
        if usage_percent >= _SPEND_FROM or usage_percent < _SAVE_BELOW:
            self.tokens -= (usage_percent - 100) * passed
        self.tokens = max(min(self.tokens, self.capacity), -self.capacity)
        self._seen = now
        return self.tokens > 0


def burst_us(limit_milli: int, config: BurstConfig) -> int:
    """Return `cpu.cfs_burst_us` for a CPU limit; 0 for none, or while bursts are off."""
    if not config.bursts or limit_milli <= 0:
        return 0
    return int(limit_milli / 1000 * (config.burst_percent / 100) * CPU_PERIOD_US)  # floating point, as in Koordinator


def pool_state(used: float | None, total: float, percent: int = 50) -> Pool:
    """Return how loaded the shared CPUs are; a pool without CPUs is full."""
    if used is None:
        return Pool.UNKNOWN
    ratio = used / total if total > 0 else 1.0
    if ratio >= percent / 100:
        return Pool.OVERLOADED
    return Pool.COOLING if ratio >= percent / 100 * _COOLING else Pool.IDLE


def wanted_step(config: BurstConfig, allowed: bool, throttled: bool | None) -> Step:
    """Return what a container wants. `throttled` is None if that is not known."""
    if not config.scales:
        return Step.RESET
    if not allowed:
        return Step.DOWN
    return Step.UP if throttled else Step.KEEP


def final_step(wanted: Step, pool: Pool) -> Step:
    """Return what is done: an overloaded pool scales down, and one that is cooling or not known does not scale up."""
    if pool is Pool.OVERLOADED and wanted in (Step.UP, Step.KEEP):
        return Step.DOWN
    if pool in (Pool.COOLING, Pool.UNKNOWN) and wanted is Step.UP:
        return Step.KEEP
    return wanted


def next_quota_us(current: int, base: int, step: Step, percent: int = 300) -> int:
    """Return a container's next quota, between what was asked for and `percent` of that."""
    most: Final = max(base, base * percent // 100)
    target = {Step.UP: int(current * _UP), Step.DOWN: int(current * _DOWN), Step.RESET: base}.get(step, current)
    return max(base, min(target, most))


class BurstContainer(NamedTuple):
    """A container of a pod that shares CPUs.

    Attributes:
        name: its id.
        folder: of its cgroup.
        limit: thousandths of a CPU; 0 is none.
        quota: in force, in microseconds; -1 is none, None cannot be set.
        burst: in force; None cannot be set.
        used: thousandths of a CPU; None is not known.
        throttled: whether its quota was used up; None is not known.
        running: whether it runs; quotas of others are left as they are.
    """

    name: str
    folder: str
    limit: int
    quota: int | None
    burst: int | None
    used: float | None
    throttled: bool | None
    running: bool = True


class BurstPod(NamedTuple):
    """A pod that shares CPUs: its folder, what holds for it, and quota and burst in force as of a container."""

    folder: str
    config: BurstConfig
    containers: Sequence[BurstContainer]
    quota: int | None
    burst: int | None


class Write(NamedTuple):
    """A value that is to be written, and why; `name` is the container's id, "" for the pod itself."""

    name: str
    folder: str
    knob: str
    value: int
    reason: str


class Bursts:
    """Bursts and scaled quotas over time.

    Args:
        above_quota: whether the kernel takes a burst above the quota; mainline kernels do not.

    Attributes:
        buckets: the tokens of containers, by id.
        unchanged: why quotas stayed as they were in the last round, by container id.
    """

    def __init__(self, *, above_quota: bool = False) -> None:
        self.above_quota = above_quota
        self.buckets: dict[str, Bucket] = {}
        self.unchanged: dict[str, str] = {}

    def decide(self, pods: Iterable[BurstPod], pool: Pool, now: float, *, scale: bool = True) -> list[Write]:
        """Return what is to be written, in order.

        Args:
            pods: those that share CPUs.
            pool: the load of these CPUs.
            now: monotonic seconds.
            scale: whether quotas are this strategy's at all.
        """
        listed = list(pods)
        seen = {each.name for pod in listed for each in pod.containers}
        self.buckets = {name: bucket for name, bucket in self.buckets.items() if name in seen}
        self.unchanged = {} if scale else dict.fromkeys(seen, "CPUNormalization sets its quota")
        return [
            write for pod in listed for write in (*self._bursts(pod), *(self._quotas(pod, pool, now) if scale else ()))
        ]

    def _bursts(self, pod: BurstPod) -> list[Write]:
        reason = "cpuBurstStrategy" if pod.config.bursts else "cpuBurstStrategy has it off"
        writes, total = [], 0
        for each in pod.containers:
            wanted = self._cut(burst_us(each.limit, pod.config), each.quota)
            total += wanted
            if each.burst is not None and each.burst != wanted:
                writes.append(Write(each.name, each.folder, "cpu.cfs_burst", wanted, reason))
        total = self._cut(total, pod.quota)
        if pod.burst is not None and pod.burst != total:
            writes.append(Write("", pod.folder, "cpu.cfs_burst", total, reason))
        return writes

    def _cut(self, burst: int, quota: int | None) -> int:
        return burst if self.above_quota else min(burst, max(quota or 0, 0))

    def _quotas(self, pod: BurstPod, pool: Pool, now: float) -> list[Write]:
        """Quotas of the containers; the pod's grows before them, and shrinks after them."""
        writes: list[Write] = []
        of_pod = pod.quota
        if of_pod is None:  # it is not known whether a container's quota would be above the pod's
            self.unchanged |= dict.fromkeys((each.name for each in pod.containers), "the pod's quota cannot be read")
            return []
        for each in pod.containers:
            base = formulas.quota_us(each.limit)
            if (reason := _no_quota(each, base)) or each.quota is None:
                self.unchanged[each.name] = reason
                continue
            wanted = wanted_step(pod.config, self._allows(pod.config, each, now), each.throttled)
            step = final_step(wanted, pool)
            target = next_quota_us(each.quota, base, step, pod.config.quota_percent)
            if target == each.quota:
                self.unchanged[each.name] = _same_quota(pod.config, wanted, step, pool)
                continue
            found = [
                Write(
                    each.name, each.folder, "cpu.cfs_quota", target, f"{step.value}: the shared CPUs are {pool.value}"
                )
            ]
            if of_pod > 0:
                of_pod += target - each.quota
                why = "its containers' quotas have changed by as much"
                found.insert(0 if target > each.quota else 1, Write("", pod.folder, "cpu.cfs_quota", of_pod, why))
            writes += found
        return writes

    def _allows(self, config: BurstConfig, container: BurstContainer, now: float) -> bool:
        if not config.scales or config.quota_seconds < 0:
            return True
        if config.quota_percent < 100:
            return False
        bucket = self.buckets.get(container.name)
        if bucket is None or bucket.capacity != config.quota_seconds * (config.quota_percent - 100):
            bucket = self.buckets[container.name] = Bucket(config, now)
        used = container.limit if container.used is None else container.used
        return bucket.allows(int(used / container.limit * 100), now)


def _no_quota(container: BurstContainer, base: int) -> str:
    """Return why a container has no quota to scale; "" if it has one."""
    if not container.running:
        return "the container does not run"
    if base <= 0:
        return "it has no CPU limit"
    if container.quota is None:
        return "its quota cannot be read"
    return "" if container.quota > 0 else "its quota is unlimited"


def _same_quota(config: BurstConfig, wanted: Step, step: Step, pool: Pool) -> str:
    """Return why a container's next quota is the present one."""
    if wanted is Step.RESET:
        return f"policy {config.policy} does not raise quotas"
    if wanted is Step.DOWN:
        return "its token bucket is empty"
    if wanted is Step.KEEP:
        return "it was not throttled in the last round"
    if step is Step.UP:
        return f"its quota is the highest, {config.quota_percent} % of its limit"
    load = "not known yet" if pool is Pool.UNKNOWN else pool.value
    return f"the use of the shared CPUs is {load}; quotas rise below {config.pool_percent * _COOLING:g} %"


_POLICIES = ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto")


def _burst(given: Any) -> BurstConfig:
    found = burst_from({} if given is None else given, BurstConfig(), "cpuBurstStrategy")
    return _checked_burst(found, "cpuBurstStrategy")


def _checked_burst(config: BurstConfig, where: str = "") -> BurstConfig:
    place = f"{where}." if where else ""
    if config.policy not in _POLICIES:
        raise ValueError(f"{place}policy: there is no policy {config.policy[:40]!r}; there are {', '.join(_POLICIES)}")
    for key, (least, most) in BURST_RANGES.items():
        if not least <= (value := getattr(config, BURST_FIELDS[key])) <= most:
            raise ValueError(f"{place}{key}: {value} is not from {least} to {most}")
    return config


def _pod_burst(text: str, node: BurstConfig) -> BurstConfig:
    return _checked_burst(burst_of(text, node))


class CpuBurst(Strategy):
    """Lets containers run ahead of their quota."""

    name = NAME
    samples = Sampled.PODS | Sampled.CONTAINERS
    key = ANNOTATION_BURST

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.bursts = Bursts()
        self._looked_once = False
        #: Why values stayed as they were in the last round, by the pod's uid and the container's name.
        self._unchanged: dict[str, dict[str, str]] = {}
        self._pool = Pool.UNKNOWN
        #: The samples of the last seconds.
        self.recent: deque[Sample] = deque(maxlen=_MAX_SAMPLES)
        #: Containers that are to be put back when it is switched off.
        self._touched: set[str] = set()

    def __len__(self) -> int:
        """The number of containers that are remembered."""
        return len(self.bursts.buckets) + len(self._touched)

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: bursts that are asked for, or quotas that were scaled."""
        return rules[BURST].policy != "none" or bool(self._touched)

    def state(self, now: float) -> str:  # noqa: ARG002  no time in it
        """Say how loaded the CPUs are that pods share."""
        return f"the use of the shared CPUs is {'not known' if self._pool is Pool.UNKNOWN else self._pool.value}"

    def unchanged(self, uid: str) -> Mapping[str, str]:
        """Return why quotas of a pod's containers stayed as they were, by container; "" is the pod itself."""
        return self._unchanged.get(uid, {})

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for the pods that share CPUs."""
        hierarchies = round_.parts.executor.hierarchies
        self.bursts.above_quota = not isinstance(probe(hierarchies, BVT), Unsupported)
        looked: dict[str, Pod] = {}
        decided: list[BurstPod] = []
        unchanged: dict[str, dict[str, str]] = {}
        self._pool = self.pool(round_)
        for pod in round_.pods:
            if not pod_class.cpu_burstable(pod.manifest):
                unchanged[pod.uid] = {"": f"pods of class {qos_class(pod.labels)} share no CPUs, and so have no burst"}
                continue
            config = POD_BURST.in_round(round_, pod)
            ids = {each.id for each in pod.containers}
            if config.policy == "none" and self._looked_once and not self._touched & ids:
                continue
            self._touched = self._touched | ids if config.scales else self._touched - ids
            if config.scales:
                round_.cannot(NAME, "no quota grows", round_.sample.no_cpu)
            looked[pod.folder] = pod
            looked.update((each.folder, pod) for each in pod.containers)
            decided.append(self._pod(round_, pod, config))
        self._looked_once = True
        self._touched &= {each.name for pod in decided for each in pod.containers}
        scale = not _normalized(round_)
        for write in self.bursts.decide(decided, self._pool, round_.sample.at, scale=scale):
            one = looked[write.folder]
            name = next((each.name for each in one.containers if write.name and each.id == write.name), "")
            round_.set(one.subject(name), write.folder, write.knob, write.value, NAME, write.reason)
        for pod in looked.values():
            reasons = {each.name: self.bursts.unchanged.get(each.id, "") for each in pod.containers}
            unchanged[pod.uid] = {name: reason for name, reason in reasons.items() if reason}
        self._unchanged = unchanged

    def pool(self, round_: Round[NodeSlo]) -> Pool:
        """Return the load of the CPUs that pods share, on average over the last seconds.

        The CPUs of LSE and LSR pods are not part of them, and what BE pods use does not count.
        """
        self.recent.append(round_.sample)
        while round_.sample.at - self.recent[0].at >= _POOL_WINDOW_S:
            self.recent.popleft()
        used = _mean_cores(sample.milli for sample in self.recent)
        if used is None:
            return Pool.UNKNOWN
        total = float(round_.sample.cpus)
        for pod in round_.pods:
            qos = qos_class(pod.labels)
            if qos in (LSE, LSR):
                total -= pod_class.request(pod.manifest, "cpu") / 1000
            if qos in (LSE, LSR, BE):
                used -= _mean_cores(sample.of(pod.folder).milli for sample in self.recent) or 0
        return pool_state(max(used, 0), total, round_.rules[BURST].pool_percent)

    def _pod(self, round_: Round[NodeSlo], pod: Pod, config: BurstConfig) -> BurstPod:
        running, specs = _running(pod), {each.get("name", ""): each for each in pod.specs}
        containers = []
        for each in pod.containers:
            used = round_.sample.of(each.folder)
            limit, quota, burst = _limit_milli(specs.get(each.name, {})), *_knobs(round_, each.folder)
            one = BurstContainer(each.id, each.folder, limit, quota, burst, used.milli, used.throttled)
            containers.append(one._replace(running=each.name in running))
        return BurstPod(pod.folder, config, containers, *_knobs(round_, pod.folder))


def _knobs(round_: Round[NodeSlo], folder: str) -> tuple[int | None, int | None]:
    """Quota and burst of a folder, as far as they can be known."""
    quota, burst = round_.read(folder, QUOTA), round_.read(folder, _BURST)
    return (quota if isinstance(quota, int) else None), (burst if isinstance(burst, int) else None)


def _running(pod: Pod) -> frozenset[str]:
    """The containers that are not known to wait."""
    statuses = (pod.manifest.get("status") or {}).get("containerStatuses") or ()
    return frozenset(each.get("name", "") for each in statuses if "waiting" not in (each.get("state") or {}))


def _normalized(round_: Round[NodeSlo]) -> bool:
    node = round_.parts.decisions.node
    on = node.gates is not None and cpu_normalization.NAME in node.gates
    return on and node.ratio != NO_RATIO


def _mean_cores(milli: Iterable[float | None]) -> float | None:
    """Return the mean of the known values in CPUs, from thousandths of CPUs; None if none is known."""
    cores = [value / 1000 for value in milli if value is not None]
    return sum(cores) / len(cores) if cores else None


def _limit_milli(container: Mapping[str, Any]) -> int:
    """The CPU limit of a container in thousandths of a CPU; 0 for none."""
    return max(formulas.milli(container_amounts(container, "limits"), "cpu"), 0)


BURST: Final = Part(lambda spec: _burst(spec.get("cpuBurstStrategy")), BurstConfig())
POD_BURST: Final = PodAnnotation(
    NAME, ANNOTATION_BURST, lambda text, rules, _: _pod_burst(text, rules[BURST]), lambda rules, _: rules[BURST]
)
#: The classes of pods that share CPUs, and so may run ahead of their quota.
_SHARING: Final = frozenset({LS, NONE, SYSTEM})
STRATEGY: Final = StrategyRow(
    NAME,
    True,
    "containers that are throttled may borrow CPU",
    "nri.agent.koordinator.cpu_burst:CpuBurst",
    tuple(
        owns
        for level in (Level.POD, Level.CONTAINER)
        for owns in (
            Owns(level, "cpu.cfs_burst", _SHARING),
            # A quota that is scaled to the node's CPUs is repaired each round, and so not borrowed on.
            Owns(level, "cpu.cfs_quota", _SHARING, False, frozenset({cpu_normalization.NAME})),
        )
    ),
    ANNOTATION_BURST,
    document_keys=((SLO, "cpuBurstStrategy"),),
)
