"""Plugins inside the runtime: any object with methods named after events.

They take part in the order of indices like every other plugin, without a socket. Handlers run in the thread of the
event, so they must be quick: no timeout can interrupt them. They get copies of the messages. A handler returns what
the handler of any plugin returns: None, an adjustment, updates, or both as a pair; builders of `nri.api` or messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from nri.adaptation.peers.peer import BUILTIN, Owner, Peer
from nri.adaptation.peers.state import State
from nri.api import messages as m
from nri.api import naming
from nri.api.events import BY_METHOD, EVENTS, EventMask
from nri.api.validation import ValidationRequest
from nri.errors import DeadlineExceeded, NriError, Reject, RpcError, describe
from nri.ttrpc import Code
from nri.ttrpc.waiters import ARRIVALS

if TYPE_CHECKING:
    from nri.adaptation.peers.event_request import EventRequest

_VALIDATE = BY_METHOD["validate_container_adjustment"]


class BuiltinPlugin:
    """A plugin that is an object of the runtime.

    Args:
        index: the index, two digits.
        name: the name without index.
        handlers: has a method for each of its events (`create_container(pod, container)`), and optionally
            `synchronize(pods, containers)`, `configure(config, runtime, version)` (may return an event mask) and
            `shutdown()`.
        events: the subscription; default: every event that `handlers` has a method for.
        failure_policy: the failure policy that the plugin declares.
    """

    __slots__ = ("events", "failure_policy", "handlers", "index", "name")

    def __init__(
        self,
        index: str,
        name: str,
        handlers: object,
        *,
        events: EventMask | None = None,
        failure_policy: m.FailurePolicy | None = None,
    ) -> None:
        if not index or not name:
            raise ValueError(f'a builtin plugin requires an index and a name, not "{index}" and "{name}"')
        naming.check_index(index)
        naming.check_name(name)
        self.index, self.name, self.handlers = index, name, handlers
        self.events = (
            events if events is not None else EventMask.of(*(spec for spec in EVENTS if _method(handlers, spec.method)))
        )
        self.failure_policy = failure_policy


def _method(handlers: object, name: str) -> Callable[..., Any] | None:
    method = getattr(handlers, name, None)
    return method if callable(method) else None


class BuiltinPeer(Peer):
    """A built-in plugin as a member of the chain."""

    __slots__ = ("_handlers", "plugin")

    def __init__(self, owner: Owner, plugin: BuiltinPlugin) -> None:
        super().__init__(owner, BUILTIN, plugin.index, plugin.name, state=State.REGISTERED)
        self.plugin = plugin
        self._handlers = plugin.handlers

    def invoke(self, request: EventRequest, deadline: float) -> bytes:
        """Run the handler of an event."""
        spec = request.spec
        handler = _method(self._handlers, spec.method)
        if handler is None:
            return b""
        if spec is _VALIDATE:
            arguments: tuple[Any, ...] = (ValidationRequest(request.message(m.ValidateContainerAdjustmentRequest)),)
        else:
            messages: tuple[Any, ...] = (request.pod,)
            if spec.kind == "container":
                messages = (request.pod, request.container_seen())
                if spec.method == "update_container":
                    messages += (request.resources,)
            elif spec.method == "update_pod_sandbox":
                messages = (request.pod, request.overhead, request.resources)
            arguments = tuple(map(_copy, messages))
        if monotonic() >= deadline:
            raise DeadlineExceeded(spec.rpc)
        return self._run(spec.reply, spec is _VALIDATE, handler, *arguments)

    def _run(self, reply: str, validates: bool, handler: Callable[..., Any], *arguments: Any) -> bytes:
        try:
            returned = handler(*arguments)
            self.answer = next(ARRIVALS)
            encoded: bytes = _reply(getattr(m, reply), returned).SerializeToString()
            return encoded
        except NriError as error:
            if validates:
                return _rejection(str(error))
            raise _request_error(error) from error
        except Exception as error:
            if validates:
                return _rejection(describe(error))
            raise _request_error(error) from error

    def command(self, method: str, payload: bytes, deadline: float) -> bytes:  # noqa: ARG002 - nothing can interrupt it
        """Call the handler `configure` or `shutdown` if it exists."""
        handler = _method(self._handlers, method.lower())
        if method == "Configure":
            return self._configure(handler, m.ConfigureRequest.FromString(payload))
        if handler is not None:
            handler()
        return b""

    def _configure(self, handler: Callable[..., Any] | None, request: m.ConfigureRequest) -> bytes:
        mask = self.plugin.events
        if handler is not None:
            try:
                mask = EventMask(handler(request.config, request.runtime_name, request.runtime_version) or mask)
            except Exception as error:
                raise _request_error(error) from error
        reply = m.ConfigureResponse(events=mask)
        if self.plugin.failure_policy is not None:
            reply.failure_policy.CopyFrom(self.plugin.failure_policy)
        encoded: bytes = reply.SerializeToString()
        return encoded

    def synchronize(
        self,
        pods: Sequence[m.PodSandbox],
        containers: Sequence[m.Container],
        timeout_s: float,  # noqa: ARG002 - nothing can interrupt it
        *,
        timeout_per_part: bool,  # noqa: ARG002
        max_entries: int,  # noqa: ARG002 - the runtime trusts its own plugins
    ) -> list[m.ContainerUpdate]:
        """Call `synchronize` with copies of the runtime's messages."""
        handler = _method(self._handlers, "synchronize")
        if handler is None:
            return []
        state = [*map(_copy, pods)], [*map(_copy, containers)]
        reply = m.SynchronizeResponse.FromString(self._run("SynchronizeResponse", False, handler, *state))
        return list(reply.update)


def _copy(message: Any) -> Any:
    """Copy a message for the handler: reading a missing label from protobuf's map would add it to the original."""
    if message is None:
        return None
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _request_error(cause: Exception) -> RpcError:
    """The request's error for a handler's error."""
    code = Code.PERMISSION_DENIED if isinstance(cause, Reject) else Code.UNKNOWN
    error = RpcError(code, describe(cause))
    error.__cause__ = cause  # set by hand, because a compiled `raise` has no `from`
    return error


def _rejection(reason: str) -> bytes:
    encoded: bytes = m.ValidateContainerAdjustmentResponse(reject=True, reason=reason).SerializeToString()
    return encoded


def _message(value: Any) -> Any:
    """A builder's message, or the message itself."""
    return getattr(value, "message", value)


def _reply(kind: Any, result: Any) -> Any:
    """Convert a handler's result to the reply message of its event."""
    reply = kind()
    if kind is m.ValidateContainerAdjustmentResponse:
        if result:  # a reason or a verdict
            return result if isinstance(result, kind) else kind(reject=True, reason=str(result))
        return reply
    for value in result if isinstance(result, tuple) else (result,):
        message = _message(value)
        if isinstance(message, kind):
            return message
        if isinstance(message, m.ContainerAdjustment):
            reply.adjust.CopyFrom(message)
            continue
        for entry in message if isinstance(message, Iterable) else () if message is None else (message,):
            item = _message(entry)
            (reply.evict if isinstance(item, m.ContainerEviction) else reply.update).append(item)
    return reply
