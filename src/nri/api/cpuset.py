"""CPU and memory node lists as the kernel writes them: `0-3,8` to a set of numbers and back.

One job: `parse` and `to_text`; the algebra between is that of `frozenset`. Rules: pure. All that the kernel takes is
taken: blanks and commas too many, ranges, and ranges of groups (`0-15:2/4`, of every four the first two); what it
refuses is refused with the reason.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["MAX_NUMBER", "parse", "to_text"]

#: Greatest number of a CPU or node that is believed; kernels are built for 8192 CPUs at most.
MAX_NUMBER: Final = 65535
#: Numbers that a list may name, those that it names again included: texts of pods are long, and a range is short.
_MOST: Final = 4 * (MAX_NUMBER + 1)


def __dir__() -> list[str]:
    return sorted(__all__)


def parse(text: str) -> frozenset[int]:
    """The numbers of a list; a blank text is the empty set.

    Raises:
        ValueError: the kernel would refuse the list; says which part of it and why. Or it names the same numbers so
            often that it cannot be meant.
    """
    numbers: set[int] = set()
    left = _MOST
    for part in text.split(","):
        word = part.strip()
        if word:
            found = _range(word)
            left -= len(found)
            if left < 0:
                raise ValueError(f"the list names more than {_MOST} numbers, the same again and again")
            numbers |= found
    return frozenset(numbers)


def to_text(numbers: Iterable[int]) -> str:
    """The shortest list without groups, ascending: `0-3,8`. The empty set is the empty text."""
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
        raise ValueError(f"{word!r} is no range of groups, such as 0-15:2/4")
    if used == size:
        return set(range(first, last + 1))
    groups: set[int] = set()
    for start in range(first, last + 1, size):
        groups.update(range(start, min(start + used, last + 1)))
    return groups


def _number(digits: str, word: str) -> int:
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{word!r} is neither a number nor a range, such as 0-3")
    if len(digits) > len(str(MAX_NUMBER)) or int(digits) > MAX_NUMBER:
        raise ValueError(f"{word!r} has a number above {MAX_NUMBER}")
    return int(digits)
