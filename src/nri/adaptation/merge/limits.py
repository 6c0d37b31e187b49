"""The bounds of one reply, counted on its bytes before it is decoded: a plugin cannot make work without end.

An entry is a key of a map, an item of a list, or a field that is set; a message that only holds others counts as what
is in it. Counting ends at the limit, and a reply of fewer bytes than entries are allowed is not counted at all, so the
replies of ordinary plugins pay nothing.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["MOST_BYTES", "MOST_ENTRIES", "count", "most_for", "too_much"]

#: Entries that the reply to an event may have, and bytes.
MOST_ENTRIES: Final = 16_000
MOST_BYTES: Final = 2 << 20
#: Entries for each container that there is, in what a plugin asks for at Synchronize or by itself.
PER_CONTAINER: Final = 16

# A field: whether it counts by itself, whether its values are packed numbers, and the fields of the message in it.
_Field = tuple[bool, bool, dict[int, Any] | None]

_tables: Final[dict[str, dict[int, _Field]]] = {}
_UNKNOWN: Final[_Field] = (True, False, None)


def most_for(containers: int) -> int:
    """Entries that a plugin may ask for at Synchronize or by itself, where there are so many containers."""
    return max(MOST_ENTRIES, PER_CONTAINER * containers)


def too_much(kind: Any, data: bytes, most: int, most_bytes: int = 0) -> str:
    """Say why an encoded message is more than a plugin may ask for, in words that follow "its reply"; "" if it is not.

    Args:
        kind: the message's class.
        most: entries that it may have.
        most_bytes: bytes that it may have; 0 for as many as a message takes.
    """
    if most_bytes and len(data) > most_bytes:
        return f"has {len(data)} bytes, at most {most_bytes} are taken"
    if len(data) > most and count(kind, data, most) > most:
        return f"has more than {most} entries"
    return ""


def count(kind: Any, data: bytes, most: int) -> int:
    """The entries of an encoded message; some number over `most` as soon as it has more than that."""
    return most - _left(data, 0, len(data), _table(kind.DESCRIPTOR), most)


def _table(descriptor: Any) -> dict[int, _Field]:
    """The fields of a message by number."""
    name = descriptor.full_name
    table = _tables.get(name)
    if table is None:
        table = {field.number: _describe(field) for field in descriptor.fields}
        _tables[name] = table
    return table


def _describe(field: Any) -> _Field:
    inside = field.message_type
    if inside is None:
        packed = bool(field.is_repeated) and field.cpp_type != field.CPPTYPE_STRING
        return True, packed, None
    if inside.GetOptions().map_entry:
        value = inside.fields_by_name["value"].message_type
        if value is None:
            return True, False, None
        return False, False, {1: _UNKNOWN, 2: (False, False, _table(value))}  # its key counts, and what the value has
    if field.is_repeated:
        return True, False, _table(inside)
    if len(inside.fields) == 1 and not inside.fields[0].is_repeated and inside.fields[0].message_type is None:
        return True, False, None  # a message around one value
    return False, False, _table(inside)


def _left(data: bytes, position: int, end: int, table: dict[int, Any], left: int) -> int:
    """The rest of an allowance after the fields of one message; negative as soon as it is not enough.

    Bytes that are no message end the count: the decoder will say so.
    """
    while position < end:
        key, position = _varint(data, position, end)
        wire_type = key & 7
        field: _Field = table.get(key >> 3, _UNKNOWN)
        length = 0
        if wire_type == 2:
            length, position = _varint(data, position, end)
        elif wire_type == 0:
            _, position = _varint(data, position, end)
        elif wire_type == 1:
            length = 8
        elif wire_type == 5:
            length = 4
        stop = position + length
        if stop > end:
            return left
        inside = field[2]
        if field[0] or not length or inside is None:
            left -= length if field[1] and wire_type == 2 else 1
        if inside is not None and wire_type == 2:
            left = _left(data, position, stop, inside, left)
        if left < 0:
            return left
        position = stop
    return left


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A varint, and the position after it; the end if it is cut short."""
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        if byte < 128:
            return value | byte << shift, position
        value |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            break
    return 0, end
