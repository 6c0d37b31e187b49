"""Limit the memory and time of reading a recording, in proportion to the number of bytes read.

A block of a few bytes can unpack to millions of records or values. A reader asks an `Allowance` before it keeps a
record or parses a message; records and messages above the limits are left out and counted. Values are counted before a
parse, because a parsed message may take a hundred times its bytes.
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

#: Records that may be read in any case.
_RECORDS = 50_000
#: Further records for each byte that was read.
_RECORDS_PER_BYTE = 1
#: Bytes of the longest record in any case.
_RECORD_BYTES = 1100 << 10
#: Further bytes of the longest record for each byte that was read.
_RECORD_BYTES_PER_BYTE = 32
#: The longest record has at most this many bytes.
_MAX_RECORD_BYTES = 5 << 20
#: Bytes of events that wait for their own end or for the end of an earlier event, in any case.
_HELD_BYTES = 8 << 20
#: Further bytes of waiting events for each byte that was read.
_HELD_BYTES_PER_BYTE = 1
#: Recordings with separate numbers in any case.
_RECORDINGS = 5000
#: A further recording with a separate number for this many bytes.
_BYTES_PER_RECORDING = 100
#: Values in parsed messages in any case. A message counts as half its bytes, because a value has at least two bytes;
#: only if this exceeds the limit, the values are counted.
_VALUES = 200_000
#: Further values in parsed messages for each byte that was read.
_VALUES_PER_BYTE = 8
#: Values in messages whose values are counted, in any case.
_COUNTED_VALUES = 100_000
#: Further counted values for each byte that was read.
_COUNTED_VALUES_PER_BYTE = 8
#: Values in messages converted to JSON in any case. The conversion takes ten times as long as a parse.
_JSON_VALUES = 50_000
#: Further values converted to JSON for each byte that was read.
_JSON_VALUES_PER_BYTE = 6
#: A message up to this length is always parsed.
_SHORT_BYTES = 64 << 10
#: A longer message may have this many values, and a further value for each `_VALUE_BYTES` bytes.
_VALUES_OF_ONE = 30_000
_VALUE_BYTES = 36
#: A longer message may have this many inner messages, for example containers, and a further inner message for each
#: `_PART_BYTES` bytes: an empty container takes 250 bytes in memory, a real one 3000, and 35 for each value.
_PARTS_OF_ONE = 5000
_PART_BYTES = 256

#: The messages whose names differ from the names of their events.
_MESSAGES: Final = {"StateChange": "StateChangeEvent"}


class Allowance:
    """The limits for one reading of a recording.

    Args:
        leave_out: called with "message" or "record" for each message or record that is left out.

    Attributes:
        read_bytes: bytes of the blocks read so far.
    """

    def __init__(self, leave_out: Callable[[str], None] = lambda _: None) -> None:
        self.read_bytes = 0
        self.leave_out = leave_out
        self._records = self._values = self._counted_values = self._json_values = 0

    @property
    def record_bytes(self) -> int:
        """The limit for the bytes of a record."""
        return min(_RECORD_BYTES + _RECORD_BYTES_PER_BYTE * self.read_bytes, _MAX_RECORD_BYTES)

    @property
    def held_bytes(self) -> int:
        """The limit for the bytes of events that are stored until they end."""
        return _HELD_BYTES + _HELD_BYTES_PER_BYTE * self.read_bytes

    @property
    def recordings(self) -> int:
        """The limit for recordings with separate numbers."""
        return _RECORDINGS + self.read_bytes // _BYTES_PER_RECORDING

    def has_record(self) -> bool:
        """Whether another record may be read."""
        self._records += 1
        return self._records <= _RECORDS + _RECORDS_PER_BYTE * self.read_bytes

    def json_values(self, kind: Any, data: bytes, maximum: int) -> int | None:
        """Count the values of an encoded message. Returns None if they exceed `maximum` or the limit for JSON."""
        remaining = max(0, min(maximum, _JSON_VALUES + _JSON_VALUES_PER_BYTE * self.read_bytes - self._json_values))
        values = count_entries(kind, data, remaining)
        self._json_values += values  # counting costs time even if the message is left out
        return values if values <= remaining else None

    def parse(self, event: str, data: bytes, *, reply: bool) -> Any:
        """Parse the message of an event. Returns None if it is invalid, too costly, or unknown to this version."""
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
        """Whether an encoded message of a class may be parsed. Counts the message's values."""
        maximum = len(data) // 2
        if len(data) <= _SHORT_BYTES and self._values + maximum <= _VALUES + _VALUES_PER_BYTE * self.read_bytes:
            self._values += maximum
            return True
        remaining = _COUNTED_VALUES + _COUNTED_VALUES_PER_BYTE * self.read_bytes - self._counted_values
        remaining = min(remaining, _VALUES_OF_ONE + len(data) // _VALUE_BYTES)
        if _remaining_parts(data, _PARTS_OF_ONE + len(data) // _PART_BYTES) < 0:
            remaining = 0
        values = count_entries(kind, data, remaining) if remaining > 0 else 1
        self._counted_values += values  # counting costs time even if the message is left out
        return values <= remaining


def kind_of(event: str, *, reply: bool) -> Any:
    """The class of an event's message. Returns None for an event that this version does not know."""
    if not event.isidentifier():
        return None
    kind = getattr(m, _MESSAGES.get(event, f"{event}{'Response' if reply else 'Request'}"), None)
    return kind if hasattr(kind, "FromString") else None


def _remaining_parts(data: bytes, maximum: int) -> int:
    """Subtract the number of a message's fields from a maximum. The result is negative if there are more fields."""
    try:
        return maximum - sum(1 for _ in islice(iter_fields(data), maximum + 1))
    except RemoteProtocolError:  # the parser reports it
        return maximum
