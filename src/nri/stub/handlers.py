"""From the bytes of a request to a call of the plugin's method, and from what it returns to the bytes of the reply.

One row per event says which message it is, which of its fields are the handler's arguments, and what may be returned.
Replies are put together from encoded fields (`nri.wire`): a builder's message is encoded once and never copied.

| what a handler returns | where |
|---|---|
| None | everywhere: nothing to say |
| Adjustment | create_container |
| Update, or a list of updates (evictions may be among them) | create_, update_, stop_container, synchronize |
| (Adjustment or None, updates) | create_container |
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.api.events import EVENTS
from nri.stub.coroutines import CoroutineType, finish
from nri.wire import bytes_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from nri.stub.context import Call
    from nri.stub.mirror import Mirror

    Serve = Callable[[bytes, Call], bytes]

__all__ = ["REPLY_FIELDS", "build", "encode_answer", "overridden"]

#: Request fields that are the handler's arguments.
_FIELDS = {
    "UpdateContainer": ("pod", "container", "linux_resources"),
    "UpdatePodSandbox": ("pod", "overhead_linux_resources", "linux_resources"),
}
#: Field numbers of (adjust, update, evict) in the replies that have any; 0 where there is none.
REPLY_FIELDS = {
    "CreateContainer": (1, 2, 3),
    "UpdateContainer": (0, 1, 2),
    "StopContainer": (0, 1, 0),
    "Synchronize": (0, 1, 0),
}


def overridden(plugin: object, base: type, method: str) -> bool:
    """Whether the plugin has its own method of this name."""
    return getattr(type(plugin), method, None) is not getattr(base, method) or method in getattr(plugin, "__dict__", ())


def build(plugin: Any, base: type, mirror: Mirror | None) -> dict[str, Serve]:
    """RPC name -> function that serves it, for the events that the plugin handles or the mirror needs."""
    table: dict[str, Serve] = {}
    for spec in EVENTS:
        handler = getattr(plugin, spec.method) if overridden(plugin, base, spec.method) else None
        if handler is None and mirror is None:
            continue
        if spec.kind == "validation":
            if handler is not None:
                table[spec.rpc] = _validator(handler)
        else:
            table[spec.rpc] = _server(spec.rpc, getattr(m, spec.request), spec.kind, handler, mirror)
    return table


def _server(event: str, message: Any, kind: str, handler: Callable[..., Any] | None, mirror: Mirror | None) -> Serve:
    parse = message.FromString
    further = _FIELDS.get(event, ())[1 if kind == "pod" else 2 :]
    replies = event in REPLY_FIELDS

    def serve(payload: bytes, call: Call) -> bytes:
        request = parse(payload)
        pod = call.pod = request.pod
        arguments: tuple[Any, ...] = (pod,)
        if kind == "container":
            call.container = request.container
            arguments = (pod, request.container)
        if mirror is not None:
            mirror.seen(event, pod, call.container)
            if handler is None:
                return b""
        if further:
            arguments += tuple([getattr(request, name) for name in further])
        result = handler(*arguments)  # type: ignore[misc]  # without a mirror there is a handler
        if result is None:
            return b""
        if result.__class__ is CoroutineType:
            result = finish(result)
            if result is None:
                return b""
        if not replies:
            raise TypeError(f"{_name(event)} returned {type(result).__name__}: there is nothing to return from it")
        return encode_answer(event, result, call)

    return serve


def _validator(handler: Callable[..., Any]) -> Serve:
    def serve(payload: bytes, call: Call) -> bytes:
        request = m.ValidateContainerAdjustmentRequest.FromString(payload)
        call.pod, call.container = request.pod, request.container
        result = handler(request)
        if result.__class__ is CoroutineType:
            result = finish(result)
        if result is not None:
            raise TypeError(
                f"validate_container_adjustment returned {type(result).__name__}: raise nri.Reject to refuse"
            )
        return b""

    return serve


def _name(event: str) -> str:
    """The method's name in Python."""
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
        raise TypeError(f"{_name(event)} returned {type(result).__name__}: {_EXPECTED[event]} is expected")
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
                f"{_name(event)} returned a list with {type(item).__name__} in it: {_EXPECTED[event]} is expected"
            )


_UPDATES = "None, an Update, or a list of updates"
_EXPECTED = {
    "CreateContainer": "None, an Adjustment, an Update, a list of updates, or (Adjustment, updates)",
    "UpdateContainer": _UPDATES,
    "StopContainer": _UPDATES,
    "Synchronize": _UPDATES,
}


def _would_cancel(update: m.ContainerUpdate, call: Call) -> bool:
    """Whether this update has to be left out, which is then said.

    An update of the container that is being updated, without resources, makes runtimes apply all zeros instead of what
    the kubelet asked for.
    """
    if call.container is None or update.container_id != call.container.id or update.linux.resources.ByteSize():
        return False
    from nri.stub import logs

    logs.adapter("stub").warning(
        "update_container returned an update of the container itself without resources: left out"
    )
    return True
