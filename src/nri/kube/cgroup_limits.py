"""CPU and memory limits of cgroups, computed as the kubelet does.

Units: milli is thousandths of a CPU, quotas are microseconds per period of 100 ms, memory is bytes, -1 is unlimited.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from nri.kube.quantity import CPU_PERIOD_US, MOST, ceil

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
#: The kernel's minimum.
MIN_QUOTA_US: Final = 1000
UNLIMITED: Final = -1
_SHARES_PER_CPU: Final = 1024


def amount(resources: Mapping[str, Fraction], name: str) -> int:
    """Return the amount of a resource, rounded up as in Kubernetes. Returns -1 if the resource is absent."""
    quantity = resources.get(name)
    return UNLIMITED if quantity is None else _bounded_number(ceil(quantity))


def milli(resources: Mapping[str, Fraction], name: str) -> int:
    """Return thousandths of a resource, rounded up. Returns 0 if the resource is absent."""
    return _bounded_number(ceil(resources.get(name, Fraction(0)) * 1000))


def shares(milli_cpu: int) -> int:
    """Return the CPU weight for a request: 1024 per CPU, from 2 to 262144. Without a request it is 2."""
    return min(max(milli_cpu * _SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES)


def quota_us(milli_cpu: int) -> int:
    """Return the CPU quota for a limit, at least the kernel's minimum. Without a limit it is -1."""
    if milli_cpu <= 0:
        return UNLIMITED
    return _bounded_number(max(milli_cpu * CPU_PERIOD_US // 1000, MIN_QUOTA_US))


def _bounded_number(number: int) -> int:
    return min(max(number, -MOST - 1), MOST)
