"""Values of cgroup files: which are in range, and how v1's and v2's say the same thing.

Next: `nri.testing.hook_cases.original.proc`.
"""

from __future__ import annotations

from typing import Final

from nri.policies.koordinator.formulas import MAX_SHARES, MIN_SHARES, UNLIMITED

__all__ = [
    "class_id_valid",
    "cpu_max_period",
    "cpu_max_quota",
    "in_range",
    "process_ids",
    "shares_to_weight",
    "weight_to_shares",
]

_MOST: Final = 2**63 - 1
_MAX_WEIGHT: Final = 10_000
#: The original's bounds, by which decimal digits are read as if they were hexadecimal ones.
_MOST_CLASS_ID, _MOST_HEX_DIGITS = 2**31 - 1, 99_999_999


def in_range(text: str, least: int, most: int) -> bool:
    """Whether a text is a whole number from `least` to `most`; `max` is the greatest there is."""
    if text == "max":
        return most == _MOST
    number = _integer(text)
    return number is not None and least <= number <= most


def class_id_valid(text: str) -> bool:
    """Whether the original takes a text for `net_cls.classid`: decimal, or `0x` and eight decimal digits at most."""
    number = _integer(text.removeprefix("0x"))
    return number is not None and 0 <= number <= (_MOST_HEX_DIGITS if text.startswith("0x") else _MOST_CLASS_ID)


def cpu_max_quota(text: str) -> int:
    """Return the quota in a `cpu.max` file, -1 for `max`. Raises ValueError for what is no such file."""
    first = _cpu_max(text)[0]
    return UNLIMITED if first == "max" else _whole(first)


def cpu_max_period(text: str) -> int:
    """Return the period in a `cpu.max` file. Raises ValueError for what is no such file."""
    return _whole(_cpu_max(text)[1])


def shares_to_weight(shares: int) -> int:
    """Return the `cpu.weight` (v2) for `cpu.shares` (v1), as the kubelet does. Raises ValueError out of range."""
    if not MIN_SHARES <= shares <= MAX_SHARES:
        raise ValueError(f"cpu.shares are from {MIN_SHARES} to {MAX_SHARES}, not {shares}")
    return 1 + (shares - MIN_SHARES) * (_MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def weight_to_shares(weight: int) -> int:
    """Return the `cpu.shares` (v1) for a `cpu.weight` (v2). Raises ValueError out of range."""
    if not 1 <= weight <= _MAX_WEIGHT:
        raise ValueError(f"cpu.weight is from 1 to {_MAX_WEIGHT}, not {weight}")
    return (weight - 1) * (MAX_SHARES - MIN_SHARES) // (_MAX_WEIGHT - 1) + MIN_SHARES


def process_ids(text: str) -> list[int]:
    """Return the ids in a `cgroup.procs` or `tasks` file. Raises ValueError for a line that is none."""
    return [_whole(line.strip()) for line in text.splitlines() if line.strip()]


def _cpu_max(text: str) -> list[str]:
    words = text.split()
    if len(words) != 2:
        raise ValueError(f"{text[:40]!r} is no quota and period")
    return words


def _whole(text: str) -> int:
    number = _integer(text)
    if number is None:
        raise ValueError(f"{text[:40]!r} is no whole number")
    return number


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        return None
    number = int(text)
    return number if -_MOST - 1 <= number <= _MOST else None
