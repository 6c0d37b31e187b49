"""Run a plugin's process: connect, serve, reconnect, stop on a signal, and choose the exit code.

| event | reaction |
|---|---|
| the runtime refuses the registration, and has never configured the plugin | exit 1 |
| there is no event to subscribe to | exit 1 |
| the configuration, the command line or the environment is invalid | exit 2, which systemd's units do not restart |
| `configure` or `synchronize` raises | log and reconnect; with `--no-reconnect`, or pre-installed: exit 1 |
| the connection ends | reconnect, see `nri.stub.program.reconnect`; with `--no-reconnect`: exit 3 |
| pre-installed, and the connection ends | exit 0, because there is no socket to connect to |
| SIGTERM | answer the running request, exit 0; SIGINT: exit 130 |
| a handler, or a method of `@nri.every`, calls `sys.exit` | exit with that code |
"""

from __future__ import annotations

import _socket
import os
import signal
import sys

from nri.api import naming
from nri.errors import ConfigError, ConnectionClosed, DeadlineExceeded, RegistrationError
from nri.signals import Stop, wake_fd
from nri.stub.handler.coroutines import stop_loop
from nri.stub.program.reconnect import GiveUp, Reconnect
from nri.stub.session import settings
from nri.stub.session.background import Background
from nri.stub.session.session import Session
from nri.stub.support import log_destination
from nri.text import lines
from nri.ttrpc.codes import Code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.backoff import Backoff
    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase
    from nri.stub.program.options import Options

#: The exit code of a plugin that cannot work until the plugin or the runtime is corrected.
CANNOT_WORK = 1
#: The exit code of a plugin that cannot work until its configuration is corrected.
BAD_CONFIGURATION = 2
_NAME_TAKEN = "its name is already in use"
#: A probe waits this long for a running handler before it reports the plugin as not ready, in seconds.
HANG_S = 1.0


def make_log_if_due() -> None:
    """Set up the log now if the plugin may log without `self.log` (`nri.stub.support.log_destination`)."""
    if log_destination.is_due():
        from nri.stub.support import logs

        logs.set_up_as_chosen()


class Program:
    """A plugin in a process, or one of several plugins in a process (`nri.stub.program.plugin_group`).

    Args:
        plugin: the plugin.
        options: the options of the command line.
        reporter: called with every step of every request (`nri.interfaces.Reporter`).
        silent: do not print that the program waits for the runtime.
        notify: called with "READY=1" and "STOPPING=1", instead of systemd.
        backoff: the pauses between connections; default: the pauses of `nri.stub.program.reconnect`.

    Attributes:
        label: ``NN-name``.
        stop: stops the program.
    """

    def __init__(
        self,
        plugin: PluginBase,
        options: Options,
        *,
        reporter: Reporter | None = None,
        silent: bool = False,
        notify: Callable[[str], None] | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        settings.check_attributes(plugin)
        self.plugin = plugin
        self.options = options
        plugin._named_events = options.named_events
        self.label = naming.full_name(options.index, options.name)
        self.stop = Stop(self._stop_session)
        self._reporter = reporter
        self._notify = notify or notify_systemd
        self._session: Session | None = None
        self.reconnect = Reconnect(
            options.socket,
            self.stop,
            no_reconnect=options.no_reconnect,
            no_wait=options.no_wait,
            silent=silent,
            backoff=backoff,
        )
        self._background = Background(plugin, self._exit)
        self._exited: SystemExit | None = None
        self._was_configured = False
        self._runtime_text = ""
        self._config_watch: Any = None

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until stopped. Returns the exit code."""
        self.stop.listen()
        try:
            self.serve()
            return self.stop.exit_code
        except GiveUp as error:
            return self.give_up(error.code, error.text)
        except ConfigError as error:
            return self.give_up(BAD_CONFIGURATION, str(error))
        finally:
            stop_loop()

    def serve(self) -> None:
        """Run until stopped, without handling signals.

        Raises:
            GiveUp: the plugin cannot continue.
            ConfigError: the environment is invalid.
            SystemExit: a handler or background work has called `sys.exit`.
        """
        try:
            self._loop()
        finally:
            self._background.stop()
            self._notify("STOPPING=1")
        if self._exited is not None:
            raise self._exited

    def _exit(self, error: SystemExit) -> None:
        self._exited = error
        if not self.stop:
            self.stop.take(signal.SIGTERM)

    def _loop(self) -> None:
        if self.options.socket_fd is not None:
            self._serve_inherited(self.options.socket_fd)
            return
        if self.options.config is not None:
            self._check_config(self.options.config)
        while not self.stop:
            sock = self.reconnect.connect()
            if sock is None:
                return
            reason = self._serve(sock)
            if self.stop:
                return
            if reason == _NAME_TAKEN:
                continue
            if self.options.no_reconnect:
                raise GiveUp(3, f"lost the runtime at {self.options.socket}: {reason}")
            delay_s = self.reconnect.delay_s()
            self.plugin.log.warning("connection lost: %s; connecting again in %.1f s", reason, delay_s)
            self.reconnect.pause(delay_s)

    def _check_config(self, file: str) -> None:
        """Report mistakes in the file before the runtime is connected, which may take long."""
        try:
            settings.apply(self.plugin, "", file, self.options.own)
        except ConfigError as error:
            self._write_note(str(error))
            raise GiveUp(BAD_CONFIGURATION, str(error)) from None

    def _serve_inherited(self, fd: int) -> None:
        """Serve the connection that the runtime passed to this process, for one session."""
        os.environ.pop(naming.ENV_SOCKET, None)  # child processes must not use it
        try:
            sock = _socket.socket(fileno=fd)
        except OSError as error:
            reason = f'invalid socket in environment ({naming.ENV_SOCKET}="{fd}"): {error.strerror}'
            raise ConfigError("environment", naming.ENV_SOCKET, reason) from None
        os.set_inheritable(fd, False)
        reason = self._serve(sock)
        if not self.stop:
            self.plugin.log.info("connection closed by the runtime: %s", reason)

    def _serve(self, sock: _socket.socket) -> str:
        """Run a session to its end. Returns why it ended. Raises GiveUp if the program has to end."""
        options = self.options
        session = self._session = Session(
            self.plugin,
            sock,
            index=options.index,
            name=options.name,
            events=options.events,
            registration_timeout_s=options.registration_timeout_s,
            configure=self._configure,
            on_ready=self._on_ready,
            reporter=self._reporter,
            check_messages=options.check_messages,
            refuse_unsupported=options.unsupported == "refuse",
            wake_fd=wake_fd(),
        )
        if self.stop:
            session.stop()
        try:
            reason = session.run()
        except (ConfigError, RegistrationError) as error:
            if getattr(error, "code", 0) == Code.ALREADY_EXISTS and options.spare_names:
                options.name = options.spare_names.pop(0)
                self.label = naming.full_name(options.index, options.name)
                return _NAME_TAKEN
            if session.fatal is not None:
                self._write_note(str(error))
            elif self._was_configured:
                return self._record_end(session, str(error))
            code = BAD_CONFIGURATION if isinstance(error, ConfigError) else CANNOT_WORK
            raise GiveUp(code, str(error)) from None
        except (ConnectionClosed, DeadlineExceeded) as error:
            reason = str(error)
        except Exception as error:
            if error is not session.raised:
                raise
            reason = self._handle_failure(session)
        finally:
            self._session = None
        return self._record_end(session, reason)

    def _handle_failure(self, session: Session) -> str:
        """Handle an exception of `configure` or `synchronize`.

        Returns its text. Raises GiveUp if the program must end.
        """
        reason = session.failure
        self._write_note(reason)
        is_last_session = self.options.no_reconnect or self.options.socket_fd is not None
        if is_last_session and not self.stop:
            raise GiveUp(CANNOT_WORK, reason)
        return reason

    def _record_end(self, session: Session, reason: str) -> str:
        """Record the end of a connection. Returns its reason, with a suspicion if the connection was short."""
        was_good = self.reconnect.ended(answered=session.answered)
        return reason if was_good or self.stop or not session.suspicion else f"{reason} ({session.suspicion})"

    # -- callbacks of the session -------------------------------------------------------------------------------------

    def _configure(self, text: str) -> None:
        before, self._runtime_text = self._runtime_text, text
        watch = self._new_config_watch()  # taken before the file is read, so that no change in between is missed
        try:
            settings.apply(self.plugin, text, self.options.config, self.options.own)
        except ConfigError as error:
            if not self._was_configured or text != before:
                raise
            # A mistake in the file did not end the plugin while the runtime ran, so it must not after a restart.
            self.plugin.log.error("%s; the previous configuration stays in use", error)  # noqa: TRY400 - has file, key
        make_log_if_due()
        self._was_configured = True
        if watch is not None:
            self._config_watch = watch
            watch.start()

    def _new_config_watch(self) -> Any:
        """Create a watch of the file of `--config`. Returns None if it is already watched, or not set."""
        if self.options.config is None or self._config_watch is not None:
            return None
        from nri.stub.program.config_watch import ConfigWatch

        return ConfigWatch(
            self.plugin,
            self.options.config,
            plugin_flags=self.options.own,
            runtime_text=lambda: self._runtime_text,
            session=lambda: self._session,
            stop=self.stop,
        )

    def _on_ready(self) -> None:
        runtime, label = self.plugin.runtime, self.label
        title = f" ({runtime.profile.title})" if runtime.profile is not None else ""
        self.plugin.log.info("registered with %s %s%s as %s", runtime.name, runtime.version, title, label)
        self._remove_note()
        self._background.start()
        self._notify("READY=1")

    def is_ready(self) -> bool:
        """Whether the plugin is active: it was synchronized, or has received an event."""
        session = self._session
        return session is not None and session.stage == "ready"

    def health(self) -> tuple[bool, str]:
        """Whether the plugin is active and its handlers return, and a line of text. Waits for a running handler."""
        session = self._session
        if session is None or not self.is_ready():
            return False, "not synchronized with a runtime\n"
        if not session.responds(HANG_S):
            return False, f"a handler has not returned for {HANG_S:g} s\n"
        return True, "ready\n"

    def measurements(self) -> str:
        """The plugin's additional metrics as text. Returns "" if its method raises."""
        try:
            return self.plugin.measurements()
        except Exception:
            self.plugin.log.exception("measurements cannot be reported")
            return ""

    def _stop_session(self) -> None:
        session = self._session
        if session is not None:
            session.stop()

    # -- errors ---------------------------------------------------------------------------------------------------

    def give_up(self, code: int, text: str) -> int:
        """Report why the program ends, on stderr and in the log. Returns the exit code."""
        sys.stderr.write(f"error: {lines(text)}\n")
        # The stderr of a pre-installed plugin is lost, and readers of a log file do not see stderr.
        if self.options.socket_fd is not None or self.options.log_file or self.plugin.log_file:
            self.plugin.log.error("%s", text)
        return code

    def _write_note(self, text: str) -> None:
        from nri.stub.program.failure_note import write_note

        write_note(self.options.socket, self.label, text)

    def _remove_note(self) -> None:
        """Remove the note that an earlier process or connection has written for `nri doctor`."""
        folder = f"{os.path.dirname(self.options.socket)}/{naming.FAILED_DIR}"
        if os.path.exists(folder):
            from nri.stub.program.failure_note import remove_note

            remove_note(self.options.socket, self.label)


def notify_systemd(state: str) -> None:
    """Send a state to systemd if it started this process."""
    if "NOTIFY_SOCKET" in os.environ:
        from nri.service.systemd import notify

        notify(state)
