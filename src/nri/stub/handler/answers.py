"""Encode a handler's return value as the reply.

| return value | handlers |
|---|---|
| None | all: no change |
| Adjustment | create_container |
| Update or Eviction, or a list of them | create_, update_, stop_container, synchronize |
| (Adjustment or None, updates) | create_container |

Replies are built from encoded fields (`nri.wire`), so that a message is encoded once and never copied. Evictions for
which a reply has no field are requested right after it.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.api.events import EMPTY_CREATION
from nri.errors import NriError
from nri.wire import bytes_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.stub.support.context import Call
    from nri.stub.support.pending import Pending
    from nri.stub.support.runtime_handle import RuntimeHandle

#: The field numbers of (adjust, update, evict) in replies; 0 if the reply has no such field.
REPLY_FIELDS = {
    "CreateContainer": (1, 2, 3),
    "UpdateContainer": (0, 1, 2),
    "StopContainer": (0, 1, 0),
    "Synchronize": (0, 1, 0),
}


def method_name(event: str) -> str:
    """The name of an event's method in Python, for error texts: `create_container`."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in event).lstrip("_")


def encode_answer(event: str, result: Any, call: Call, runtime: RuntimeHandle) -> bytes:
    """Encode the reply. Raises TypeError, with method and type, for a value that the handler must not return.

    Args:
        event: the RPC name, one of `REPLY_FIELDS`.
        result: the handler's return value, not None.
        call: the current request.
        runtime: receives the evictions for which the reply has no field.
    """
    adjust_number, sets_check = REPLY_FIELDS[event][0], runtime.sets_check
    out = b""
    if adjust_number:
        out = EMPTY_CREATION
        adjustment = None
        if isinstance(result, (Adjustment, m.ContainerAdjustment)):
            adjustment, result = result, None
        elif (
            isinstance(result, tuple)
            and len(result) == 2
            and (result[0] is None or isinstance(result[0], (Adjustment, m.ContainerAdjustment)))
        ):
            adjustment, result = result
            if isinstance(result, (Adjustment, m.ContainerAdjustment)):
                raise wrong_answer(event, (adjustment, result))
        if adjustment is not None:
            message = adjustment.message if isinstance(adjustment, Adjustment) else adjustment
            if sets_check is not None:
                sets_check.check_part(message)
            if runtime.profile is not None:
                message = runtime.profile.adjustment(message, call.container)
            if message.HasField("linux"):
                message.linux.resources.SetInParent()  # iSulad reads it without checking that it exists
            out = bytes_field(adjust_number, message.SerializeToString())
    if result is not None:
        if isinstance(getattr(result, "message", result), (m.ContainerUpdate, m.ContainerEviction)):
            result = (result,)
        out += b"".join(_changes(event, result, call, runtime))
    return out


def _changes(event: str, result: Any, call: Call, runtime: RuntimeHandle) -> Iterable[bytes]:
    if not isinstance(result, (list, tuple)):
        raise wrong_answer(event, result)
    sets_check = runtime.sets_check
    _, update_number, evict_number = REPLY_FIELDS[event]
    for item in result:
        message = getattr(item, "message", item)
        if isinstance(message, m.ContainerUpdate):
            runtime.warn_if_empty(message)
            if event == "UpdateContainer" and _is_own(message, call) and not message.linux.resources.ByteSize():
                continue  # runtimes would apply zeros instead of the kubelet's values
            if event == "CreateContainer" and _is_own(message, call) and not message.ignore_failure:
                reason = "an Update of the container that is being created: return an Adjustment instead"
                raise TypeError(f"create_container returned {reason}")
            if runtime.profile is not None:
                runtime.profile.leave_out("an update of a container", may_refuse=event != "Synchronize")
                continue
            if sets_check is not None:
                sets_check.check_part(message)
            yield bytes_field(update_number, message.SerializeToString())
        elif not isinstance(message, m.ContainerEviction):
            raise wrong_answer(event, item, "a list that contains {}")
        elif runtime.ignores_evictions():
            continue  # `ignores_evictions` has logged it
        elif evict_number:
            if sets_check is not None:
                sets_check.check_part(message)
            yield bytes_field(evict_number, message.SerializeToString())
        else:
            runtime.evict(message.container_id, message.reason).add_done_callback(_log_failure)


def _log_failure(pending: Pending) -> None:
    """Log an eviction that failed, because no caller waits for its outcome."""
    try:
        pending.result(0)
    except NriError as error:
        from nri.stub.support import logs

        logs.adapter("stub").warning("an eviction that a handler returned could not be requested: %s", error)


_UPDATES = "None, an Update or Eviction, or a list of them"
_EXPECTED = {
    "CreateContainer": "None, an Adjustment, an Update or Eviction, a list of these two, or (Adjustment, updates)",
    "UpdateContainer": _UPDATES,
    "StopContainer": _UPDATES,
    "Synchronize": _UPDATES,
}


def wrong_answer(event: str, value: Any, what: str = "{}") -> TypeError:
    """The error for a value that the handler of this event cannot return.

    Args:
        event: the RPC name.
        value: the wrong value.
        what: how the value was returned, with `{}` for its type.
    """
    name = method_name(event)
    if isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException)):
        kind = value.__name__ if isinstance(value, type) else type(value).__name__
        return TypeError(f"{name} returned {what.format(kind)}: raise it, do not return it")
    text = f"{name} returned {what.format(_type_text(value))}: "
    if event in _EXPECTED:
        return TypeError(f"{text}{_EXPECTED[event]} is expected")
    if event == "ValidateContainerAdjustment":
        return TypeError(f"{text}return None to accept, raise nri.Reject to refuse")
    if isinstance(value, Adjustment):
        return TypeError(f"{text}it must return None; containers are adjusted in create_container")
    if isinstance(value, Update):
        return TypeError(f"{text}it must return None; request updates with self.runtime.update()")
    return TypeError(f"{text}it must return None")


def _type_text(value: Any) -> str:
    """Describe the type of a value; a class is distinguished from an instance."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not an instance of it"
    if isinstance(value, tuple):
        return f"({', '.join(map(_type_text, value))})"
    return type(value).__name__


def _is_own(update: m.ContainerUpdate, call: Call) -> bool:
    """Whether an update concerns the event's container."""
    container = call.container
    return container is not None and update.container_id == container.id
