"""The strategy CPUBurst: throttled containers may borrow CPU, by `cpu.cfs_burst_us` and by a quota that grows in steps.

It applies to pods that share CPUs: all pods except LSE, LSR and BE. The burst is static. The quota changes in steps
between the limit and three times the limit: up while the container is throttled, down while its token bucket is empty
or the shared CPUs are overloaded. Mainline kernels refuse a burst above the quota, so the burst is reduced to the quota
there. CPUNormalization also sets quotas; a quota that it sets is not scaled. Scaled quotas are restored when the
strategy is switched off.
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
from nri.agent.loops.strategy import SampledCgroups, Strategy
from nri.agent.model import BVT, QUOTA, Pod
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.host import Unsupported, probe
from nri.kube import cgroup_limits as formulas
from nri.kube.pod_resources import container_amounts
from nri.kube.quantity import CPU_PERIOD_US
from nri.kube.shapes import Record, decode, fit

ANNOTATION_BURST: Final = "koordinator.sh/cpuBurst"
#: The field of `BurstConfig` for each key of NodeSLO and of the annotation.
BURST_FIELDS: Final = {
    "policy": "policy",
    "cpuBurstPercent": "burst_percent",
    "cfsQuotaBurstPercent": "quota_percent",
    "cfsQuotaBurstPeriodSeconds": "quota_seconds",
    "sharePoolThresholdPercent": "pool_percent",
}
#: The minimum and maximum of each number.
BURST_RANGES: Final = {
    "cpuBurstPercent": (1, 10_000),
    "cfsQuotaBurstPercent": (100, 10_000),
    "cfsQuotaBurstPeriodSeconds": (-1, 86_400),
    "sharePoolThresholdPercent": (0, 100),
}
SHAPE: Final = Record({name: str if name == "policy" else int for name in BURST_FIELDS})
_UP, _DOWN, _COOLING = 1.2, 0.8, 0.9
#: Usage in percent of the limit: tokens are spent at 100 % or more, and saved below 60 %.
_SPEND_FROM, _SAVE_BELOW = 100, 60
NAME: Final = "CPUBurst"
_BURST: Final = "cpu.cfs_burst"
#: The time in seconds over which the use of the shared CPUs is averaged.
_POOL_WINDOW_S: Final = 5.0
#: The maximum number of samples in this time.
_MAX_SAMPLES: Final = 64


class BurstConfig(NamedTuple):
    """NodeSLO's `cpuBurstStrategy`.

    The policy is none, cpuBurstOnly, cfsQuotaBurstOnly or auto. -1 s means no bucket.
    """

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
    """Return the configuration of a pod: fields of its annotation replace the node's.

    Raises ValueError if it is malformed.
    """
    if not annotation:
        return node
    return burst_from(decode(annotation, SHAPE), node, "")


def burst_from(document: Any, base: BurstConfig, where: str) -> BurstConfig:
    """Return `base` with the fields of a document. Raises ValueError, which names `where`, if a field is malformed."""
    fields = fit(document, SHAPE, where)
    return base._replace(**{BURST_FIELDS[name]: value for name, value in fields.items() if value != ""})


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
    """The tokens of one container, in percent of its limit times seconds.

    It starts with a quarter of its capacity, the mean of Koordinator's random start. So a container that is busy when
    the container or the agent starts keeps its burst for a while.

    Attributes:
        capacity: the maximum number of tokens; the minimum is the same number below 0.
        tokens: the current number.
    """

    def __init__(self, config: BurstConfig, now: float) -> None:
        self.capacity = config.quota_seconds * (config.quota_percent - 100)
        self.tokens: float = self.capacity / 4
        self._updated_at = now

    def allows(self, usage_percent: int, now: float) -> bool:
        """Spend or save tokens for the time since the last call, and return whether tokens are left."""
        passed = int(now - self._updated_at)
        if usage_percent >= _SPEND_FROM or usage_percent < _SAVE_BELOW:
            self.tokens -= (usage_percent - 100) * passed
        self.tokens = max(min(self.tokens, self.capacity), -self.capacity)
        self._updated_at = now
        return self.tokens > 0


def burst_us(limit_milli: int, config: BurstConfig) -> int:
    """Return `cpu.cfs_burst_us` for a CPU limit, or 0 if there is no limit or bursts are off."""
    if not config.bursts or limit_milli <= 0:
        return 0
    return int(limit_milli / 1000 * (config.burst_percent / 100) * CPU_PERIOD_US)  # floating point, as in Koordinator


def pool_state(used: float | None, total: float, percent: int = 50) -> Pool:
    """Return the load of the shared CPUs. A pool without CPUs counts as overloaded."""
    if used is None:
        return Pool.UNKNOWN
    ratio = used / total if total > 0 else 1.0
    if ratio >= percent / 100:
        return Pool.OVERLOADED
    return Pool.COOLING if ratio >= percent / 100 * _COOLING else Pool.IDLE


def wanted_step(config: BurstConfig, allowed: bool, throttled: bool | None) -> Step:
    """Return the step that the usage of a container requires. `throttled` is None if unknown."""
    if not config.scales:
        return Step.RESET
    if not allowed:
        return Step.DOWN
    return Step.UP if throttled else Step.KEEP


def final_step(requested: Step, pool: Pool) -> Step:
    """Return the step to take: an overloaded pool scales down; a cooling or unknown pool does not scale up."""
    if pool is Pool.OVERLOADED and requested in (Step.UP, Step.KEEP):
        return Step.DOWN
    if pool in (Pool.COOLING, Pool.UNKNOWN) and requested is Step.UP:
        return Step.KEEP
    return requested


def next_quota_us(current: int, base: int, step: Step, percent: int = 300) -> int:
    """Return a container's next quota, between the requested quota and `percent` of it."""
    maximum: Final = max(base, base * percent // 100)
    target = {Step.UP: int(current * _UP), Step.DOWN: int(current * _DOWN), Step.RESET: base}.get(step, current)
    return max(base, min(target, maximum))


class BurstContainer(NamedTuple):
    """A container of a pod that shares CPUs.

    Attributes:
        name: the id of the container.
        folder: the cgroup of the container.
        limit: the CPU limit in thousandths of a CPU; 0 means no limit.
        quota: the quota in force, in microseconds; -1 means unlimited, None means that it cannot be set.
        burst: the burst in force; None means that it cannot be set.
        used: the CPU usage in thousandths of a CPU; None if unknown.
        throttled: whether the container was throttled; None if unknown.
        running: whether the container runs; otherwise its quota stays unchanged.
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
    """A pod that shares CPUs: cgroup, configuration, containers, and the quota and burst in force."""

    folder: str
    config: BurstConfig
    containers: Sequence[BurstContainer]
    quota: int | None
    burst: int | None


class Write(NamedTuple):
    """A value to write, with its reason. `name` is the id of the container, or "" for the pod itself."""

    name: str
    folder: str
    knob: str
    value: int
    reason: str


class Bursts:
    """Decides on bursts and scaled quotas, with state from earlier rounds.

    Args:
        above_quota: whether the kernel accepts a burst above the quota; mainline kernels do not.

    Attributes:
        buckets: the token buckets of containers, by id.
        unchanged: why quotas stayed unchanged in the last round, by container id.
    """

    def __init__(self, *, above_quota: bool = False) -> None:
        self.above_quota = above_quota
        self.buckets: dict[str, Bucket] = {}
        self.unchanged: dict[str, str] = {}

    def decide(self, pods: Iterable[BurstPod], pool: Pool, now: float, *, scale: bool = True) -> list[Write]:
        """Return the values to write, in order.

        Args:
            pods: the pods that share CPUs.
            pool: the load of the shared CPUs.
            now: the current time in monotonic seconds.
            scale: whether this strategy may set quotas.
        """
        listed = list(pods)
        names = {container.name for pod in listed for container in pod.containers}
        self.buckets = {name: bucket for name, bucket in self.buckets.items() if name in names}
        self.unchanged = {} if scale else dict.fromkeys(names, "CPUNormalization sets the quota")
        return [
            write for pod in listed for write in (*self._bursts(pod), *(self._quotas(pod, pool, now) if scale else ()))
        ]

    def _bursts(self, pod: BurstPod) -> list[Write]:
        reason = "cpuBurstStrategy" if pod.config.bursts else "cpuBurstStrategy switches bursts off"
        writes, total = [], 0
        for container in pod.containers:
            burst = self._cut(burst_us(container.limit, pod.config), container.quota)
            total += burst
            if container.burst is not None and container.burst != burst:
                writes.append(Write(container.name, container.folder, "cpu.cfs_burst", burst, reason))
        total = self._cut(total, pod.quota)
        if pod.burst is not None and pod.burst != total:
            writes.append(Write("", pod.folder, "cpu.cfs_burst", total, reason))
        return writes

    def _cut(self, burst: int, quota: int | None) -> int:
        return burst if self.above_quota else min(burst, max(quota or 0, 0))

    def _quotas(self, pod: BurstPod, pool: Pool, now: float) -> list[Write]:
        """Return the quotas of the containers. The pod's quota grows before them, and shrinks after them."""
        writes: list[Write] = []
        of_pod = pod.quota
        if of_pod is None:  # the container's quota might exceed the pod's
            self.unchanged |= dict.fromkeys(
                (container.name for container in pod.containers), "the pod's quota cannot be read"
            )
            return []
        for scaled in pod.containers:
            base = formulas.quota_us(scaled.limit)
            if (reason := _no_quota(scaled, base)) or scaled.quota is None:
                self.unchanged[scaled.name] = reason
                continue
            requested = wanted_step(pod.config, self._bucket_allows(pod.config, scaled, now), scaled.throttled)
            step = final_step(requested, pool)
            target = next_quota_us(scaled.quota, base, step, pod.config.quota_percent)
            if target == scaled.quota:
                self.unchanged[scaled.name] = _same_quota(pod.config, requested, step, pool)
                continue
            quota_writes = [
                Write(
                    scaled.name,
                    scaled.folder,
                    "cpu.cfs_quota",
                    target,
                    f"{step.value}: the shared CPUs are {pool.value}",
                )
            ]
            if of_pod > 0:
                of_pod += target - scaled.quota
                why = "the sum of the containers' changes"
                quota_writes.insert(
                    0 if target > scaled.quota else 1, Write("", pod.folder, "cpu.cfs_quota", of_pod, why)
                )
            writes += quota_writes
        return writes

    def _bucket_allows(self, config: BurstConfig, container: BurstContainer, now: float) -> bool:
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
    """Return why a container's quota cannot be scaled, or "" if it can."""
    if not container.running:
        return "the container does not run"
    if base <= 0:
        return "the container has no CPU limit"
    if container.quota is None:
        return "the quota cannot be read"
    return "" if container.quota > 0 else "the quota is unlimited"


def _same_quota(config: BurstConfig, requested: Step, step: Step, pool: Pool) -> str:
    """Return why a container's quota stays unchanged."""
    if requested is Step.RESET:
        return f"policy {config.policy} does not raise quotas"
    if requested is Step.DOWN:
        return "the token bucket is empty"
    if requested is Step.KEEP:
        return "the container was not throttled in the last round"
    if step is Step.UP:
        return f"the quota has reached the maximum, {config.quota_percent} % of the limit"
    load = "not known yet" if pool is Pool.UNKNOWN else pool.value
    return f"the use of the shared CPUs is {load}; quotas rise below {config.pool_percent * _COOLING:g} %"


_POLICIES = ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto")


def _burst(document: Any) -> BurstConfig:
    config = burst_from({} if document is None else document, BurstConfig(), "cpuBurstStrategy")
    return _checked_burst(config, "cpuBurstStrategy")


def _checked_burst(config: BurstConfig, where: str = "") -> BurstConfig:
    place = f"{where}." if where else ""
    if config.policy not in _POLICIES:
        raise ValueError(f"{place}policy: unknown policy {config.policy[:40]!r}; choose from {', '.join(_POLICIES)}")
    for key, (minimum, maximum) in BURST_RANGES.items():
        if not minimum <= (value := getattr(config, BURST_FIELDS[key])) <= maximum:
            raise ValueError(f"{place}{key}: {value} is not between {minimum} and {maximum}")
    return config


def _pod_burst(text: str, node: BurstConfig) -> BurstConfig:
    return _checked_burst(burst_of(text, node))


class CpuBurst(Strategy):
    """The strategy that lets throttled containers borrow CPU."""

    name = NAME
    samples = SampledCgroups.PODS | SampledCgroups.CONTAINERS
    key = ANNOTATION_BURST

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.bursts = Bursts()
        self._has_run = False
        #: Why values stayed unchanged in the last round, by the uid of the pod and the name of the container.
        self._unchanged: dict[str, dict[str, str]] = {}
        self._pool = Pool.UNKNOWN
        #: The samples of the last `_POOL_WINDOW_S`.
        self.recent: deque[Sample] = deque(maxlen=_MAX_SAMPLES)
        #: Containers whose quotas are restored when the strategy is switched off.
        self._scaled_containers: set[str] = set()

    def __len__(self) -> int:
        """The number of remembered containers."""
        return len(self.bursts.buckets) + len(self._scaled_containers)

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether bursts are requested or quotas have been scaled."""
        return rules[BURST].policy != "none" or bool(self._scaled_containers)

    def state(self, now: float) -> str:  # noqa: ARG002  the state does not depend on the time
        """Return the load of the CPUs that pods share."""
        return f"the use of the shared CPUs is {'not known' if self._pool is Pool.UNKNOWN else self._pool.value}"

    def unchanged(self, uid: str) -> Mapping[str, str]:
        """Return why quotas of a pod stayed unchanged, by container. The key "" stands for the pod itself."""
        return self._unchanged.get(uid, {})

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for the pods that share CPUs."""
        hierarchies = round_.parts.executor.hierarchies
        self.bursts.above_quota = not isinstance(probe(hierarchies, BVT), Unsupported)
        pod_by_folder: dict[str, Pod] = {}
        decided: list[BurstPod] = []
        unchanged: dict[str, dict[str, str]] = {}
        self._pool = self.pool(round_)
        for pod in round_.pods:
            if not pod_class.cpu_burstable(pod.manifest):
                unchanged[pod.uid] = {
                    "": f"pods of class {qos_class(pod.labels)} have no burst, because they do not share CPUs"
                }
                continue
            config = POD_BURST.in_round(round_, pod)
            ids = {container.id for container in pod.containers}
            if config.policy == "none" and self._has_run and not self._scaled_containers & ids:
                continue
            self._scaled_containers = self._scaled_containers | ids if config.scales else self._scaled_containers - ids
            if config.scales:
                round_.cannot(NAME, "quotas do not grow", round_.sample.no_cpu)
            pod_by_folder[pod.folder] = pod
            pod_by_folder.update((container.folder, pod) for container in pod.containers)
            decided.append(self._pod(round_, pod, config))
        self._has_run = True
        self._scaled_containers &= {container.name for pod in decided for container in pod.containers}
        scale = not _is_normalized(round_)
        for write in self.bursts.decide(decided, self._pool, round_.sample.at, scale=scale):
            one = pod_by_folder[write.folder]
            name = next(
                (container.name for container in one.containers if write.name and container.id == write.name), ""
            )
            round_.set(one.subject(name), write.folder, write.knob, write.value, NAME, write.reason)
        for pod in pod_by_folder.values():
            reasons = {container.name: self.bursts.unchanged.get(container.id, "") for container in pod.containers}
            unchanged[pod.uid] = {name: reason for name, reason in reasons.items() if reason}
        self._unchanged = unchanged

    def pool(self, round_: Round[NodeSlo]) -> Pool:
        """Return the average load of the CPUs that pods share, over the last `_POOL_WINDOW_S`.

        The CPUs of LSE and LSR pods do not belong to the shared CPUs, and usage by BE pods is not included.
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
        running, specs = _running_containers(pod), {spec.get("name", ""): spec for spec in pod.specs}
        containers = []
        for container in pod.containers:
            used = round_.sample.of(container.folder)
            limit, quota, burst = _limit_milli(specs.get(container.name, {})), *_knobs(round_, container.folder)
            one = BurstContainer(container.id, container.folder, limit, quota, burst, used.milli, used.throttled)
            containers.append(one._replace(running=container.name in running))
        return BurstPod(pod.folder, config, containers, *_knobs(round_, pod.folder))


def _knobs(round_: Round[NodeSlo], folder: str) -> tuple[int | None, int | None]:
    """Return quota and burst of a cgroup; unknown values are None."""
    quota, burst = round_.read(folder, QUOTA), round_.read(folder, _BURST)
    return (quota if isinstance(quota, int) else None), (burst if isinstance(burst, int) else None)


def _running_containers(pod: Pod) -> frozenset[str]:
    """Return the names of containers that are known not to wait."""
    statuses = (pod.manifest.get("status") or {}).get("containerStatuses") or ()
    return frozenset(status.get("name", "") for status in statuses if "waiting" not in (status.get("state") or {}))


def _is_normalized(round_: Round[NodeSlo]) -> bool:
    node = round_.parts.decisions.node
    on = node.gates is not None and cpu_normalization.NAME in node.gates
    return on and node.ratio != NO_RATIO


def _mean_cores(milli: Iterable[float | None]) -> float | None:
    """Return the mean of the known values, converted from thousandths to CPUs, or None if no value is known."""
    cores = [value / 1000 for value in milli if value is not None]
    return sum(cores) / len(cores) if cores else None


def _limit_milli(container: Mapping[str, Any]) -> int:
    """Return the CPU limit of a container in thousandths of a CPU, or 0 if there is no limit."""
    return max(formulas.milli(container_amounts(container, "limits"), "cpu"), 0)


BURST: Final = Part(lambda spec: _burst(spec.get("cpuBurstStrategy")), BurstConfig())
POD_BURST: Final = PodAnnotation(
    NAME, ANNOTATION_BURST, lambda text, rules, _: _pod_burst(text, rules[BURST]), lambda rules, _: rules[BURST]
)
#: The classes of pods that share CPUs, and so may borrow CPU.
_SHARING: Final = frozenset({LS, NONE, SYSTEM})
STRATEGY: Final = StrategyRow(
    NAME,
    True,
    "let throttled containers borrow CPU",
    "nri.agent.koordinator.cpu_burst:CpuBurst",
    tuple(
        owns
        for level in (Level.POD, Level.CONTAINER)
        for owns in (
            OwnedKnob(level, "cpu.cfs_burst", _SHARING),
            # CPUNormalization sets its quota again in each round, so this strategy leaves such quotas unchanged.
            OwnedKnob(level, "cpu.cfs_quota", _SHARING, False, frozenset({cpu_normalization.NAME})),
        )
    ),
    ANNOTATION_BURST,
    document_keys=((SLO, "cpuBurstStrategy"),),
)
