"""Call the plugin's method for a request: decode the request, call the handler, encode the reply.

`build` creates a function for each event that is handled. A session looks it up by the event's name.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.events import EMPTY_CREATION, EVENTS
from nri.errors import Reject
from nri.stub.handler.answers import REPLY_FIELDS, encode_answer, wrong_answer
from nri.stub.handler.coroutines import CoroutineType, resolve, run_to_end
from nri.stub.support.checks import ARGUMENTS
from nri.stub.support.decode_errors import unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.api.events import EventSpec
    from nri.stub.support.context import Call
    from nri.stub.support.mirror import Mirror

    Serve = Callable[[bytes, Call], bytes]
    HandlerWrapper = Callable[[Callable[..., Any], str, tuple[str, ...]], Callable[..., Any]]

#: The request fields that are the handler's arguments, for events with more than pod and container.
_FIELDS = {
    "UpdateContainer": ("pod", "container", "linux_resources"),
    "UpdatePodSandbox": ("pod", "overhead_linux_resources", "linux_resources"),
}


#: The label with which the kubelet names a container.
_NAME_LABEL = "io.kubernetes.container.name"


def complete_name(container: m.Container) -> None:
    """Set the name of a received container from the kubelet's label if the runtime did not send the name.

    CRI-O before 1.37 does not.
    """
    if not container.name:
        container.name = container.labels.get(_NAME_LABEL, "")


def overridden(plugin: object, base: type, method: str) -> bool:
    """Whether the plugin overrides this method."""
    return getattr(type(plugin), method, None) is not getattr(base, method) or method in getattr(plugin, "__dict__", ())


def admits(handler: Any, pod: m.PodSandbox) -> bool:
    """Whether the handler should be called for this pod, by its marks of `nri.when`."""
    return all(filters.admits(pod) for filters in getattr(handler, "_nri_when", ()))


def select(
    handler: Any, pods: list[m.PodSandbox], containers: list[m.Container]
) -> tuple[list[m.PodSandbox], list[m.Container]]:
    """The pods and containers that pass the handler's marks of `nri.when`."""
    for filters in getattr(handler, "_nri_when", ()):
        pods, containers = filters.select(pods, containers)
    return pods, containers


def build(
    plugin: Any, base: type, mirror: Mirror | None, wrap_handler: HandlerWrapper | None = None
) -> dict[str, Serve]:
    """Create the functions that serve events, by event name, for events that the plugin handles or the mirror needs.

    Args:
        plugin: its methods are looked up once, here.
        base: the class whose methods count as not overridden.
        mirror: receives every event before the handler.
        wrap_handler: wraps each handler; see `nri.stub.support.handler_mistakes`.
    """
    table: dict[str, Serve] = {}
    for spec in EVENTS:
        handler = getattr(plugin, spec.method) if overridden(plugin, base, spec.method) else None
        if handler is None and mirror is None:
            continue
        if handler is not None and wrap_handler is not None:
            handler = wrap_handler(handler, spec.method, ARGUMENTS[spec.method])
        if spec.kind == "validation":
            if handler is not None:
                table[spec.rpc] = _validator(handler)
        else:
            table[spec.rpc] = _server(plugin, spec, handler, mirror)
    return table


def _server(  # noqa: C901 - called for every event, so it avoids calls of helpers
    plugin: Any, spec: EventSpec, handler: Callable[..., Any] | None, mirror: Mirror | None
) -> Serve:
    event, kind = spec.rpc, spec.kind
    parse = getattr(m, spec.request).FromString
    further = _FIELDS.get(event, ())[1 if kind == "pod" else 2 :]
    has_reply = event in REPLY_FIELDS
    empty = EMPTY_CREATION if event == "CreateContainer" else b""
    is_filtered = hasattr(handler, "_nri_when")

    def serve(payload: bytes, call: Call) -> bytes:
        try:
            request = parse(payload)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise unreadable(error)  # noqa: B904 - mypyc does not support `raise ... from`
        pod = call.pod = request.pod
        arguments: tuple[Any, ...] = (pod,)
        if kind == "container":
            call.container = request.container
            complete_name(request.container)
            arguments = (pod, request.container)
        if plugin.runtime.profile is not None:
            plugin.runtime.profile.complete(pod, call.container)
        if mirror is not None:
            mirror.apply_event(event, pod, call.container)
            if handler is None:
                return empty
        if is_filtered and not admits(handler, pod):
            return empty
        if further:
            arguments += tuple([getattr(request, name) for name in further])
        result = handler(*arguments)  # type: ignore[misc]  # it is None only with a mirror, see above
        if result is None:
            return empty
        if result.__class__ is CoroutineType:
            result = run_to_end(result)
            if result is None:
                return empty
        if not has_reply:
            raise wrong_answer(event, result)
        return encode_answer(event, result, call, plugin.runtime)

    return serve


def _validator(handler: Callable[..., Any]) -> Serve:
    from nri.api.validation import ValidationRequest

    def serve(payload: bytes, call: Call) -> bytes:
        try:
            request = m.ValidateContainerAdjustmentRequest.FromString(payload)
        except Exception as error:  # noqa: BLE001
            raise unreadable(error)  # noqa: B904
        call.pod, call.container = request.pod, request.container
        complete_name(request.container)
        if not admits(handler, request.pod):
            return b""
        try:
            result = handler(ValidationRequest(request))
            if result.__class__ is CoroutineType:
                result = run_to_end(result)
        except Reject as refusal:  # a normal answer, not a failed call
            reason = str(refusal) or type(refusal).__name__
            return m.ValidateContainerAdjustmentResponse(reject=True, reason=reason).SerializeToString()
        if result is not None:
            raise wrong_answer("ValidateContainerAdjustment", result)
        return b""

    return serve


def call_quietly(plugin: Any, method: str) -> None:
    """Call a method, and log its error instead of raising it."""
    try:
        resolve(getattr(plugin, method)())
    except Exception:
        plugin.log.exception("%s failed", method)
