"""The life of a plugin's process: connect, serve, connect again, stop on a signal. Decides exit codes.

| what happens | what follows |
|---|---|
| no socket, or nobody listens | wait for it, with a line on stderr after 1 s; `--no-reconnect`: exit 3 |
| not allowed to connect | exit 3 |
| refused before it was ever configured | exit 1 |
| the configuration cannot be used | exit 2 |
| the connection ends | connect again: 1 s doubling to 30 s, full jitter, from 1 s again after a good connection |
| pre-installed, and the connection ends | exit 0: there is nothing to connect to |
| SIGTERM | the request at hand is answered, exit 0; SIGINT: 130 |

A socket that is made anew is noticed within a quarter of a second, whatever the backoff.
"""

from __future__ import annotations

import _socket
import os
import signal
import sys
from _thread import allocate_lock
from time import monotonic

from nri.api import naming
from nri.backoff import Backoff
from nri.errors import ConfigError, ConnectionClosed, DeadlineExceeded, NriError, RegistrationError
from nri.stream import connect_unix
from nri.stub import settings
from nri.stub.background import Background
from nri.stub.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.stub.options import Options
    from nri.stub.plugin import Plugin

__all__ = ["Program"]

#: No pause between two connections is shorter, in seconds, so that a plugin never spins.
LEAST_PAUSE_S = 0.05
#: How often a wait looks whether the socket has changed, in seconds.
GLANCE_S = 0.25
#: How long a missing runtime goes without a word, in seconds.
PATIENCE_S = 1.0


class Program:
    """One plugin in one process.

    Args:
        plugin: the plugin.
        options: what the command line said.
        wait: waits this many seconds or until stopped; for tests.
    """

    def __init__(self, plugin: Plugin, options: Options) -> None:
        self.plugin = plugin
        self.options = options
        self._session: Session | None = None
        self._stopped_by = 0
        self._wake = allocate_lock()
        self._wake.acquire()
        self._background = Background(plugin)
        self._backoff = Backoff(least_s=LEAST_PAUSE_S)
        self._was_configured = False
        self._runtime_text = ""
        self._watching = False
        self._health: Any = None
        self._logging = False

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until stopped; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            return self._loop()
        except ConfigError as error:
            return self._give_up(2, str(error))
        except RegistrationError as error:
            return self._give_up(1, str(error))
        finally:
            self._background.stop()
            self._notify("STOPPING=1")
            if self._health is not None:
                self._health.close()
            if "nri.stub.coroutines" in sys.modules and "asyncio" in sys.modules:
                sys.modules["nri.stub.coroutines"].stop()

    def _loop(self) -> int:
        if self.options.health_addr:
            from nri.stub.health import HealthServer

            self._health = HealthServer(self.options.health_addr, self._is_ready)
        if self.options.socket_fd is not None:
            return self._serve_inherited(self.options.socket_fd)
        while not self._stopped_by:
            sock = self._connect()
            if isinstance(sock, int):
                return sock
            if sock is None:
                break
            code = self._serve(sock)
            if code is not None:
                return code
        return self._exit_code()

    def _exit_code(self) -> int:
        return 130 if self._stopped_by == signal.SIGINT else 0

    def _serve_inherited(self, fd: int) -> int:
        """The runtime has started us with a connection: one session, and no other after it."""
        os.environ.pop(naming.ENV_SOCKET, None)  # a child process must not take it for its own
        try:
            sock = _socket.socket(fileno=fd)
        except OSError as error:
            reason = f'invalid socket in environment ({naming.ENV_SOCKET}="{fd}"): {error.strerror}'
            raise ConfigError("environment", naming.ENV_SOCKET, reason) from None
        os.set_inheritable(fd, False)
        code = self._serve(sock, again=False)
        return self._exit_code() if code is None else code

    def _serve(self, sock: _socket.socket, *, again: bool = True) -> int | None:
        """One session. Returns an exit code, or None to go on."""
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
        )
        if self._stopped_by:
            session.stop()
        try:
            reason = session.run()
        except RegistrationError as error:
            if not self._was_configured:
                raise
            reason = str(error)
        except ConfigError:
            raise
        except (ConnectionClosed, DeadlineExceeded) as error:
            reason = str(error)
        finally:
            self._session = None
        if self._stopped_by:
            return self._exit_code()
        if not again:
            self._log("info", "connection closed by the runtime: %s", reason)
            return 0
        if options.no_reconnect:
            return self._give_up(3, f"lost the runtime at {options.socket}: {reason}")
        self._log("warning", "connection lost: %s; connecting again", reason)
        self._pause()
        return None

    def _configure(self, text: str) -> None:
        self._runtime_text = text
        settings.apply(self.plugin, text, self.options.config)
        self._was_configured = True
        if self.options.config is not None and not self._watching:
            self._watching = True
            self._in_thread("nri-config-watch", self._watch_config)

    def _on_ready(self) -> None:
        self._backoff.reset()
        runtime = self.plugin.runtime
        self._log(
            "info",
            "registered with %s %s as %s-%s",
            runtime.name,
            runtime.version,
            self.options.index,
            self.options.name,
        )
        self._background.start()
        self._notify("READY=1")

    def _is_ready(self) -> bool:
        session = self._session
        return session is not None and session.stage == "ready"

    # -- connecting ---------------------------------------------------------------------------------------------------

    def _connect(self) -> _socket.socket | int | None:
        """A connected socket; an exit code; or None when stopped."""
        path = self.options.socket
        began = monotonic()
        told = False
        while not self._stopped_by:
            try:
                return connect_unix(path)
            except PermissionError:
                return self._give_up(3, f"cannot connect to {path}: permission denied. Run as root, or try: nri doctor")
            except OSError as error:
                reason = error.strerror or str(error)  # a path that is too long has no errno
                if error.errno is None:
                    return self._give_up(2, f"--socket-path {path}: {reason}")
            if self.options.no_reconnect:
                return self._give_up(3, f"cannot connect to {path}: {reason}. Is NRI enabled? try: nri doctor")
            if not told and monotonic() - began >= PATIENCE_S:
                sys.stderr.write(f"waiting for {path}: {reason}. Is NRI enabled? try: nri doctor\n")
                sys.stderr.flush()
                told = True
            self._wait(GLANCE_S)
        return None

    def _pause(self) -> None:
        """Wait before the next connection; no longer than until there is another socket at the path."""
        before = _identity(self.options.socket)
        until = monotonic() + self._backoff.ended()
        while not self._stopped_by and (left_s := until - monotonic()) > 0:
            self._wait(min(left_s, GLANCE_S))
            if _identity(self.options.socket) not in (before, None):
                return

    def _wait(self, seconds: float) -> None:
        self._wake.acquire(timeout=seconds)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, _: object) -> None:
        self._stopped_by = self._stopped_by or number
        session = self._session
        if session is not None:
            session.stop()
        if self._wake.locked():
            self._wake.release()

    def _give_up(self, code: int, text: str) -> int:
        sys.stderr.write(f"error: {text}\n")
        if self.options.socket_fd is not None:  # nobody reads our stderr
            self._log("error", "%s", text)
        return code

    def _log(self, level: str, text: str, *arguments: object) -> None:
        if not self._logging:
            from nri.stub import logs

            self._logging = True
            options = self.options
            file = options.log_file or self.plugin.log_file
            logs.set_up(options.log_level.upper(), options.log_format, file, use_syslog=options.socket_fd is not None)
        getattr(self.plugin.log, level)(text, *arguments)

    def _notify(self, state: str) -> None:
        if "NOTIFY_SOCKET" in os.environ:
            from nri.stub.health import notify

            notify(state)

    def _in_thread(self, name: str, function: Callable[[], None]) -> None:
        import threading

        threading.Thread(target=function, name=name, daemon=True).start()

    def _watch_config(self) -> None:
        """Call `configure` again whenever the file has changed; a file that cannot be used changes nothing."""
        from nri.config import Watch

        file = self.options.config
        assert file is not None
        watch = Watch(file)
        while not self._stopped_by:
            self._pause_watch()
            session = self._session
            if session is None or not watch.changed():
                continue
            try:
                session.reconfigure(lambda: settings.apply(self.plugin, self._runtime_text, file))
            except NriError as error:
                self._log("error", "configuration not changed: %s", error)
            except Exception:
                self.plugin.log.exception("configure failed")
            else:
                self._log("info", "configuration read again from %s", file)

    def _pause_watch(self) -> None:
        from time import sleep

        sleep(WATCH_S)


#: How often the configuration file is looked at, in seconds.
WATCH_S = 1.0


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
