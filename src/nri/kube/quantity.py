"""Kubernetes quantities (`500m`, `1.5Gi`), and the CPU weight and quota that the kubelet makes of them. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?P<suffix>[eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?"
)
_POWERS = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}

#: The largest quantity that messages can hold.
MOST = 2**63 - 1
#: The kernel's period that the kubelet uses for CPU quotas, in microseconds.
CPU_PERIOD_US = 100_000
_SHARES_PER_CPU, _MIN_SHARES, _MAX_SHARES, _MIN_QUOTA_US = 1024, 2, 262_144, 1000


def parse(value: object) -> Fraction:
    """Return the exact value of a quantity. ValueError says what is wrong with it."""
    text = str(value).strip()
    match = _QUANTITY.fullmatch(text)
    if match is None or isinstance(value, bool):
        raise ValueError(f'"{text}" is not a quantity; write such as 500m, 2, 1.5Gi')
    number, suffix = Fraction(match["number"]), match["suffix"] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        scale = Fraction(10) ** int(suffix[1:])
    elif suffix.endswith("i"):
        scale = Fraction(1024) ** _POWERS[{"K": "k"}.get(suffix[0], suffix[0])]
    else:
        scale = Fraction(1000) ** _POWERS[suffix]
    return number * Fraction(scale)


def bounded(value: object, most: int) -> Fraction:
    """Return the exact value of a quantity from 0 to `most`. ValueError says what is wrong with it."""
    found = parse(value)
    if not 0 <= found <= most:
        raise ValueError(f'"{value}" is {"less than 0" if found < 0 else f"more than {most}"}')
    return found


def ceil(value: Fraction) -> int:
    """Round up to a whole number, as Kubernetes does."""
    return -(-value.numerator // value.denominator)


def cpu_shares(cpus: Fraction) -> int:
    """Return the kubelet's CPU weight for a request of so many CPUs."""
    shares = ceil(cpus * 1000) * _SHARES_PER_CPU // 1000
    return min(max(shares, _MIN_SHARES), _MAX_SHARES)


def cpu_quota_us(cpus: Fraction) -> int:
    """Return the kubelet's CPU quota per `CPU_PERIOD_US` for a limit of so many CPUs."""
    return max(ceil(cpus * 1000) * CPU_PERIOD_US // 1000, _MIN_QUOTA_US)
