"""The size limits of a reply, counted on its bytes before it is decoded, so that a plugin cannot cause endless work.

An entry is a key of a map, an item of a list, or a field that is set. A message that only contains other messages
counts as its content. Counting ends at the limit, and a reply with fewer bytes than allowed entries is not counted.
"""

from __future__ import annotations

from typing import Any, Final

#: The reply to an event has at most this many entries.
MAX_ENTRIES: Final = 16_000
#: The reply to an event has at most this many bytes.
MAX_BYTES: Final = 2 << 20
#: Replies to Synchronize and UpdateContainers may have this many entries more for each existing container.
ENTRIES_PER_CONTAINER: Final = 16

# A field: whether it counts by itself, whether its values are packed numbers, and the fields of its message.
_Field = tuple[bool, bool, dict[int, Any] | None]

_tables: Final[dict[str, dict[int, _Field]]] = {}
_UNKNOWN: Final[_Field] = (True, False, None)


def max_entries_for(containers: int) -> int:
    """The limit of entries of a reply to Synchronize or of UpdateContainers, for a number of containers."""
    return max(MAX_ENTRIES, ENTRIES_PER_CONTAINER * containers)


def excess(kind: Any, data: bytes, max_entries: int, max_bytes: int = 0) -> str:
    """The reason why an encoded message exceeds the limits, to follow "its reply". Returns "" if it does not.

    Args:
        kind: the message's class.
        max_entries: the limit of entries.
        max_bytes: the limit of bytes; 0 for the limit of a message.
    """
    if max_bytes and len(data) > max_bytes:
        return f"has {len(data)} bytes, at most {max_bytes} are accepted"
    if len(data) > max_entries and count(kind, data, max_entries) > max_entries:
        return f"has more than {max_entries} entries"
    return ""


def count(kind: Any, data: bytes, max_entries: int) -> int:
    """The number of entries of an encoded message. Counting stops above `max_entries`."""
    return max_entries - _remaining_budget(data, 0, len(data), _table(kind.DESCRIPTOR), max_entries)


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
        return (
            False,
            False,
            {1: _UNKNOWN, 2: (False, False, _table(value))},
        )  # the key and the entries of the value count
    if field.is_repeated:
        return True, False, _table(inside)
    if len(inside.fields) == 1 and not inside.fields[0].is_repeated and inside.fields[0].message_type is None:
        return True, False, None  # a message around one value
    return False, False, _table(inside)


def _remaining_budget(data: bytes, position: int, end: int, table: dict[int, Any], budget: int) -> int:
    """The rest of an allowance after the fields of a message; negative as soon as the allowance is exceeded.

    Bytes that are not a message end the count; the decoder will report them.
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
            return budget
        inside = field[2]
        if field[0] or not length or inside is None:
            budget -= length if field[1] and wire_type == 2 else 1
        if inside is not None and wire_type == 2:
            budget = _remaining_budget(data, position, stop, inside, budget)
        if budget < 0:
            return budget
        position = stop
    return budget


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A varint, and the position after it. The position is `end` if the varint is cut short."""
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
