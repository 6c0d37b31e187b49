"""From what a handler returns to the bytes of the reply.

One job: check that the event can be answered with it, and put the reply together from encoded fields (`nri.wire`): a
builder's message is encoded once and never copied. Errors name the method and what was returned.

| what a handler returns | where |
|---|---|
| None | everywhere: nothing to say |
| Adjustment | create_container |
| Update, or a list of updates (evictions may be among them) | create_, update_, stop_container, synchronize |
| (Adjustment or None, updates) | create_container |

Next: `nri.stub.handler.call`, which calls the handler.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.wire import bytes_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.stub.support.context import Call

__all__ = ["REPLY_FIELDS", "encode_answer", "method_name"]

#: Field numbers of (adjust, update, evict) in the replies that have any; 0 where there is none.
REPLY_FIELDS = {
    "CreateContainer": (1, 2, 3),
    "UpdateContainer": (0, 1, 2),
    "StopContainer": (0, 1, 0),
    "Synchronize": (0, 1, 0),
}


def method_name(event: str) -> str:
    """Name of an event's method in Python, for error texts: `create_container`."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in event).lstrip("_")


def encode_answer(event: str, result: Any, call: Call) -> bytes:
    """The reply's bytes. TypeError for what this event cannot answer, naming the method and the type."""
    adjust_number, update_number, evict_number = REPLY_FIELDS[event]
    out = b""
    if adjust_number:
        adjustment = None
        if isinstance(result, (Adjustment, m.ContainerAdjustment)):
            adjustment, result = result, None
        elif (
            isinstance(result, tuple)
            and len(result) == 2
            and (result[0] is None or isinstance(result[0], (Adjustment, m.ContainerAdjustment)))
        ):
            adjustment, result = result
        if adjustment is not None:
            message = adjustment.message if isinstance(adjustment, Adjustment) else adjustment
            out = bytes_field(adjust_number, message.SerializeToString())
        if result is None:
            return out
    if isinstance(result, (Update, m.ContainerUpdate)):
        result = (result,)
    return out + b"".join(_changes(event, result, call, update_number, evict_number))


def _changes(event: str, result: Any, call: Call, update_number: int, evict_number: int) -> Iterable[bytes]:
    if not isinstance(result, (list, tuple)):
        raise TypeError(f"{method_name(event)} returned {type(result).__name__}: {_EXPECTED[event]} is expected")
    for item in result:
        message = getattr(item, "message", item)
        if isinstance(message, m.ContainerUpdate):
            if event == "UpdateContainer" and _would_cancel(message, call):
                continue
            yield bytes_field(update_number, message.SerializeToString())
        elif isinstance(message, m.ContainerEviction) and evict_number:
            yield bytes_field(evict_number, message.SerializeToString())
        else:
            raise TypeError(
                f"{method_name(event)} returned a list with {type(item).__name__} in it: {_EXPECTED[event]} is expected"
            )


_UPDATES = "None, an Update, or a list of updates"
_EXPECTED = {
    "CreateContainer": "None, an Adjustment, an Update, a list of updates, or (Adjustment, updates)",
    "UpdateContainer": _UPDATES,
    "StopContainer": _UPDATES,
    "Synchronize": _UPDATES,
}


def _would_cancel(update: m.ContainerUpdate, call: Call) -> bool:
    """Whether this update has to be left out; says so in the log.

    An update of the container that is being updated, without resources, makes runtimes apply all zeros instead of what
    the kubelet asked for.
    """
    if call.container is None or update.container_id != call.container.id or update.linux.resources.ByteSize():
        return False
    from nri.stub.support import logs

    logs.adapter("stub").warning(
        "update_container returned an update of the container itself without resources: left out"
    )
    return True
