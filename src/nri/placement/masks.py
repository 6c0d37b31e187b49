"""Sets of CPUs or memory nodes as integers, bit N for number N: set operations are fast even with 4,096 CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from nri.api import cpuset


def of(numbers: Iterable[int]) -> int:
    """The mask of these numbers."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def union(masks: Iterable[int]) -> int:
    """The mask of all numbers in these masks."""
    result = 0
    for mask in masks:
        result |= mask
    return result


def members(mask: int) -> Iterator[int]:
    """The numbers in a mask, ascending."""
    number = 0
    while mask:
        zeros = (mask & -mask).bit_length() - 1
        number += zeros
        yield number
        mask >>= zeros + 1
        number += 1


def first(mask: int) -> int:
    """The smallest number in a mask. Returns -1 for an empty mask."""
    return (mask & -mask).bit_length() - 1


def parse(text: str) -> int:
    """The mask of a list such as `0-3,8`. Raises ValueError if the list is invalid."""
    return of(cpuset.parse(text))


@lru_cache(maxsize=512)
def text(mask: int) -> str:
    """The shortest list of a mask, for example `0-3,8`."""
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
