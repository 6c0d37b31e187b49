"""The plugin's side of the service that a runtime calls: from a request to the handler, and to the reply or status.

    service = PluginService(plugin, "10-pin", mirror=None)
    service.endpoint = Endpoint(..., on_request=service.serve)

Everything happens in the thread that reads the connection: the request's handler runs, its reply is written, and then
what the handler has asked for is sent. Which function serves an event is a table of `nri.stub.handler.call`; the calls
that are not events are methods here. Rules of an error: what a handler raises becomes a status and the connection goes
on; its text begins with the plugin's name, because old runtimes do not name the plugin, and says of which type it is. A
request that cannot be read is status 13 whatever its method, without a line in the log: it is the sender's mistake. No
handler runs before Configure has succeeded: status 9. A configuration that cannot be used, or a subscription to
nothing, is `fatal`.
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
from nri.stub.support.unreadable import Unreadable, unreadable
from nri.text import plain
from nri.ttrpc.codes import Code
from nri.ttrpc.endpoint import LATER, Endpoint
from nri.wire import bytes_field, iter_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from nri.stub.handler.call import Watched
    from nri.stub.session.reporting import Reporting
    from nri.stub.support.mirror import Mirror
    from nri.ttrpc.envelope import Request

__all__ = ["PluginService", "describe"]

#: Fields of `StateChangeEvent`.
_EVENT: Final = 1
_POD: Final = 2
_CONTAINER: Final = 3

#: The stages in which handlers may run.
_CONFIGURED: Final = ("ready", "configured")


class PluginService:
    """Answers what the runtime asks of one plugin on one connection.

    Args:
        plugin: the plugin.
        label: its ``NN-name``, for the texts of errors.
        mirror: kept up to date, if the plugin wants one.
        events: take only these, of the events that the plugin handles.
        configure: called with the runtime's configuration text; sets `plugin.config`. None: as the text says.
        on_ready: called after the first reply to a plugin that takes part.
        reporting: told of every call of a handler.
        watched: wraps each handler; see `nri.stub.support.unchanged`.

    Attributes:
        endpoint: where the replies go; set by the session before a request can come.
        stage: "connected", "registered", "configured", "ready" (synchronized, or served an event) or "closed".
        fatal: the error that ends this plugin for good: a wrong configuration, a refused registration.
        raised, raised_by: what `configure` or `synchronize` has raised, and which; kept the plugin from taking part.
        answered: the call that was answered last, and not with an error.
        mask: the events that were subscribed to.
        updates: how many updates `synchronize` has asked for.
        turn: held while a handler runs.
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
        watched: Watched | None = None,
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
        # What we look at all of ourselves is read part by part, while the runtime is at the next one.
        self._looks = mirror is not None or hasattr(plugin.synchronize, "_nri_when")
        self._watched = watched
        self._table = handlers.build(plugin, PluginBase, mirror, watched)
        calls = self._table | {
            "Configure": self._serve_configure,
            "Synchronize": self._serve_synchronize,
            "StateChange": self._serve_state_change,
            "Shutdown": self._serve_shutdown,
        }
        self._calls = calls if reporting is None else reporting.around_handlers(calls)

    # -- one request --------------------------------------------------------------------------------------------------

    def serve(self, request: Request) -> object:
        """Answer one request, then send what the handler asked to be sent. `LATER`: we reply ourselves."""
        endpoint, method = self.endpoint, request.method
        serve = self._calls.get(method)
        if serve is None or request.service != naming.PLUGIN_SERVICE or self.stage not in _CONFIGURED:
            serve = self._serve_odd(request)
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
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, the runtime gets an answer
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

    def _serve_odd(self, request: Request) -> Any:
        """Answer what no function of ours serves, or not yet; the function if one does all the same."""
        endpoint, method = self.endpoint, request.method
        if request.service != naming.PLUGIN_SERVICE:
            endpoint.reply_error(request, Code.UNIMPLEMENTED, f"service {plain(request.service)}")
        elif method == "Configure":
            return self._calls[method]
        elif method not in BY_RPC and method not in self._calls:
            endpoint.reply_error(request, Code.UNIMPLEMENTED, f"method {plain(method)}")
        elif self.stage not in _CONFIGURED:  # handlers rely on what `configure` has made
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
        """Answer with the status of what a handler raised."""
        method = request.method
        is_unreadable = isinstance(error, Unreadable)
        begins = method in ("Configure", "Synchronize") and not is_unreadable
        if begins:
            self.raised, self.raised_by = error, method.lower()
        code, text = _status(error)
        expected = isinstance(error, (Reject, RpcError)) and not begins
        if not expected and self.fatal is None:
            self._log().error("%s failed: %s", method, describe(error), exc_info=_of_author(error))
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
            raise unreadable(error)  # noqa: B904 - compiled, a `raise` has no `from`
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
        wanted = self._looks or handlers.overridden(self._plugin, PluginBase, "synchronize")
        try:
            more = self._parts.add(payload, keep=wanted)
            if self._looks:
                self._parts.read()
        except RpcError:
            raise
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise unreadable(error)  # noqa: B904
        if more:
            return MORE_REPLY
        reply = b""
        if wanted:
            pods, containers = self._parts.take()
            if self._mirror is not None:
                self._mirror.replace(pods, containers)
            handler = self._plugin.synchronize
            if self._watched is not None:
                handler = self._watched(handler, "synchronize", ARGUMENTS["synchronize"])
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
            told = unwrap(payload)
        except RemoteProtocolError as error:
            raise unreadable(error)  # noqa: B904
        serve = self._table.get(told[0].rpc) if told is not None else None
        if told is None or serve is None:
            return b""
        call.event = told[0].rpc
        return serve(told[1], call)

    def _serve_shutdown(self, payload: bytes, _: context.Call) -> bytes:
        try:
            for _field in iter_fields(payload):
                pass  # it has none that we know
        except RemoteProtocolError as error:
            raise unreadable(error)  # noqa: B904
        handlers.call_quietly(self._plugin, "shutdown")
        return b""

    # -- between requests ---------------------------------------------------------------------------------------------

    def reconfigure(self, apply: Callable[[], None]) -> None:
        """Run `apply` between two handlers, then `configure` again: a configuration file has changed.

        What either raises leaves the configuration as it was: some mistakes are found by `configure` alone.
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
        """Forget what belongs to the connection, which has ended."""
        self._parts.clear()


#: What errors say where `await` was forgotten: Python's, and ours of values and answers.
_NOT_AWAITED: Final = ("'coroutine' object", "<coroutine object", "returned coroutine")


def describe(error: Exception) -> str:
    """An exception in one line, as the end of a traceback has it: its type, what it says, and what a slip meant."""
    text = str(error)
    if isinstance(error, AttributeError) and "did you mean" not in text:
        if text == error.name and hasattr(type(error.obj), "DESCRIPTOR"):  # protobuf says no more
            text = f"{type(error.obj).__name__} has no {text}"
        text += _meant(error)
    if any(mark in text for mark in _NOT_AWAITED):
        text += "; an async function gives its value to await"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _meant(error: AttributeError) -> str:
    """The nearest attribute, or where a resource is read, behind a colon or semicolon; "" if there is none."""
    import difflib

    from nri.api.builders.view import ResourceView

    holder: Any = error.obj
    name = error.name or ""
    try:
        if isinstance(holder, (m.Container, m.LinuxResources)) and hasattr(ResourceView, name):
            return f": {type(holder).__name__} has no such field; read it with nri.resources_of(...).{name}"
        descriptor = getattr(type(holder), "DESCRIPTOR", None)
        known = dir(holder) if descriptor is None else [field.name for field in descriptor.fields]
        near = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], 1)
    except Exception:  # noqa: BLE001 - the author's own class may fail at anything
        return ""
    return f"; did you mean {near[0]}?" if near else ""


def _of_author(error: Exception) -> Any:
    """The exception for a log, from the author's first line on; None if no line of it is the author's concern."""
    if isinstance(error, StateTooLarge):
        return None
    place: Any = error.__traceback__
    while place is not None and str(place.tb_frame.f_globals.get("__name__", "")).startswith("nri.stub."):
        place = place.tb_next
    if place is None and isinstance(error, (TypeError, NriError)):
        return None  # what a handler answers with is wrong: it has returned, and no line of it is running
    return type(error), error, place or error.__traceback__


def _status(error: Exception) -> tuple[int, str]:
    """Status code for what a handler raised, and the text that follows the plugin's name."""
    if isinstance(error, Reject):
        # An author's class may say it in words of its own.
        reason = error.whole_text if type(error).__str__ is NriError.__str__ else str(error)
        return Code.PERMISSION_DENIED, f" refused: {reason or 'without a reason'}"
    if isinstance(error, RpcError):
        return error.code, f": {error.message}"
    return Code.UNKNOWN, f": {describe(error)}"


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
