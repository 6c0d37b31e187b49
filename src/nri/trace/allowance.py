"""What reading a recording may cost: memory and time in proportion to the bytes that were read of it.

A block of a few bytes can unpack to millions of records or values. A reader therefore asks an `Allowance` before it
holds a record or parses a message; what is beyond it is left out and named with the recording's problems. Values are
counted before a message is parsed, because a parsed message may take a hundred times its bytes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from nri.adaptation.merge import count_entries
from nri.api import messages as m
from nri.errors import RemoteProtocolError
from nri.wire import iter_fields

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Allowance", "kind_of"]

#: Records, and for each byte that was read.
_RECORDS, _RECORDS_PER_BYTE = 50_000, 1
#: Bytes of the longest record, and for each byte that was read; that of a recorder has a message and names beside it.
_RECORD_BYTES, _RECORD_BYTES_PER_BYTE, _MAX_RECORD_BYTES = 1100 << 10, 32, 5 << 20
#: Bytes of events that are held because they, or one before them, are not over; and for each byte that was read.
_HELD_BYTES, _HELD_BYTES_PER_BYTE = 8 << 20, 1
#: Recordings that are told apart, and bytes of a recording for each.
_RECORDINGS, _BYTES_PER_RECORDING = 5000, 100
#: Values in messages that are parsed, and for each byte that was read. A message counts with half its bytes, because a
#: value has at least two; where that is too many, the values are counted.
_VALUES, _VALUES_PER_BYTE = 200_000, 8
_COUNTED_VALUES, _COUNTED_VALUES_PER_BYTE = 100_000, 8
#: Values in messages that are made JSON, and for each byte that was read: that takes ten times as long as a parse.
_JSON_VALUES, _JSON_VALUES_PER_BYTE = 50_000, 6
#: A shorter message is parsed whatever is in it. A longer one may have this many values and parts, such as containers,
#: and one for so many bytes: an empty container takes 250 bytes in memory; a real one has 3000, and 35 for each value.
_SHORT_BYTES, _VALUES_OF_ONE, _VALUE_BYTES, _PARTS_OF_ONE, _PART_BYTES = 64 << 10, 30_000, 36, 5000, 256

#: The requests of plugins; all other messages are named after their event.
_MESSAGES: Final = {"StateChange": "StateChangeEvent"}


class Allowance:
    """The cost of one reading of a recording.

    Args:
        leave_out: called with the kind of a thing, "message" or "record", each time that one is left out.

    Attributes:
        read_bytes: bytes of blocks that were read.
    """

    def __init__(self, leave_out: Callable[[str], None] = lambda _: None) -> None:
        self.read_bytes = 0
        self.leave_out = leave_out
        self._records = self._values = self._counted = self._json_values = 0

    @property
    def record_bytes(self) -> int:
        """The bytes of the longest record that is held."""
        return min(_RECORD_BYTES + _RECORD_BYTES_PER_BYTE * self.read_bytes, _MAX_RECORD_BYTES)

    @property
    def held_bytes(self) -> int:
        """The bytes of events that are held."""
        return _HELD_BYTES + _HELD_BYTES_PER_BYTE * self.read_bytes

    @property
    def recordings(self) -> int:
        """Recordings that are told apart."""
        return _RECORDINGS + self.read_bytes // _BYTES_PER_RECORDING

    def has_record(self) -> bool:
        """Whether a further record may be looked at."""
        self._records += 1
        return self._records <= _RECORDS + _RECORDS_PER_BYTE * self.read_bytes

    def json_values(self, kind: Any, data: bytes, maximum: int) -> int | None:
        """The values of an encoded message; None if there are more than `maximum`, or than may still be made JSON."""
        remaining = max(0, min(maximum, _JSON_VALUES + _JSON_VALUES_PER_BYTE * self.read_bytes - self._json_values))
        values = count_entries(kind, data, remaining)
        self._json_values += values  # also if it is left out: to count costs time as well
        return values if values <= remaining else None

    def parse(self, event: str, data: bytes, *, reply: bool) -> Any:
        """The message of an event; None if it cannot be read, costs too much, or this version does not know it."""
        kind = kind_of(event, reply=reply)
        if kind is None:
            return None
        if not self.has_values(kind, data):
            self.leave_out("message")
            return None
        try:
            return kind.FromString(data)
        except DecodeError:
            return None

    def has_values(self, kind: Any, data: bytes) -> bool:
        """Whether an encoded message of a class may be parsed; its values are counted if so."""
        maximum = len(data) // 2
        if len(data) <= _SHORT_BYTES and self._values + maximum <= _VALUES + _VALUES_PER_BYTE * self.read_bytes:
            self._values += maximum
            return True
        remaining = _COUNTED_VALUES + _COUNTED_VALUES_PER_BYTE * self.read_bytes - self._counted
        remaining = min(remaining, _VALUES_OF_ONE + len(data) // _VALUE_BYTES)
        if _remaining_parts(data, _PARTS_OF_ONE + len(data) // _PART_BYTES) < 0:
            remaining = 0
        values = count_entries(kind, data, remaining) if remaining > 0 else 1
        self._counted += values  # also if it is left out: to count costs time as well
        return values <= remaining


def kind_of(event: str, *, reply: bool) -> Any:
    """The class of an event's message; None for an event that this version does not know."""
    if not event.isidentifier():
        return None
    kind = getattr(m, _MESSAGES.get(event, f"{event}{'Response' if reply else 'Request'}"), None)
    return kind if hasattr(kind, "FromString") else None


def _remaining_parts(data: bytes, maximum: int) -> int:
    """What is left of a number of parts after the fields of a message; negative if there are more."""
    try:
        return maximum - sum(1 for _ in islice(iter_fields(data), maximum + 1))
    except RemoteProtocolError:  # the parser says so
        return maximum
