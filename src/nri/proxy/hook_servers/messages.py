"""Messages of the CRI and of the hook protocol as dicts with the protocol's field names, and back. Pure.

What is not set has no key: that is how `nri.policies.koordinator.hook_protocol` reads them. Next:
`nri.proxy.hook_servers.changes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nri.policies.koordinator.hook_protocol.dispatch import STAGES
from nri.proxy.hook_servers.pb import api_pb2 as pb

__all__ = ["METHODS", "SERVICE", "Method", "fields_of"]

_SERVICE = pb.DESCRIPTOR.services_by_name["RuntimeHookService"]
#: The full name of the service.
SERVICE: Final[str] = _SERVICE.full_name


class Method(NamedTuple):
    """A call of the service: its name, and the classes of its request and its response."""

    name: str
    request: type[Message]
    response: type[Message]


def _method(name: str) -> Method:
    found = _SERVICE.methods_by_name[name]
    return Method(name, GetMessageClass(found.input_type), GetMessageClass(found.output_type))


#: The calls by stage.
METHODS: Final[Mapping[str, Method]] = {stage: _method(f"{stage}Hook") for stage in STAGES}


def fields_of(message: Message) -> dict[str, Any]:
    """All that is set in a message, and in the messages in it; bytes stay bytes."""
    return {field.name: _plain(value) for field, value in message.ListFields()}


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return fields_of(value)
    if isinstance(value, (str, bytes, int, float)):
        return value
    if hasattr(value, "items"):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value]
