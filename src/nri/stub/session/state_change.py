"""Unwrap StateChange, the call by which runtimes before 0.12 tell of nine events.

One job: from its bytes to the event and the bytes of the event's own request. Pod and container have the field numbers
of those requests plus one, so they are passed on unparsed. Pure. Next: `nri.stub.session.service`, which calls the
event's handler with them.
"""

from __future__ import annotations

from nri.api.events import BY_NUMBER
from nri.wire import bytes_field, iter_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nri.api.events import EventSpec

__all__ = ["unwrap"]

#: Fields of `StateChangeEvent`.
_EVENT: Final = 1
_POD: Final = 2
_CONTAINER: Final = 3


def unwrap(payload: bytes) -> tuple[EventSpec, bytes] | None:
    """Find the event in a StateChange, and make the payload of its own request; None if it is no event of that kind."""
    number = 0
    fields = []
    for key, _, value in iter_fields(payload):
        if isinstance(value, bytes):
            if key in (_POD, _CONTAINER):
                fields.append(bytes_field(key - 1, value))
        elif key == _EVENT:
            number = value
    spec = BY_NUMBER.get(number)
    if spec is None or not spec.relayed:
        return None
    return spec, b"".join(fields if spec.kind == "container" else fields[:1])
