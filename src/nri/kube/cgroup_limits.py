"""The arithmetic of CPU and memory limits, as the kubelet does it. Pure numbers in, pure numbers out.

Units: milli is thousandths of a CPU, quotas are microseconds per period of 100 ms, memory is bytes, -1 is unlimited.
Next: `nri.agent.koordinator.batch_resource`, which uses most of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from nri.kube.quantity import CPU_PERIOD_US, MOST, ceil

__all__ = ["MAX_SHARES", "MIN_QUOTA_US", "MIN_SHARES", "UNLIMITED", "amount", "milli", "quota_us", "shares"]

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
#: The kernel takes no smaller quota.
MIN_QUOTA_US: Final = 1000
UNLIMITED: Final = -1
_SHARES_PER_CPU: Final = 1024


def amount(resources: Mapping[str, Fraction], name: str) -> int:
    """Return how much there is of a resource, rounded up as Kubernetes does; -1 if it is not there."""
    found = resources.get(name)
    return UNLIMITED if found is None else _bounded(ceil(found))


def milli(resources: Mapping[str, Fraction], name: str) -> int:
    """Return thousandths of a resource, rounded up; 0 if it is not there."""
    return _bounded(ceil(resources.get(name, Fraction(0)) * 1000))


def shares(milli_cpu: int) -> int:
    """Return the CPU weight for a request: 1024 per CPU, from 2 to 262144; no request is 2."""
    return min(max(milli_cpu * _SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES)


def quota_us(milli_cpu: int) -> int:
    """Return the CPU quota for a limit: no limit is -1, a small one is the kernel's least."""
    if milli_cpu <= 0:
        return UNLIMITED
    return _bounded(max(milli_cpu * CPU_PERIOD_US // 1000, MIN_QUOTA_US))


def _bounded(number: int) -> int:
    return min(max(number, -MOST - 1), MOST)
