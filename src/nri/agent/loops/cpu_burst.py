"""CPUBurst: containers that are throttled may borrow CPU, by `cpu.cfs_burst_us` and by a quota that grows in steps.

Rules: for pods that share CPUs (LS, or without a class). Mainline kernels refuse a burst above the quota, so there it
is cut to that. A quota that CPUNormalization repairs is not scaled, because each would undo the other. What was scaled
is put back when it is switched off. Next: :mod:`nri.agent.loops.evict`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.loops.moment import LoopPod, Moment
from nri.agent.loops.strategy import Strategies
from nri.host import Unsupported, probe
from nri.kube.quantity import capped, ceil
from nri.policies.koordinator import formulas
from nri.policies.koordinator.contexts import ContainerContext
from nri.policies.koordinator.hooks import cpu_normalization
from nri.policies.koordinator.loops.cpu_burst import (
    Bucket,
    BurstConfig,
    Pool,
    Step,
    burst_us,
    final_step,
    next_quota_us,
    pool_state,
    wanted_step,
)
from nri.policies.koordinator.names import BE, LS, LSE, LSR, NONE
from nri.policies.koordinator.rules.node import NO_RATIO
from nri.policies.koordinator.writes import KNOBS

__all__ = ["NAME", "CpuBurst"]

NAME: Final = "CPUBurst"
_QUOTA, _BURST = KNOBS["cfs_quota"], "cpu.cfs_burst"


class CpuBurst:
    """Lets containers run ahead of their quota."""

    name = NAME

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._touched: set[str] = set()
        self._looked_once = False

    def __len__(self) -> int:
        """The number of containers that are remembered."""
        return len(self._buckets) + len(self._touched)

    def wants(self, strategies: Strategies) -> bool:
        """Whether there is work: bursts that are asked for, or quotas that were scaled."""
        return strategies.burst.policy != "none" or bool(self._touched)

    def round(self, moment: Moment) -> None:
        """Decide for the pods that share CPUs."""
        pods = [pod for pod in moment.pods if pod.qos in (LS, NONE) and not pod.best_effort]
        pool = _pool(moment)
        seen: set[str] = set()
        for pod in pods:
            config = moment.of_pod(pod, NAME).burst
            idle = config.policy == "none"
            if idle and self._looked_once and not self._touched.intersection(each.id for each in pod.containers):
                continue
            seen.update(each.id for each in pod.containers)
            self._bursts(moment, pod, config)
            self._quotas(moment, pod, config, pool)
        self._looked_once = True
        self._buckets = {name: bucket for name, bucket in self._buckets.items() if name in seen}
        self._touched &= seen

    def _bursts(self, moment: Moment, pod: LoopPod, config: BurstConfig) -> None:
        """Bursts of the containers, and their sum for the pod."""
        total = 0
        any_quota = False
        for container in pod.containers:
            wanted = burst_us(_limit_milli(pod, container), config)
            quota = moment.read(container.cgroup_parent, _QUOTA)
            if not isinstance(quota, int) or moment.read(container.cgroup_parent, _BURST) is None:
                continue
            wanted = _cut(moment, wanted, quota)
            any_quota = any_quota or quota > 0
            total += wanted
            self._burst(moment, pod, container.cgroup_parent, wanted, container.name)
        quota = moment.read(pod.folder, _QUOTA)
        if pod.containers and isinstance(quota, int) and (any_quota or total):
            self._burst(moment, pod, pod.folder, _cut(moment, total, quota))

    def _burst(self, moment: Moment, pod: LoopPod, folder: str, value: int, container: str = "") -> None:
        if moment.read(folder, _BURST) != value:
            reason = "cpuBurstStrategy" if value else "cpuBurstStrategy has it off"
            moment.wish(pod.subject(container), folder, _BURST, value, NAME, reason)

    def _quotas(self, moment: Moment, pod: LoopPod, config: BurstConfig, pool: Pool) -> None:
        """Quotas of the containers; the pod's grows or shrinks with them."""
        if _normalized(moment):
            return
        if config.scales:
            moment.cannot(NAME, "no quota grows", moment.sample.no_cpu)
        grown = 0
        for container in pod.containers:
            base = formulas.quota_us(_limit_milli(pod, container))
            current = moment.read(container.cgroup_parent, _QUOTA)
            if base <= 0 or not isinstance(current, int) or current <= 0:
                continue
            if not config.scales and current <= base:
                continue
            step = self._step(moment, pod, container, config, pool)
            target = next_quota_us(current, base, step, config.quota_percent)
            if config.scales:
                self._touched.add(container.id)
            else:
                self._touched.discard(container.id)
            if target != current:
                grown += target - current
                reason = f"{step.value}: the shared CPUs are {pool.value}"
                moment.wish(pod.subject(container.name), container.cgroup_parent, _QUOTA, target, NAME, reason)
        quota = moment.read(pod.folder, _QUOTA)
        if grown and isinstance(quota, int) and quota > 0:
            reason = "its containers' quotas have changed by as much"
            moment.wish(pod.subject(), pod.folder, _QUOTA, max(quota + grown, formulas.MIN_QUOTA_US), NAME, reason)

    def _step(self, moment: Moment, pod: LoopPod, container: ContainerContext, config: BurstConfig, pool: Pool) -> Step:
        used = moment.sample.of(container.cgroup_parent)
        allowed = True
        limit = _limit_milli(pod, container)
        if config.scales and config.quota_seconds >= 0:
            bucket = self._buckets.get(container.id)
            if bucket is None or bucket.capacity != config.quota_seconds * (config.quota_percent - 100):
                bucket = self._buckets[container.id] = Bucket(config, moment.sample.at)
            milli = limit if used.milli is None else used.milli
            allowed = bucket.allows(milli * 100 // limit, moment.sample.at)
        return final_step(wanted_step(config, allowed, used.throttled), pool)


def _cut(moment: Moment, burst: int, quota: int) -> int:
    """A burst as the kernel takes it: mainline none without a quota, and none above it."""
    anolis = not isinstance(probe(moment.parts.executor.hierarchies, KNOBS["bvt"]), Unsupported)
    return burst if anolis else min(burst, max(quota, 0))


def _normalized(moment: Moment) -> bool:
    node = moment.parts.decisions.node
    on = node.gates is not None and cpu_normalization.NAME in node.gates
    return on and node.ratio != NO_RATIO


def _pool(moment: Moment) -> Pool:
    """The load of the CPUs that pods share: without those of LSE and LSR pods, and without what BE pods use."""
    if moment.sample.milli is None:
        return Pool.UNKNOWN
    total, used = moment.sample.cpus * 1000, moment.sample.milli
    for pod in moment.pods:
        if pod.qos in (LSE, LSR):
            total -= sum(_request_milli(pod, each.get("name", "")) for each in pod.specs)
        if pod.qos in (LSE, LSR, BE):
            used -= moment.sample.of(pod.folder).milli or 0
    return pool_state(max(used, 0), total, moment.strategies.burst.pool_percent)


def _limit_milli(pod: LoopPod, container: ContainerContext) -> int:
    return max(_milli(pod, container.name, "limits"), 0)


def _request_milli(pod: LoopPod, name: str) -> int:
    return max(_milli(pod, name, "requests"), 0)


def _milli(pod: LoopPod, name: str, part: str) -> int:
    for spec in pod.specs:
        if spec.get("name") == name:
            asked = ((spec.get("resources") or {}).get(part) or {}).get("cpu")
            return 0 if asked is None else ceil(capped(asked) * 1000)
    return 0
