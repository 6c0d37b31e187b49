"""Messages of any API with random content, made from their descriptors, for Hypothesis."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

_WORDS = st.sampled_from(["a", "b", "/x", "2MB", "x y", "ü", "n\n\x1b[2J"])
_SCALARS = {
    FieldDescriptor.TYPE_STRING: _WORDS,
    FieldDescriptor.TYPE_BYTES: _WORDS.map(str.encode),
    FieldDescriptor.TYPE_BOOL: st.just(True),
    FieldDescriptor.TYPE_INT32: st.integers(-9, 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-9, 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
}


@st.composite
def messages(draw: Any, kind: type[Message], *, limit: int = 8) -> Any:
    """A message of a class with some of its fields set, and some of theirs."""
    created = kind()
    _fill(draw, created, created.DESCRIPTOR, limit, depth=0)
    return created


def _fill(draw: Any, created: Any, descriptor: Descriptor, limit: int, depth: int) -> None:
    if not descriptor.fields:
        return
    fields = st.sampled_from(list(descriptor.fields))
    chosen = draw(st.lists(fields, max_size=limit, unique_by=lambda field: field.number))
    for field in chosen:
        target = getattr(created, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            if value.message_type is None:
                target.update(draw(st.dictionaries(_WORDS, _SCALARS[value.type], min_size=1, max_size=2)))
        elif field.message_type is not None:
            if depth < 5:
                below = target.add() if field.is_repeated else target
                if not field.is_repeated:
                    below.SetInParent()
                _fill(draw, below, field.message_type, limit, depth + 1)
        elif field.enum_type is not None:
            setattr(created, field.name, draw(st.sampled_from([value.number for value in field.enum_type.values])))
        elif field.is_repeated:
            target.extend(draw(st.lists(_SCALARS[field.type], min_size=1, max_size=2)))
        else:
            setattr(created, field.name, draw(_SCALARS[field.type]))
