"""CPU and memory node lists in the kernel's format: convert `0-3,8` to a set of numbers and back.

Accepts what the kernel accepts: superfluous blanks and commas, ranges, and ranges of groups (`0-15:2/4` has the first
two of every four numbers). Other texts are refused with the reason.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["MAX_NUMBER", "parse", "to_text"]

#: The greatest accepted number of a CPU or node; kernels are built for at most 8192 CPUs.
MAX_NUMBER: Final = 65535
#: The limit of numbers in a list, with repetitions: a short text can contain many long ranges.
_MAX_NUMBERS: Final = 4 * (MAX_NUMBER + 1)


def __dir__() -> list[str]:
    return sorted(__all__)


def parse(text: str) -> frozenset[int]:
    """The numbers of a list. A blank text is the empty set.

    Raises:
        ValueError: the kernel would refuse the list (the error has the wrong range and the reason), or the list has
            too many repetitions.
    """
    numbers: set[int] = set()
    remaining = _MAX_NUMBERS
    for part in text.split(","):
        word = part.strip()
        if word:
            part_numbers = _range(word)
            remaining -= len(part_numbers)
            if remaining < 0:
                raise ValueError(f"the list has more than {_MAX_NUMBERS} numbers, with repetitions")
            numbers |= part_numbers
    return frozenset(numbers)


def to_text(numbers: Iterable[int]) -> str:
    """Format numbers as the shortest ascending list without groups: `0-3,8`. The empty set becomes ""."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _range(word: str) -> set[int]:
    """The numbers of `3`, `0-3` or `0-15:2/4`."""
    span, colon, group = word.partition(":")
    low, dash, high = span.partition("-")
    first = _number(low, word)
    last = _number(high, word) if dash else first
    if last < first:
        raise ValueError(f"{word!r} ends before it begins")
    if not colon:
        return set(range(first, last + 1))
    used_text, slash, size_text = group.partition("/")
    used, size = _number(used_text, word), _number(size_text, word)
    if not dash or not slash or not 0 < used <= size:
        raise ValueError(f"{word!r} is not a range of groups; write for example 0-15:2/4")
    if used == size:
        return set(range(first, last + 1))
    groups: set[int] = set()
    for start in range(first, last + 1, size):
        groups.update(range(start, min(start + used, last + 1)))
    return groups


def _number(digits: str, word: str) -> int:
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{word!r} is not a number or a range; write for example 0-3")
    if len(digits) > len(str(MAX_NUMBER)) or int(digits) > MAX_NUMBER:
        raise ValueError(f"{word!r} has a number above {MAX_NUMBER}")
    return int(digits)
