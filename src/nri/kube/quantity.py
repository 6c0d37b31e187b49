"""Kubernetes quantities (`500m`, `1.5Gi`), and the CPU weight and quota that the kubelet computes from them."""

from __future__ import annotations

from fractions import Fraction

from nri.config.quantity import parse

__all__ = ["CPU_PERIOD_US", "MOST", "bounded", "capped", "ceil", "cpu_quota_us", "cpu_shares", "parse",
           "shares_of_millicpu"]  # fmt: skip

#: The largest quantity in messages.
MOST = 2**63 - 1
#: The kernel's period that the kubelet uses for CPU quotas, in microseconds.
CPU_PERIOD_US = 100_000
_SHARES_PER_CPU, _MIN_SHARES, _MAX_SHARES, _MIN_QUOTA_US = 1024, 2, 262_144, 1000


def bounded(value: object, maximum: int) -> Fraction:
    """Return the exact value of a quantity. Raises ValueError if it is not between 0 and `maximum`."""
    quantity = parse(value)
    if not 0 <= quantity <= maximum:
        raise ValueError(f'"{value}" is {"less than 0" if quantity < 0 else f"more than {maximum}"}')
    return quantity


def capped(value: object) -> Fraction:
    """Return the value of a quantity, limited to `-MOST` to `MOST` as in Kubernetes. Raises ValueError if invalid."""
    return max(min(parse(value), Fraction(MOST)), Fraction(-MOST))


def ceil(value: Fraction) -> int:
    """Round up to a whole number, as in Kubernetes."""
    return -(-value.numerator // value.denominator)


def cpu_shares(cpus: Fraction) -> int:
    """Return the kubelet's CPU weight for a request in CPUs."""
    return shares_of_millicpu(ceil(cpus * 1000))


def shares_of_millicpu(millicpu: int) -> int:
    """Return the kubelet's CPU weight for a request in thousandths of a CPU."""
    return min(max(millicpu * _SHARES_PER_CPU // 1000, _MIN_SHARES), _MAX_SHARES)


def cpu_quota_us(cpus: Fraction) -> int:
    """Return the kubelet's CPU quota per `CPU_PERIOD_US` for a limit in CPUs."""
    return max(ceil(cpus * 1000) * CPU_PERIOD_US // 1000, _MIN_QUOTA_US)
