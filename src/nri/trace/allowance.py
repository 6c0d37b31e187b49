"""Limit the memory and time of reading a recording, in proportion to the bytes read.

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

__all__ = ["Allowance", "kind_of"]

#: Records in any case, and for each byte that was read.
_RECORDS, _RECORDS_PER_BYTE = 50_000, 1
#: Bytes of the longest record in any case, for each byte that was read, and at most.
_RECORD_BYTES, _RECORD_BYTES_PER_BYTE, _MAX_RECORD_BYTES = 1100 << 10, 32, 5 << 20
#: Bytes of events that wait for their end or that of an earlier event: in any case, and for each byte that was read.
_HELD_BYTES, _HELD_BYTES_PER_BYTE = 8 << 20, 1
#: Recordings with separate numbers: in any case, and one more for this many bytes.
_RECORDINGS, _BYTES_PER_RECORDING = 5000, 100
#: Values in parsed messages: in any case, and for each byte that was read. A message counts half its bytes, because a
#: value has at least two; where that is too many, the values are counted.
_VALUES, _VALUES_PER_BYTE = 200_000, 8
_COUNTED_VALUES, _COUNTED_VALUES_PER_BYTE = 100_000, 8
#: Values in messages converted to JSON, which takes ten times as long as a parse.
_JSON_VALUES, _JSON_VALUES_PER_BYTE = 50_000, 6
#: A shorter message is always parsed. A longer one may have this many values and parts, such as containers,
#: and one for so many bytes: an empty container takes 250 bytes in memory; a real one has 3000, and 35 for each value.
_SHORT_BYTES, _VALUES_OF_ONE, _VALUE_BYTES, _PARTS_OF_ONE, _PART_BYTES = 64 << 10, 30_000, 36, 5000, 256

#: Messages that are not named after their event.
_MESSAGES: Final = {"StateChange": "StateChangeEvent"}


class Allowance:
    """The limits of one reading of a recording.

    Args:
        leave_out: called with "message" or "record" for each one that is left out.

    Attributes:
        read_bytes: bytes of the blocks read so far.
    """

    def __init__(self, leave_out: Callable[[str], None] = lambda _: None) -> None:
        self.read_bytes = 0
        self.leave_out = leave_out
        self._records = self._values = self._counted = self._json_values = 0

    @property
    def record_bytes(self) -> int:
        """Limit for the bytes of one record."""
        return min(_RECORD_BYTES + _RECORD_BYTES_PER_BYTE * self.read_bytes, _MAX_RECORD_BYTES)

    @property
    def held_bytes(self) -> int:
        """Limit for the bytes of events that are kept until they end."""
        return _HELD_BYTES + _HELD_BYTES_PER_BYTE * self.read_bytes

    @property
    def recordings(self) -> int:
        """Limit for recordings with separate numbers."""
        return _RECORDINGS + self.read_bytes // _BYTES_PER_RECORDING

    def has_record(self) -> bool:
        """Whether another record may be read."""
        self._records += 1
        return self._records <= _RECORDS + _RECORDS_PER_BYTE * self.read_bytes

    def json_values(self, kind: Any, data: bytes, maximum: int) -> int | None:
        """Count the values of an encoded message; None if they exceed `maximum` or the limit for JSON."""
        remaining = max(0, min(maximum, _JSON_VALUES + _JSON_VALUES_PER_BYTE * self.read_bytes - self._json_values))
        values = count_entries(kind, data, remaining)
        self._json_values += values  # counting costs time even if the message is left out
        return values if values <= remaining else None

    def parse(self, event: str, data: bytes, *, reply: bool) -> Any:
        """Parse the message of an event; None if it is invalid, too costly, or unknown to this version."""
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
        """Whether an encoded message of a class may be parsed; counts its values."""
        maximum = len(data) // 2
        if len(data) <= _SHORT_BYTES and self._values + maximum <= _VALUES + _VALUES_PER_BYTE * self.read_bytes:
            self._values += maximum
            return True
        remaining = _COUNTED_VALUES + _COUNTED_VALUES_PER_BYTE * self.read_bytes - self._counted
        remaining = min(remaining, _VALUES_OF_ONE + len(data) // _VALUE_BYTES)
        if _remaining_parts(data, _PARTS_OF_ONE + len(data) // _PART_BYTES) < 0:
            remaining = 0
        values = count_entries(kind, data, remaining) if remaining > 0 else 1
        self._counted += values  # counting costs time even if the message is left out
        return values <= remaining


def kind_of(event: str, *, reply: bool) -> Any:
    """The class of an event's message; None for an event unknown to this version."""
    if not event.isidentifier():
        return None
    kind = getattr(m, _MESSAGES.get(event, f"{event}{'Response' if reply else 'Request'}"), None)
    return kind if hasattr(kind, "FromString") else None


def _remaining_parts(data: bytes, maximum: int) -> int:
    """Subtract the number of a message's fields from a maximum; negative if there are more."""
    try:
        return maximum - sum(1 for _ in islice(iter_fields(data), maximum + 1))
    except RemoteProtocolError:  # the parser reports it
        return maximum
