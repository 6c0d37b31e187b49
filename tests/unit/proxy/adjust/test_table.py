"""The table of what the CRI can say: each way is a field of its messages."""

from __future__ import annotations

from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust.table import TABLE


def test_what_is_said_is_a_field_of_a_containers_configuration() -> None:
    for way in (way for row in TABLE.values() if row.how for way in row.how.split(", ")):
        message = pb.ContainerConfig.DESCRIPTOR
        for name in way.split("."):
            field = message.fields_by_name[name]
            message = field.message_type


def test_what_cannot_be_said_has_its_reason() -> None:
    assert all(row.limits for row in TABLE.values() if not row.how)
