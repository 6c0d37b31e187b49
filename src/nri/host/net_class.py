"""Traffic classes of cgroups: the number in `net_cls.classid`, and its notation in tc(8)."""

from __future__ import annotations

from typing import NamedTuple

_MAX_NUMBER = 0xFFFF


class ClassId(NamedTuple):
    """A traffic class: `1:2` is class 2 of queueing discipline 1, and 0:0 is no class. The numbers are hexadecimal."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> ClassId:
        """Parse `MAJOR:MINOR`, both hexadecimal. Raises ValueError if the text is invalid."""
        major, mark, minor = text.partition(":")
        try:
            class_id = cls(int(major, 16), int(minor, 16))
        except ValueError:
            raise ValueError(f"{text!r} is not a traffic class; write MAJOR:MINOR, for example 1:2") from None
        if not mark or not (0 <= class_id.major <= _MAX_NUMBER and 0 <= class_id.minor <= _MAX_NUMBER):
            raise ValueError(f"{text!r} is not a traffic class: both numbers must be between 0 and ffff")
        return class_id

    @classmethod
    def of(cls, number: int) -> ClassId:
        """Split the number of `net_cls.classid`. Raises ValueError if it has more than 32 bits."""
        if not 0 <= number <= 0xFFFF_FFFF:
            raise ValueError(f"{number} is not a net_cls.classid: it must be between 0 and 4294967295")
        return cls(number >> 16, number & _MAX_NUMBER)

    @property
    def number(self) -> int:
        """The value for the knob `net_cls.classid`."""
        return self.major << 16 | self.minor

    def __str__(self) -> str:
        return f"{self.major:x}:{self.minor:x}"
