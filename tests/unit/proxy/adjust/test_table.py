"""The table of fields that the CRI supports."""

from __future__ import annotations

from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust.table import TABLE


def is_field(way: str) -> bool:
    """Whether a container's configuration has a field at this path."""
    message = pb.ContainerConfig.DESCRIPTOR
    for name in way.split("."):
        field = message.fields_by_name.get(name) if message is not None else None
        if field is None:
            return False
        message = field.message_type
    return True


def test_every_supported_row_names_a_field_of_the_cri() -> None:
    ways = [way for row in TABLE.values() if row.how for way in row.how.split(", ")]
    assert [way for way in ways if not is_field(way)] == [], "the CRI has no such fields"


def test_every_unsupported_row_has_a_reason() -> None:
    assert all(row.limits for row in TABLE.values() if not row.how)
