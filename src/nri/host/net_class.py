"""Traffic classes of cgroups: the number in `net_cls.classid`, and tc's way to write it.

Rules: pure; a class is a major and a minor number of 16 bits each, in hexadecimal digits, as tc(8) has them. The knob
is `net_cls.classid`, of cgroup v1 alone. Next: :mod:`nri.host.pressure`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ClassId"]

_MOST = 0xFFFF


class ClassId(NamedTuple):
    """A traffic class: `1:2` is class 2 of the queueing discipline 1. 0:0 is none."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> ClassId:
        """Read `MAJOR:MINOR`, both hexadecimal. Raises ValueError."""
        major, mark, minor = text.partition(":")
        try:
            made = cls(int(major, 16), int(minor, 16))
        except ValueError:
            raise ValueError(f"{text!r} is not a traffic class, such as 1:2") from None
        if not mark or not (0 <= made.major <= _MOST and 0 <= made.minor <= _MOST):
            raise ValueError(f"{text!r} is not a traffic class: both numbers are between 0 and ffff")
        return made

    @classmethod
    def of(cls, number: int) -> ClassId:
        """Take the number of `net_cls.classid` apart. Raises ValueError if it has more than 32 bits."""
        if not 0 <= number <= 0xFFFF_FFFF:
            raise ValueError(f"{number} is not a net_cls.classid: it is not between 0 and 4294967295")
        return cls(number >> 16, number & _MOST)

    @property
    def number(self) -> int:
        """The value for the knob `net_cls.classid`."""
        return self.major << 16 | self.minor

    def __str__(self) -> str:
        return f"{self.major:x}:{self.minor:x}"
