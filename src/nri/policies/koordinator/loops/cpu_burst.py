"""CPU burst: how far a container may run ahead of its quota, and quotas that grow while the node has room.

`cpu.cfs_burst_us` is static. The quota is scaled in steps between what was asked for and three times that: up while the
container is throttled, down while its token bucket is empty or the share pool is overloaded. Next:
`nri.policies.koordinator.loops.evict`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from nri.kube.quantity import CPU_PERIOD_US

__all__ = [
    "Bucket",
    "BurstConfig",
    "Pool",
    "Step",
    "burst_us",
    "final_step",
    "next_quota_us",
    "pool_state",
    "wanted_step",
]

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
    """Tokens of one container: percent of its limit, times seconds. It starts empty.

    Attributes:
        capacity: the most, and below 0 the least, that it holds.
        tokens: what it holds.
    """

    def __init__(self, config: BurstConfig, now: float) -> None:
        self.capacity = config.quota_seconds * (config.quota_percent - 100)
        self.tokens: float = 0
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
    return limit_milli * config.burst_percent * CPU_PERIOD_US // 100_000


def pool_state(used_milli: int | None, total_milli: int, percent: int = 50) -> Pool:
    """Return how loaded the shared CPUs are; a pool without CPUs is full."""
    if used_milli is None:
        return Pool.UNKNOWN
    ratio = used_milli / total_milli if total_milli > 0 else 1.0
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
