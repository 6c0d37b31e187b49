"""CPU burst: how far a container may run ahead of its quota, and quotas that grow while the node has room.

`cpu.cfs_burst_us` is static. The quota is scaled in steps between what was asked for and three times that: up while the
container is throttled, down while its token bucket is empty or the share pool is overloaded. Next:
`nri.agent.koordinator.decisions.evict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from nri.kube.quantity import CPU_PERIOD_US
from nri.policies import formulas
from nri.policies.shapes import Record, decode, fit

__all__ = [
    "ANNOTATION_BURST",
    "BURST_FIELDS",
    "BURST_RANGES",
    "SHAPE",
    "Bucket",
    "BurstConfig",
    "Bursts",
    "Container",
    "Pod",
    "Pool",
    "Step",
    "Write",
    "burst_from",
    "burst_of",
    "burst_us",
    "final_step",
    "next_quota_us",
    "pool_state",
    "wanted_step",
]

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


class Container(NamedTuple):
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


class Pod(NamedTuple):
    """A pod that shares CPUs: its folder, what holds for it, and quota and burst in force as of a container."""

    folder: str
    config: BurstConfig
    containers: Sequence[Container]
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

    def decide(self, pods: Iterable[Pod], pool: Pool, now: float, *, scale: bool = True) -> list[Write]:
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

    def _bursts(self, pod: Pod) -> list[Write]:
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

    def _quotas(self, pod: Pod, pool: Pool, now: float) -> list[Write]:
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

    def _allows(self, config: BurstConfig, container: Container, now: float) -> bool:
        if not config.scales or config.quota_seconds < 0:
            return True
        if config.quota_percent < 100:
            return False
        bucket = self.buckets.get(container.name)
        if bucket is None or bucket.capacity != config.quota_seconds * (config.quota_percent - 100):
            bucket = self.buckets[container.name] = Bucket(config, now)
        used = container.limit if container.used is None else container.used
        return bucket.allows(int(used / container.limit * 100), now)


def _no_quota(container: Container, base: int) -> str:
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
