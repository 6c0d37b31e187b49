"""The life of a plugin's process: connect, serve, connect again, stop on a signal. Decides exit codes.

| what happens | what follows |
|---|---|
| refused before it was ever configured, or nothing to subscribe to | exit 1 |
| the configuration cannot be used | exit 2 |
| the connection ends | connect again, see `nri.stub.program.reconnect`; `--no-reconnect`: exit 3 |
| pre-installed, and the connection ends | exit 0: there is nothing to connect to |
| SIGTERM | the request at hand is answered, exit 0; SIGINT: 130 |

One connection's life is `nri.stub.session.session`.
"""

from __future__ import annotations

import _socket
import os
import sys

from nri.api import naming
from nri.errors import ConfigError, ConnectionClosed, DeadlineExceeded, RegistrationError
from nri.stub.handler.coroutines import stop_loop
from nri.stub.program.reconnect import GiveUp, Reconnect
from nri.stub.program.stop import Stop
from nri.stub.session import settings
from nri.stub.session.background import Background
from nri.stub.session.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase
    from nri.stub.program.options import Options

__all__ = ["Program"]


class Program:
    """One plugin in one process.

    Args:
        plugin: the plugin.
        options: what the command line said.
        reporter: gets every step of every request told (`nri.interfaces.Reporter`).
    """

    def __init__(self, plugin: PluginBase, options: Options, *, reporter: Reporter | None = None) -> None:
        self.plugin = plugin
        self.options = options
        self._reporter = reporter
        self._session: Session | None = None
        self._stop = Stop(self._stop_session)
        self._reconnect = Reconnect(options.socket, self._stop, once=options.no_reconnect, no_wait=options.no_wait)
        self._background = Background(plugin)
        self._was_configured = False
        self._runtime_text = ""
        self._config_watch: Any = None
        self._health: Any = None
        self._logging = False

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until stopped; returns the exit code."""
        self._stop.listen()
        try:
            self._loop()
            return self._stop.exit_code
        except GiveUp as error:
            return self._give_up(error.code, error.text)
        except ConfigError as error:
            return self._give_up(2, str(error))
        except RegistrationError as error:
            return self._give_up(1, str(error))
        finally:
            self._background.stop()
            self._notify("STOPPING=1")
            if self._health is not None:
                self._health.close()
            stop_loop()

    def _loop(self) -> None:
        if self.options.health_addr:
            from nri.stub.program.health import HealthServer

            self._health = HealthServer(self.options.health_addr, self._is_ready)
        if self.options.socket_fd is not None:
            self._serve_inherited(self.options.socket_fd)
            return
        while not self._stop:
            sock = self._reconnect.connect()
            if sock is None:
                return
            reason = self._serve(sock)
            if self._stop:
                return
            if self.options.no_reconnect:
                raise GiveUp(3, f"lost the runtime at {self.options.socket}: {reason}")
            self._log("warning", "connection lost: %s; connecting again", reason)
            self._reconnect.pause()

    def _serve_inherited(self, fd: int) -> None:
        """Serve the connection with which the runtime has started us: one session, and no other after it."""
        os.environ.pop(naming.ENV_SOCKET, None)  # a child process must not take it for its own
        try:
            sock = _socket.socket(fileno=fd)
        except OSError as error:
            reason = f'invalid socket in environment ({naming.ENV_SOCKET}="{fd}"): {error.strerror}'
            raise ConfigError("environment", naming.ENV_SOCKET, reason) from None
        os.set_inheritable(fd, False)
        reason = self._serve(sock)
        if not self._stop:
            self._log("info", "connection closed by the runtime: %s", reason)

    def _serve(self, sock: _socket.socket) -> str:
        """Run one session to its end; returns why it ended, if that is no reason to end the program."""
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
        )
        if self._stop:
            session.stop()
        try:
            return session.run()
        except RegistrationError as error:
            if not self._was_configured or session.fatal is not None:
                raise  # refused at the first time, or by our own rules: neither gets better by trying again
            return str(error)
        except (ConnectionClosed, DeadlineExceeded) as error:
            return str(error)
        finally:
            self._session = None

    # -- what a session tells -----------------------------------------------------------------------------------------

    def _configure(self, text: str) -> None:
        file = self.options.config
        self._runtime_text = text
        settings.apply(self.plugin, text, file)
        self._was_configured = True
        if file is not None and self._config_watch is None:
            from nri.stub.program.config_watch import ConfigWatch

            self._set_up_log()
            self._config_watch = ConfigWatch(
                self.plugin,
                file,
                runtime_text=lambda: self._runtime_text,
                session=lambda: self._session,
                stop=self._stop,
            )

    def _on_ready(self) -> None:
        self._reconnect.succeeded()
        runtime, options = self.plugin.runtime, self.options
        self._log("info", "registered with %s %s as %s-%s", runtime.name, runtime.version, options.index, options.name)
        self._background.start()
        self._notify("READY=1")

    def _is_ready(self) -> bool:
        session = self._session
        return session is not None and session.stage == "ready"

    def _stop_session(self) -> None:
        session = self._session
        if session is not None:
            session.stop()

    # -- what others are told -----------------------------------------------------------------------------------------

    def _give_up(self, code: int, text: str) -> int:
        sys.stderr.write(f"error: {text}\n")
        if self.options.socket_fd is not None:  # no terminal shows our stderr
            self._log("error", "%s", text)
        return code

    def _log(self, level: str, text: str, *arguments: object) -> None:
        self._set_up_log()
        getattr(self.plugin.log, level)(text, *arguments)

    def _set_up_log(self) -> None:
        """Send the log where the options say, once; not before there is a line, because logging costs a start."""
        if self._logging:
            return
        from nri.stub.support import logs

        self._logging = True
        options = self.options
        file = options.log_file or self.plugin.log_file
        logs.set_up(options.log_level.upper(), options.log_format, file, use_syslog=options.socket_fd is not None)

    def _notify(self, state: str) -> None:
        if "NOTIFY_SOCKET" in os.environ:
            from nri.stub.program.health import notify

            notify(state)
