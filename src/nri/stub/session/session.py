"""Run a connection of a plugin: register, get configured, synchronize, serve events.

    Session(plugin, sock, index="10").run()      # returns why the connection ended

One thread reads a request, runs the handler, writes the reply, and reads again.
"""

from __future__ import annotations

from os import geteuid
from time import monotonic

from nri.api import messages as m
from nri.api import naming
from nri.api.events import BY_RPC
from nri.errors import ConnectionClosed, DeadlineExceeded, RegistrationError
from nri.mux.trunk import Trunk
from nri.stub.handler.call import call_quietly
from nri.stub.session.service import PluginService, describe
from nri.stub.support.mirror import Mirror
from nri.stub.support.runtime_handle import RuntimeHandle
from nri.text import plain
from nri.ttrpc.endpoint import Endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

    from nri.api.events import EventMask
    from nri.errors import NriError
    from nri.interfaces import Reporter, Socket
    from nri.stub.base import PluginBase
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.interceptors import Interceptor

#: The end of a connection waits this long for the thread that still reads it, in seconds.
_RELEASE_S: Final = 1.0


class Session:
    """A plugin on a connection.

    Args:
        plugin: the plugin; `plugin.runtime`, `.config` and `.state` are set on it.
        sock: a connected stream socket, which the session takes over.
        index: the index, two digits.
        name: the name for the registration; default: the plugin's name.
        events: the selected events; None for all events that the plugin handles.
        registration_timeout_s: how long the runtime may take to register and configure the plugin.
        configure: called with the runtime's configuration text; sets `plugin.config`.
            Default: `nri.stub.session.settings.apply`.
        on_ready: called when the plugin is synchronized, or at the first event of a runtime that does not synchronize.
        interceptors: see `nri.ttrpc.interceptors`.
        reporter: called with every step of every request (`nri.interfaces.Reporter`).
        check_messages: a handler fails if it changes the message of its request (`nri.stub.support.handler_mistakes`),
            or sets fields that its class does not declare (`nri.stub.support.sets_check`).
        refuse_unsupported: changes that the runtime cannot apply are errors (`nri.stub.support.runtime_profile`).
        wake_fd: readable after a signal (`nri.signals.wake_fd`); -1 if another thread handles signals.
    """

    def __init__(  # noqa: PLR0913 - options, all but two by keyword
        self,
        plugin: PluginBase,
        sock: Socket,
        *,
        index: str,
        name: str = "",
        events: EventMask | None = None,
        registration_timeout_s: float = naming.REGISTRATION_TIMEOUT_S,
        configure: Callable[[str], None] | None = None,
        on_ready: Callable[[], None] | None = None,
        interceptors: Sequence[Interceptor] = (),
        reporter: Reporter | None = None,
        check_messages: bool = False,
        refuse_unsupported: bool = False,
        wake_fd: int = -1,
    ) -> None:
        self.plugin = plugin
        self.index, self.name = index, name or plugin.name
        #: After the end: the answer that the runtime has probably refused, if it disconnected right after it; else "".
        self.suspicion = ""
        self._timeout_s = registration_timeout_s
        untyped_plugin: Any = plugin  # compiled code would check the type of `mirror`, which may be any true value
        mirror = Mirror() if untyped_plugin.mirror else None
        label = naming.full_name(self.index, self.name)
        reporting = None
        if reporter is not None:
            from nri.stub.session.reporting import Reporting

            reporting = Reporting(reporter, label, plugin)
        wrap_handler, sets_check = _checks(plugin, check_messages)
        service = PluginService(
            plugin,
            label,
            mirror,
            events=events,
            configure=configure,
            on_ready=on_ready,
            reporting=reporting,
            wrap_handler=wrap_handler,
        )
        endpoint = Endpoint(
            Trunk(sock, (naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN), wake_fd=wake_fd),
            client_id=naming.RUNTIME_SERVICE_CONN,
            server_id=naming.PLUGIN_SERVICE_CONN,
            on_request=service.serve if reporting is None else reporting.around_requests(service.serve),
            interceptors=interceptors,
        )
        service.endpoint = endpoint
        self._service, self._endpoint = service, endpoint
        plugin.runtime = RuntimeHandle(endpoint, sets_check, label, refuse_unsupported)
        if mirror is not None:
            plugin.state = mirror

    @property
    def stage(self) -> str:
        """The stage of the connection: "connected", "registered", "configured", "ready" or "closed"."""
        return self._service.stage

    def responds(self, patience_s: float) -> bool:
        """Whether no handler is running, or the running handler returns within `patience_s` seconds."""
        turn = self._service.turn
        if not turn.acquire(timeout=patience_s):
            return False
        turn.release()
        return True

    @property
    def fatal(self) -> NriError | None:
        """The error that ends the plugin: an invalid configuration, or a refused registration."""
        return self._service.fatal

    @property
    def raised(self) -> Exception | None:
        """The exception of `configure` or `synchronize` if it kept the plugin from becoming active."""
        return self._service.raised

    @property
    def failure(self) -> str:
        """The exception in `raised` as text: the method, the exception's type and text."""
        raised = self._service.raised
        return "" if raised is None else f"{self._service.raised_by} failed: {describe(raised)}"

    @property
    def answered(self) -> bool:
        """Whether an event has been answered on this connection."""
        last = self._service.answered
        return last in BY_RPC or last == "StateChange"

    def run(self) -> str:
        """Register and serve until the connection ends. Returns why it ended.

        Raises:
            RegistrationError: the runtime refused the plugin, or the plugin cannot work with it.
            ConfigError: the configuration is invalid.
            DeadlineExceeded: the runtime did not answer within the registration timeout.
            ConnectionClosed: the connection ended before the plugin was configured.
            Exception: an exception of `configure` or `synchronize`, if the runtime disconnected because of it.
        """
        try:
            self._register()
            reason = self._endpoint.serve() or "closed"
            self._raise_failure()
            return reason
        finally:
            self._end()

    def _register(self) -> None:
        """Request registration, and answer requests until the runtime has configured the plugin."""
        endpoint, service = self._endpoint, self._service
        deadline = monotonic() + self._timeout_s
        refused: list[Response] = []

        def answered(response: Response | None) -> None:
            if response is not None and response.code:
                refused.append(response)
            elif response is not None and service.stage == "connected":
                service.stage = "registered"

        request = m.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.index, NRI_version=naming.NRI_VERSION)
        endpoint.start(naming.RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString(), deadline, answered)
        try:
            reason = endpoint.serve(lambda: bool(refused) or service.stage in ("configured", "ready"), deadline)
        except DeadlineExceeded:
            missing = "an answer to RegisterPlugin" if service.stage == "connected" else "Configure"
            endpoint.close("closed (registration timed out)")
            raise DeadlineExceeded(f"{missing} from the runtime ({self._timeout_s:g} s)") from None
        if refused:
            text = plain(refused[0].message)
            raise RegistrationError(f"the runtime refused plugin {self.index}-{self.name}: {text}", refused[0].code)
        self._raise_failure()
        if reason is not None:
            is_unregistered = service.stage == "connected"
            user = f"refuse user {geteuid()} (allowed_uids), or " if geteuid() else ""
            missing = (
                f"an answer to RegisterPlugin: it may {user}not be an NRI socket" if is_unregistered else "Configure"
            )
            raise ConnectionClosed(f"{reason} before {missing}")

    def _raise_failure(self) -> None:
        """Raise the error of this side that has ended the connection, if this side has ended it."""
        fatal, raised = self._service.fatal, self._service.raised
        if fatal is not None:
            raise fatal
        if raised is not None:
            raise raised

    def stop(self) -> None:
        """End after the reply to the current request. Safe in signal handlers and in any thread."""
        self._endpoint.finish()

    def reconfigure(self, apply: Callable[[], None]) -> None:
        """Run `apply` between two handlers, then call `configure` again, after a change of a configuration file."""
        self._service.reconfigure(apply)

    def _refused_answer(self) -> str:
        """Guess from the last call which answer the runtime has refused, if it disconnected without an error."""
        service = self._service
        if service.raised is not None:
            return ""  # the plugin's exception is the reason
        if service.answered == "Configure":
            return f"right after Configure: it probably refused the events {service.mask}"
        if service.answered == "Synchronize" and service.updates:
            updates = f"{service.updates} update{'s' if service.updates > 1 else ''}"
            return f"right after Synchronize: it probably could not apply the {updates} that synchronize returned"
        return ""

    def _end(self) -> None:
        service = self._service
        self.suspicion = self._refused_answer()
        was_ready = service.stage in ("configured", "ready")
        service.stage = "closed"
        self.plugin.runtime.connected = False
        self._endpoint.close()
        self._endpoint.release(monotonic() + _RELEASE_S)
        service.clear()
        if was_ready:
            call_quietly(self.plugin, "closed")


def _checks(plugin: Any, strict: bool) -> tuple[Any, Any]:
    """The checks of a handler's messages and of a plugin's answers. Each is imported only if it is used."""
    wrap_handler: Any = None
    sets_check: Any = None
    if strict:
        from nri.stub.support.handler_mistakes import checked_handler

        wrap_handler = checked_handler
    if plugin.sets is not None:
        from nri.stub.support.sets_check import SetsCheck

        sets_check = SetsCheck(plugin, strict=strict)
    return wrap_handler, sets_check
