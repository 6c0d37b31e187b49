"""Sets of CPUs or memory nodes as whole numbers, bit N for number N: with 4,096 CPUs still one machine operation each.

One job: from numbers and lists to a mask and back. The algebra between is that of `int`. Next: `nri.api.cpuset`,
whose lists people and the kernel read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from nri.api import cpuset

__all__ = ["first", "members", "of", "parse", "text", "union"]


def of(numbers: Iterable[int]) -> int:
    """The mask of some numbers."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def union(masks: Iterable[int]) -> int:
    """The mask of all numbers of some masks."""
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def members(mask: int) -> Iterator[int]:
    """The numbers of a mask, ascending."""
    number = 0
    while mask:
        zeros = (mask & -mask).bit_length() - 1
        number += zeros
        yield number
        mask >>= zeros + 1
        number += 1


def first(mask: int) -> int:
    """The least number of a mask, -1 for the empty one."""
    return (mask & -mask).bit_length() - 1


def parse(words: str) -> int:
    """The mask of a list such as `0-3,8`. Raises ValueError as `nri.api.cpuset.parse` does."""
    return of(cpuset.parse(words))


@lru_cache(maxsize=512)
def text(mask: int) -> str:
    """The shortest list of a mask, `0-3,8`."""
    parts, begin = [], 0
    while mask:
        zeros = (mask & -mask).bit_length() - 1
        mask >>= zeros
        begin += zeros
        length = (~mask & (mask + 1)).bit_length() - 1
        parts.append(f"{begin}-{begin + length - 1}" if length > 1 else str(begin))
        mask >>= length
        begin += length
    return ",".join(parts)
