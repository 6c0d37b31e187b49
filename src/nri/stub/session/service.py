"""Answer the runtime's requests to a plugin on a connection.

    service = PluginService(plugin, "10-pin", mirror=None)
    service.endpoint = Endpoint(..., on_request=service.serve)

All steps run in the thread that reads the connection: the handler runs, its reply is written, and then the updates
that the handler requested are sent.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from nri.api import messages as m
from nri.api import naming
from nri.api.events import BY_NUMBER, BY_RPC, EMPTY_CREATION, EventMask, EventSpec
from nri.errors import ConfigError, NriError, RegistrationError, Reject, RemoteProtocolError, RpcError
from nri.stub.base import PluginBase
from nri.stub.handler import call as handlers
from nri.stub.handler.answers import encode_answer
from nri.stub.handler.coroutines import resolve
from nri.stub.session import subscription
from nri.stub.session.synchronize import MORE_REPLY, Parts, StateTooLarge
from nri.stub.support import context
from nri.stub.support.checks import ARGUMENTS
from nri.stub.support.decode_errors import Unreadable, unreadable
from nri.text import nearest, plain
from nri.ttrpc.codes import Code
from nri.ttrpc.endpoint import LATER, Endpoint
from nri.wire import bytes_field, iter_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from nri.stub.handler.call import HandlerWrapper
    from nri.stub.session.reporting import Reporting
    from nri.stub.support.mirror import Mirror
    from nri.ttrpc.envelope import Request

#: Fields of `StateChangeEvent`.
_EVENT: Final = 1
_POD: Final = 2
_CONTAINER: Final = 3

#: The stages in which handlers may run.
_CONFIGURED: Final = ("ready", "configured")


class PluginService:
    """The service that the runtime calls.

    Args:
        plugin: the plugin.
        label: the plugin's ``NN-name``, for error texts.
        mirror: updated with every event; None if the plugin has no mirror.
        events: the selected events; None for all events that the plugin handles.
        configure: called with the runtime's configuration text; sets `plugin.config`. None: apply the text.
        on_ready: called after the reply that makes the plugin active.
        reporting: wraps all calls of handlers.
        wrap_handler: wraps each handler; see `nri.stub.support.handler_mistakes`.

    Attributes:
        endpoint: sends the replies; set by the session before the first request.
        stage: "connected", "registered", "configured", "ready" (synchronized, or served an event) or "closed".
        fatal: the error that ends the plugin: an invalid configuration, or a refused registration.
        raised, raised_by: the exception of `configure` or `synchronize`, and the method that raised it.
        answered: the last call that was answered without an error.
        mask: the subscribed events.
        updates: the number of updates that `synchronize` has returned.
        turn: a lock that is held while a handler runs.
    """

    endpoint: Endpoint

    def __init__(
        self,
        plugin: PluginBase,
        label: str,
        mirror: Mirror | None,
        *,
        events: EventMask | None = None,
        configure: Callable[[str], None] | None = None,
        on_ready: Callable[[], None] | None = None,
        reporting: Reporting | None = None,
        wrap_handler: HandlerWrapper | None = None,
    ) -> None:
        self.stage = "connected"
        self.fatal: NriError | None = None
        self.raised: Exception | None = None
        self.raised_by = ""
        self.answered = ""
        self.mask = EventMask(0)
        self.updates = 0
        self.turn = allocate_lock()
        self._plugin = plugin
        self._label = label
        self._mirror = mirror
        self._events = events
        self._configure = configure
        self._on_ready = on_ready
        self._announce: Callable[[], None] | None = None
        self._parts = Parts()
        # If this service needs the entire state, each part is decoded while the runtime prepares the next part.
        self._reads_state = mirror is not None or hasattr(plugin.synchronize, "_nri_when")
        self._wrap_handler = wrap_handler
        self._table = handlers.build(plugin, PluginBase, mirror, wrap_handler)
        calls = self._table | {
            "Configure": self._serve_configure,
            "Synchronize": self._serve_synchronize,
            "StateChange": self._serve_state_change,
            "Shutdown": self._serve_shutdown,
        }
        self._calls = calls if reporting is None else reporting.around_handlers(calls)

    # -- one request --------------------------------------------------------------------------------------------------

    def serve(self, request: Request) -> object:
        """Answer a request, then send the updates that the handler requested.

        Returns `LATER`, because the reply was sent.
        """
        endpoint, method = self.endpoint, request.method
        serve = self._calls.get(method)
        if serve is None or request.service != naming.PLUGIN_SERVICE or self.stage not in _CONFIGURED:
            serve = self._serve_unhandled(request)
            if serve is None:
                return LATER
        if self.stage == "configured" and method in BY_RPC:
            self._become_ready()  # runtimes on 0.6.1 never synchronize the plugins that they launch themselves
        began = monotonic()
        timeout_ns = request.timeout_ns
        call = context.Call(method, began + timeout_ns * 1e-9 if timeout_ns else None)
        token = context.current.set(call)
        try:
            with self.turn:
                reply = serve(request.payload, call)
        except SystemExit as error:
            self._log().error("%s called sys.exit(%r), which ends the plugin", method, error.code)
            raise
        except Exception as error:  # noqa: BLE001 - for every exception the runtime must get an answer
            self._fail(request, error)
        else:
            endpoint.reply(request, reply)
            self.answered = method
            if self._announce is not None:
                announce, self._announce = self._announce, None
                announce()
        finally:
            if timeout_ns and (monotonic() - began) * 2e9 > timeout_ns:
                self._warn_slow(method, monotonic() - began, timeout_ns * 1e-9)
            context.current.reset(token)
            call.finished = True
            if call.queued is not None:
                self._plugin.runtime.send_queued(call)
        return LATER

    def _serve_unhandled(self, request: Request) -> Any:
        """Answer a request without a function, or a request that came too early. Returns the function for Configure."""
        endpoint, method = self.endpoint, request.method
        if request.service != naming.PLUGIN_SERVICE:
            endpoint.reply_error(request, Code.UNIMPLEMENTED, f"service {plain(request.service)}")
        elif method == "Configure":
            return self._calls[method]
        elif method not in BY_RPC and method not in self._calls:
            endpoint.reply_error(request, Code.UNIMPLEMENTED, f"method {plain(method)}")
        elif self.stage not in _CONFIGURED:  # handlers may use attributes that `configure` sets
            text = f"plugin {self._label}: {method} before Configure has succeeded"
            endpoint.reply_error(request, Code.FAILED_PRECONDITION, text)
        else:
            try:
                getattr(m, BY_RPC[method].request).FromString(request.payload)
            except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
                self._fail(request, unreadable(error))
            else:
                # An event without a handler is not an error.
                endpoint.reply(request, EMPTY_CREATION if method == "CreateContainer" else b"")
                self.answered = method
        return None

    def _fail(self, request: Request, error: Exception) -> None:
        """Answer with the status of an exception. The text begins with the plugin's name, which old runtimes omit."""
        method = request.method
        is_unreadable = isinstance(error, Unreadable)
        is_setup = method in ("Configure", "Synchronize") and not is_unreadable
        if is_setup:
            self.raised, self.raised_by = error, method.lower()
        code, text = _status(error)
        expected = isinstance(error, (Reject, RpcError)) and not is_setup
        if not expected and self.fatal is None:
            self._log().error("%s failed: %s", method, describe(error), exc_info=_author_traceback(error))
        self.endpoint.reply_error(request, code, f"plugin {self._label}{text}")
        if self.fatal is not None:
            self.endpoint.finish()

    def _warn_slow(self, method: str, took_s: float, timeout_s: float) -> None:
        self._log().warning("%s took %.2f s; the runtime allows %.2f s", method, took_s, timeout_s)

    def _log(self) -> Any:
        return self._plugin.log

    # -- the calls that are not events --------------------------------------------------------------------------------

    def _serve_configure(self, payload: bytes, _: context.Call) -> bytes:
        try:
            request = m.ConfigureRequest.FromString(payload)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise unreadable(error)  # noqa: B904 - mypyc does not support `raise ... from`
        plugin = self._plugin
        plugin.runtime.introduce(request)
        link = self.endpoint.link
        link.reply_timeout_s = max(link.reply_timeout_s, request.request_timeout / 1000)
        try:
            if self._configure is not None:
                self._configure(request.config)
            else:
                from nri.stub.session import settings

                settings.apply(plugin, request.config)
            mask = subscription.choose(plugin, self._table, self._events)
        except (ConfigError, RegistrationError) as error:
            self.fatal = error
            raise
        self.mask = mask
        reply = m.ConfigureResponse(events=mask)
        if plugin.failure_policy is not None:
            reply.failure_policy.CopyFrom(plugin.failure_policy.message)
            subscription.warn_of_ignored_policy(plugin)
        if self.stage != "ready":
            self.stage = "configured"
        return reply.SerializeToString()

    def _serve_synchronize(self, payload: bytes, call: context.Call) -> bytes:
        needs_state = self._reads_state or handlers.overridden(self._plugin, PluginBase, "synchronize")
        try:
            more = self._parts.add(payload, keep=needs_state)
            if self._reads_state:
                self._parts.read()
        except RpcError:
            raise
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise unreadable(error)  # noqa: B904
        if more:
            return MORE_REPLY
        reply = b""
        if needs_state:
            pods, containers = self._parts.take()
            if self._plugin.runtime.profile is not None:
                self._plugin.runtime.profile.complete(*pods, *containers)
            if self._mirror is not None:
                self._mirror.replace(pods, containers)
            handler = self._plugin.synchronize
            if self._wrap_handler is not None:
                handler = self._wrap_handler(handler, "synchronize", ARGUMENTS["synchronize"])
            result = resolve(handler(*handlers.select(handler, pods, containers)))
            if result is not None:
                reply = encode_answer("Synchronize", result, call, self._plugin.runtime)
                self.updates = len(result) if isinstance(result, (list, tuple)) else 1
        self._become_ready()
        return reply

    def _become_ready(self) -> None:
        self.stage = "ready"
        self.raised = None
        self._announce = self._on_ready

    def _serve_state_change(self, payload: bytes, call: context.Call) -> bytes:
        try:
            event = unwrap(payload)
        except RemoteProtocolError as error:
            raise unreadable(error)  # noqa: B904
        serve = self._table.get(event[0].rpc) if event is not None else None
        if event is None or serve is None:
            return b""
        call.event = event[0].rpc
        return serve(event[1], call)

    def _serve_shutdown(self, payload: bytes, _: context.Call) -> bytes:
        try:
            for _field in iter_fields(payload):
                pass  # it has no known fields; this checks only that it can be decoded
        except RemoteProtocolError as error:
            raise unreadable(error)  # noqa: B904
        handlers.call_quietly(self._plugin, "shutdown")
        return b""

    # -- between requests ---------------------------------------------------------------------------------------------

    def reconfigure(self, apply: Callable[[], None]) -> None:
        """Run `apply` between two handlers, then call `configure` again, after a change of a configuration file.

        If one of them raises, the previous configuration is restored.
        """
        plugin = self._plugin
        with self.turn:
            before = plugin.config, plugin.config_source
            try:
                apply()
                resolve(plugin.configure())
            except BaseException:
                plugin.config, plugin.config_source = before
                raise

    def clear(self) -> None:
        """Drop the state of the connection, which has ended."""
        self._parts.clear()


#: Substrings of error texts after a forgotten `await`: Python's errors, and our errors for values and answers.
_NOT_AWAITED: Final = ("'coroutine' object", "<coroutine object", "returned coroutine")


def describe(error: Exception) -> str:
    """An exception in one line, as at the end of a traceback, with a suggestion for a misspelt attribute."""
    text = str(error)
    if isinstance(error, AttributeError) and "did you mean" not in text:
        if text == error.name and hasattr(type(error.obj), "DESCRIPTOR"):  # protobuf's text is only the name
            text = f"{type(error.obj).__name__} has no {text}"
        text += _suggestion(error)
    if any(mark in text for mark in _NOT_AWAITED):
        text += "; add await before the call of the async function"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _suggestion(error: AttributeError) -> str:
    """A suggestion to append to the error text: a similar attribute, or how to read a resource.

    Returns "" without one.
    """
    from nri.api.builders.view import ResourceView

    holder: Any = error.obj
    name = error.name or ""
    try:
        if isinstance(holder, (m.Container, m.LinuxResources)) and hasattr(ResourceView, name):
            return f": {type(holder).__name__} has no such field; read it with nri.resources_of(...).{name}"
        descriptor = getattr(type(holder), "DESCRIPTOR", None)
        attributes = dir(holder) if descriptor is None else [field.name for field in descriptor.fields]
        public = [attribute for attribute in attributes if not attribute.startswith("_")]
        # A key of a configuration, for example `limit`, resembles a method of a text, for example `split`.
        suggestion = nearest(name, public, may_be_foreign=isinstance(holder, str))
    except Exception:  # noqa: BLE001 - the author's own class may fail at anything
        return ""
    if not suggestion and isinstance(holder, str):
        return "; self.config is a string unless the plugin has a class Config with this field"
    return f"; did you mean {suggestion}?" if suggestion else ""


def _author_traceback(error: Exception) -> Any:
    """The exception for the log, with a traceback that begins in the plugin's code. None without such code."""
    if isinstance(error, StateTooLarge):
        return None
    place: Any = error.__traceback__
    while place is not None and str(place.tb_frame.f_globals.get("__name__", "")).startswith("nri.stub."):
        place = place.tb_next
    if place is None and isinstance(error, (TypeError, NriError)):
        return None  # the return value is wrong, so the handler has returned and is not in the traceback
    return type(error), error, place or error.__traceback__


def _status(error: Exception) -> tuple[int, str]:
    """The status code of a handler's exception, and the text that follows the plugin's name."""
    if isinstance(error, Reject):
        # A subclass may override `__str__`.
        reason = error.whole_text if type(error).__str__ is NriError.__str__ else str(error)
        return Code.PERMISSION_DENIED, f" refused: {reason or 'without a reason'}"
    if isinstance(error, RpcError):
        return error.code, f": {error.message}"
    return Code.UNKNOWN, f": {describe(error)}"


def unwrap(payload: bytes) -> tuple[EventSpec, bytes] | None:
    """The event in a StateChange, and the payload of its own request. None for an unknown or unexpected event."""
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
