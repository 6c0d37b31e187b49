"""One connection's life, plugin side: register, be configured, synchronize, serve events, end.

    Session(plugin, sock, index="10").run()      # returns why the connection ended

One thread does it all (design: no hand-offs): it reads a request, runs the handler, writes the reply, reads again. The
plugin's server is up before RegisterPlugin is sent, because Configure may overtake the reply to it, and every wait
until Configure has a deadline. What follows after the end is `nri.stub.reconnect`.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from nri.api import messages as m
from nri.api import naming
from nri.api.events import BY_NUMBER, BY_RPC
from nri.errors import ConfigError, ConnectionClosed, DeadlineExceeded, NriError, RegistrationError, Reject, RpcError
from nri.mux.trunk import Trunk
from nri.stub import context, handlers, subscription
from nri.stub.coroutines import settle
from nri.stub.mirror import Mirror
from nri.stub.plugin import Plugin
from nri.stub.runtime import RuntimeHandle
from nri.stub.synchronize import Parts
from nri.ttrpc.codes import Code
from nri.ttrpc.endpoint import LATER, Endpoint
from nri.wire import bytes_field, iter_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nri.api.events import EventMask
    from nri.interfaces import Socket
    from nri.ttrpc.envelope import Request, Response
    from nri.ttrpc.interceptors import Interceptor

__all__ = ["Session"]


class Session:
    """One plugin on one connection.

    Args:
        plugin: the plugin; `plugin.runtime`, `.config` and `.state` are set on it.
        sock: a connected stream socket; the session owns it from now on.
        index: two digits.
        name: the name to register under; default: the plugin's.
        events: take only these, of the events that the plugin handles.
        registration_timeout_s: how long the runtime may take to register and configure us.
        configure: called with the runtime's configuration text; sets `plugin.config`.
            Default: `nri.stub.settings.apply`.
        on_ready: called once it takes part: synchronized, or at the first event of a runtime that does not synchronize.
        interceptors: see `nri.ttrpc.interceptors`.
    """

    def __init__(  # noqa: PLR0913 - options, all but two by keyword
        self,
        plugin: Plugin,
        sock: Socket,
        *,
        index: str,
        name: str = "",
        events: EventMask | None = None,
        registration_timeout_s: float = naming.REGISTRATION_TIMEOUT_S,
        configure: Callable[[str], None] | None = None,
        on_ready: Callable[[], None] | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        self.plugin = plugin
        self.index, self.name = index, name or plugin.name
        #: "connected", "registered", "configured", "ready" (synchronized, or served an event) or "closed".
        self.stage = "connected"
        #: What ends this plugin for good: a wrong configuration, a refused registration.
        self.fatal: NriError | None = None
        self._events = events
        self._timeout_s = registration_timeout_s
        self._configure = configure
        self._on_ready = on_ready
        self._announce: Callable[[], None] | None = None
        theirs: Any = plugin  # what people set is taken for what it means, also when this is compiled
        self._mirror = Mirror() if theirs.mirror else None
        self._parts = Parts()
        self._turn = allocate_lock()  # handlers one at a time, also against a changed configuration file
        self._stopping = False
        trunk = Trunk(sock, (naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN))
        self._endpoint = Endpoint(
            trunk,
            client_id=naming.RUNTIME_SERVICE_CONN,
            server_id=naming.PLUGIN_SERVICE_CONN,
            on_request=self._serve,
            interceptors=interceptors,
        )
        self._table = handlers.build(plugin, Plugin, self._mirror)
        self._table["Configure"] = self._serve_configure
        self._table["Synchronize"] = self._serve_synchronize
        self._table["StateChange"] = self._serve_state_change
        self._table["Shutdown"] = self._serve_shutdown
        plugin.runtime = RuntimeHandle(self._endpoint)
        if self._mirror is not None:
            plugin.state = self._mirror

    # -- life ---------------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Register and serve until the connection ends; returns why.

        Raises:
            RegistrationError: the runtime refused us, or we cannot serve it.
            ConfigError: the configuration cannot be used.
            DeadlineExceeded: the runtime said nothing within the registration timeout.
            ConnectionClosed: the connection ended before we were configured.
        """
        try:
            self._register()
            reason = self._endpoint.serve() or "closed"
            if self.fatal is not None:
                raise self.fatal
            return reason
        finally:
            self._end()

    def _register(self) -> None:
        endpoint = self._endpoint
        deadline = monotonic() + self._timeout_s
        refused: list[Response] = []

        def answered(response: Response | None) -> None:
            if response is not None and response.code:
                refused.append(response)
            elif response is not None and self.stage == "connected":
                self.stage = "registered"

        request = m.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.index, NRI_version=naming.NRI_VERSION)
        endpoint.start(naming.RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString(), deadline, answered)
        try:
            reason = endpoint.serve(lambda: bool(refused) or self.stage in ("configured", "ready"), deadline)
        except DeadlineExceeded:
            missing = "an answer to RegisterPlugin" if self.stage == "connected" else "Configure"
            endpoint.close("closed (registration timed out)")
            raise DeadlineExceeded(f"{missing} from the runtime ({self._timeout_s:g} s)") from None
        if refused:
            raise RegistrationError(f"the runtime refused plugin {self.index}-{self.name}: {refused[0].message}")
        if self.fatal is not None:
            raise self.fatal
        if reason is not None:
            raise ConnectionClosed(f"{reason} before Configure")

    def stop(self) -> None:
        """End after the reply to the request at hand. Safe in a signal handler and from any thread."""
        self._stopping = True
        self._endpoint.finish()

    def _end(self) -> None:
        was_ready = self.stage in ("configured", "ready")
        self.stage = "closed"
        self.plugin.runtime.connected = False
        self._endpoint.close()
        self._endpoint.release(monotonic() + 1.0)
        self._parts.clear()
        if was_ready:
            self._quietly("closed", self.plugin.closed)

    def _quietly(self, what: str, function: Callable[[], Any]) -> None:
        """Call a handler whose error nobody waits for."""
        try:
            settle(function())
        except Exception:  # noqa: BLE001
            self._log().exception("%s failed", what)

    def _log(self) -> Any:
        return self.plugin.log

    # -- requests -----------------------------------------------------------------------------------------------------

    def _serve(self, request: Request) -> object:
        self._serve_now(request)
        return LATER

    def _serve_now(self, request: Request) -> None:
        """Answer one request, then send what the handler asked to be sent."""
        endpoint = self._endpoint
        if request.service != naming.PLUGIN_SERVICE:
            endpoint.reply_error(request, Code.UNIMPLEMENTED, f"service {request.service}")
            return
        method = request.method
        serve = self._table.get(method)
        if serve is None:
            if method in BY_RPC:
                endpoint.reply(request, b"")  # an event that we do not handle is no error
            else:
                endpoint.reply_error(request, Code.UNIMPLEMENTED, f"method {method}")
            return
        if self.stage == "configured" and method in BY_RPC:
            self._become_ready()  # runtimes on 0.6.1 never synchronize the plugins that they launch themselves
        began = monotonic()
        timeout_ns = request.timeout_ns
        call = context.Call(method, began + timeout_ns * 1e-9 if timeout_ns else None)
        token = context.current.set(call)
        try:
            with self._turn:
                reply = serve(request.payload, call)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, the runtime gets an answer
            self._fail(request, error)
        else:
            endpoint.reply(request, reply)
            if self._announce is not None:
                announce, self._announce = self._announce, None
                announce()
        finally:
            if timeout_ns and (monotonic() - began) * 2e9 > timeout_ns:
                self._warn_slow(method, monotonic() - began, timeout_ns * 1e-9)
            context.current.reset(token)
            call.finished = True
            if call.queued is not None:
                self.plugin.runtime.send_queued(call)

    def _fail(self, request: Request, error: Exception) -> None:
        """Turn what a handler raised into a status, or into a refusal."""
        method = request.method
        text = str(error) or type(error).__name__
        if isinstance(error, Reject):
            if method == "ValidateContainerAdjustment":
                answer = m.ValidateContainerAdjustmentResponse(reject=True, reason=text)
                self._endpoint.reply(request, answer.SerializeToString())
            else:
                self._endpoint.reply_error(request, Code.PERMISSION_DENIED, text)
        elif isinstance(error, RpcError):
            self._endpoint.reply_error(request, error.code, error.message)
        elif type(error).__module__.startswith("google.") and type(error).__name__ == "DecodeError":
            self._endpoint.reply_error(request, Code.INTERNAL, f"ttrpc: error unmarshalling payload: {text}")
        else:
            if self.fatal is None:
                self._log().error("%s failed: %s", method, text, exc_info=error)
            self._endpoint.reply_error(request, Code.UNKNOWN, text)
        if self.fatal is not None:
            self._endpoint.finish()

    def _warn_slow(self, method: str, took_s: float, timeout_s: float) -> None:
        late = "more than" if took_s > timeout_s else "of"
        self._log().warning("%s took %.2f s %s the %.2f s that the runtime allows", method, took_s, late, timeout_s)

    # -- Configure ----------------------------------------------------------------------------------------------------

    def _serve_configure(self, payload: bytes, _: context.Call) -> bytes:
        request = m.ConfigureRequest.FromString(payload)
        runtime = self.plugin.runtime
        runtime.name, runtime.version = request.runtime_name, request.runtime_version
        runtime.nri_version = naming.infer_nri_version(runtime.name, runtime.version, request.NRI_version)
        if request.registration_timeout:
            runtime.registration_timeout_s = request.registration_timeout / 1000
        if request.request_timeout:
            runtime.request_timeout_s = request.request_timeout / 1000
        runtime.connected = True
        try:
            if self._configure is not None:
                self._configure(request.config)
            else:
                from nri.stub import settings

                settings.apply(self.plugin, request.config)
            mask = subscription.choose(self.plugin, self._table, self._events)
        except (ConfigError, RegistrationError) as error:
            self.fatal = error
            raise
        reply = m.ConfigureResponse(events=mask)
        if self.plugin.failure_policy is not None:
            reply.failure_policy.CopyFrom(self.plugin.failure_policy.message)
        if self.stage != "ready":
            self.stage = "configured"
        return reply.SerializeToString()

    def reconfigure(self, apply: Callable[[], None]) -> None:
        """Run `apply` between two handlers, then `configure` again: a configuration file has changed."""
        with self._turn:
            apply()
            settle(self.plugin.configure())

    # -- Synchronize, StateChange, Shutdown
    # -----------------------------------------------------------------------------

    def _serve_synchronize(self, payload: bytes, call: context.Call) -> bytes:
        wanted = self._mirror is not None or handlers.overridden(self.plugin, Plugin, "synchronize")
        if self._parts.add(payload, keep=wanted):
            return b"\x10\x01"  # more = true: give me the rest
        reply = b""
        if wanted:
            pods, containers = self._parts.take()
            if self._mirror is not None:
                self._mirror.replace(pods, containers)
            result = settle(self.plugin.synchronize(pods, containers))
            if result is not None:
                reply = handlers.encode_answer("Synchronize", result, call)
        self._become_ready()
        return reply

    def _become_ready(self) -> None:
        self.stage = "ready"
        self._announce = self._on_ready

    def _serve_state_change(self, payload: bytes, call: context.Call) -> bytes:
        """How runtimes before 0.12 tell of nine events.

        Pod and container have the field numbers of the events' own requests plus one, so they are passed on unparsed.
        """
        number = 0
        fields = []
        for key, _, value in iter_fields(payload):
            if isinstance(value, bytes):
                if key in (2, 3):
                    fields.append(bytes_field(key - 1, value))
            elif key == 1:
                number = value
        spec = BY_NUMBER.get(number)
        serve = self._table.get(spec.rpc) if spec is not None and spec.relayed else None
        if spec is None or serve is None:
            return b""
        call.event = spec.rpc
        return serve(b"".join(fields if spec.kind == "container" else fields[:1]), call)

    def _serve_shutdown(self, _payload: bytes, _: context.Call) -> bytes:
        self._quietly("shutdown", self.plugin.shutdown)
        return b""
