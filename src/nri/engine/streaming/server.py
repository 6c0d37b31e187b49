"""The streaming server: tokens for the CRI's answers, and the connections of clients that come with one.

A token is random, can be used once and within a minute, and is the only key to a request; what a client may do is in
that request, and of its HTTP request only the token and the protocol are read. There is one thread for each client, and
a limit of both tokens and clients.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import NamedTuple, Protocol

from nri.engine.process.attach import Attachment
from nri.engine.process.execution import Execution
from nri.engine.streaming import spdy_channels, websocket
from nri.engine.streaming.channels import CommandChannels, ForwardChannels, requested_streams
from nri.engine.streaming.command import AttachProgram, CommandSession, ExecProgram, Program
from nri.engine.streaming.forward import ForwardSession
from nri.engine.streaming.http import Refused, Request, RequestReader, Upgrade, answer, negotiate
from nri.engine.streaming.link import Limits, Link, Poller, Stopped
from nri.engine.support.errors import TooMany
from nri.errors import NriError, RemoteProtocolError, RequestError

#: How many clients are served at a time.
MAX_CLIENTS = 256
#: How many more may be on their way out.
_LEAVING = 64
_STOP_S = 10.0
_PATH = re.compile(r"/(exec|attach|portforward)/([A-Za-z0-9_-]{32})")
_log = logging.getLogger(__name__)


class StreamingServer:
    """Listens on an address; port 0 is any free one. Raises OSError from :meth:`start`."""

    def __init__(self, address: str, port: int, backend: Backend, limits: Limits | None = None) -> None:
        self._address, self._port, self._backend = address, port, backend
        self._limits = limits or Limits()
        self._tokens = Tokens(self._limits.token_s)
        self._stop = os.eventfd(0)
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._strangers: dict[socket.socket, None] = {}  # connections that have shown no token, the oldest first
        self._url = ""

    # --- for the engine --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen, and serve in threads of its own."""
        family, _, _, _, where = socket.getaddrinfo(self._address, self._port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(where[:2], family=family, backlog=128)
        host = self._address.partition("%")[0]
        port = listener.getsockname()[1]
        self._url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._run(self._accept, listener)

    @property
    def url(self) -> str:
        """The beginning of every address that it gives out; "" before its start."""
        return self._url

    def stop(self) -> None:
        """End all connections; programs that were started for them are killed."""
        if self._stop < 0:
            return
        os.eventfd_write(self._stop, 1)
        deadline = time.monotonic() + _STOP_S
        while (threads := self._running()) and time.monotonic() < deadline:
            for thread in threads:
                thread.join(max(deadline - time.monotonic(), 0))
        if not threads:  # else one still waits for the engine, and looks at the bell after that
            os.close(self._stop)
            self._stop = -1

    def _running(self) -> list[threading.Thread]:
        with self._lock:
            return [*self._threads]

    def exec_url(
        self,
        container_id: str,
        argv: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        stdout: bool = False,
        stderr: bool = False,
    ) -> str:
        """Give out an address at which a client can run a program. Raises RequestError, TooMany."""
        if not argv:
            raise RequestError("cmd", "", "no program to run")
        ask = Ask("exec", container_id, tuple(argv), tty, stdin, stdout, stderr)
        return self._command_url(ask)

    def attach_url(
        self, container_id: str, *, tty: bool = False, stdin: bool = False, stdout: bool = False, stderr: bool = False
    ) -> str:
        """Give out an address at which a client can attach to a container. Raises RequestError, TooMany."""
        return self._command_url(Ask("attach", container_id, (), tty, stdin, stdout, stderr))

    def _command_url(self, ask: Ask) -> str:
        if not ask.id:
            raise RequestError("container_id", "", "no container is named")
        if ask.tty and ask.stderr:
            raise RequestError("stderr", True, "a terminal has no stderr of its own")
        if not (ask.stdin or ask.stdout or ask.stderr):
            raise RequestError("stdin", False, "one of stdin, stdout and stderr must be asked for")
        return self._put(ask)

    def port_forward_url(self, pod_id: str, ports: Sequence[int] = ()) -> str:
        """Give out an address for ports of a pod; over SPDY the client names them. Raises RequestError, TooMany."""
        if not pod_id:
            raise RequestError("pod_sandbox_id", "", "no pod is named")
        for port in ports:
            if not 0 < port < 65536:
                raise RequestError("port", port, "a port is 1 to 65535")
        if len(ports) > websocket.MAX_PORTS:
            raise RequestError("port", len(ports), f"at most {websocket.MAX_PORTS} ports can be asked for")
        return self._put(Ask("portforward", pod_id, ports=tuple(ports)))

    def _put(self, ask: Ask) -> str:
        return f"{self._url}/{ask.kind}/{self._tokens.put(ask)}"

    # --- threads ---------------------------------------------------------------------------------------------------

    def _run(self, target: object, connection: socket.socket) -> None:
        def run() -> None:
            try:
                target(connection)  # type: ignore[operator]
            except Stopped:
                pass
            except Exception:  # noqa: BLE001  the end of a thread
                _log.exception("streaming: a connection is closed after an error")
            finally:
                with self._lock:
                    self._strangers.pop(connection, None)
                connection.close()
                with self._lock:  # last, because the end of all of these is the server's
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="nri-engine-streaming", daemon=True)
        with self._lock:
            thread.start()
            self._threads.add(thread)

    def _accept(self, listener: socket.socket) -> None:
        poller = Poller(self._stop)
        while True:
            poller.wait({listener.fileno(): select.POLLIN}, 3600)
            try:
                connection, _ = listener.accept()
            except OSError as error:  # gone again, or no descriptor is free
                _log.warning("streaming: no connection accepted: %s", error)
                time.sleep(0.05)
                continue
            if self._is_full():
                connection.setblocking(False)
                _say(connection, answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_CLIENTS} clients are served already"))
                connection.close()
            else:
                with self._lock:
                    self._strangers[connection] = None
                try:
                    self._run(self._serve, connection)
                except RuntimeError as error:  # no threads are left for now
                    _log.warning("streaming: no connection can be served: %s", error)
                    with self._lock:
                        del self._strangers[connection]
                    connection.close()

    def _is_full(self) -> bool:
        """Whether no more can be served; a connection without a token makes room, because anyone may have made it."""
        with self._lock:
            over = len(self._threads) - MAX_CLIENTS
            if over <= 0:
                return False
            if over > _LEAVING or not self._strangers:
                return True
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            with suppress(OSError):  # it has gone
                oldest.shutdown(socket.SHUT_RDWR)
            return False

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link, poller = Link(connection), Poller(self._stop)
        reader = RequestReader()
        idle_s = self._limits.request_s
        try:
            request = self._read_request(link, poller, reader)
            if request is not None:
                ask, upgrade = self._ask_of(request)
                with self._lock:
                    self._strangers.pop(connection, None)
                link.send(upgrade.answer)
                idle_s = self._limits.idle_s
                self._session(link, poller, ask, upgrade).run(reader.rest)
        except Refused as refused:
            link.send(refused.answer)
        except (NriError, OSError) as error:
            _log.info("streaming: a client was left: %s", error)
        link.finish(poller, idle_s)

    def _read_request(self, link: Link, poller: Poller, reader: RequestReader) -> Request | None:
        """The request; None if none came in time. Raises Refused for what is none."""
        deadline = time.monotonic() + self._limits.request_s
        while (left := deadline - time.monotonic()) > 0 and not link.lost:
            if poller.wait({link.fileno(): select.POLLIN}, left) and (data := link.read()):
                try:
                    if request := reader.receive(data):
                        return request
                except RemoteProtocolError as error:
                    raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from None
        return None

    def _ask_of(self, request: Request) -> tuple[Ask, Upgrade]:
        """Read from a request what it asks for, and the protocol. Raises Refused."""
        if request.method not in ("GET", "POST"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "GET and POST are served", ("Allow", "GET, POST"))
        match = _PATH.fullmatch(request.path)
        ask = self._tokens.take(match[2]) if match else None
        if match is None or ask is None or ask.kind != match[1]:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no session here, or it has expired")
        if ask.kind == "portforward":
            over_websocket = (spdy_channels.TUNNEL, *(websocket.FORWARD_PROTOCOLS if ask.ports else ()))
            return ask, negotiate(request, (spdy_channels.FORWARD_PROTOCOL,), over_websocket)
        return ask, negotiate(request, spdy_channels.COMMAND_PROTOCOLS, websocket.COMMAND_PROTOCOLS)

    # --- sessions --------------------------------------------------------------------------------------------------

    def _session(self, link: Link, poller: Poller, ask: Ask, upgrade: Upgrade) -> CommandSession | ForwardSession:
        if ask.kind == "portforward":
            connect = partial(self._backend.open_port, ask.id)
            return ForwardSession(link, poller, _forward_channels(ask, upgrade), connect, self._limits)
        start = partial(self._exec if ask.kind == "exec" else self._attach, ask)
        return CommandSession(link, poller, _command_channels(ask, upgrade), start, self._limits)

    def _exec(self, ask: Ask) -> Program:
        execution = self._backend.exec(ask.id, ask.argv, tty=ask.tty, stdin=ask.stdin)
        return ExecProgram(execution, tty=ask.tty)

    def _attach(self, ask: Ask) -> Program:
        return AttachProgram(self._backend.attach(ask.id), partial(self._backend.resize, ask.id))


def _command_channels(ask: Ask, upgrade: Upgrade) -> CommandChannels:
    streams = requested_streams(stdin=ask.stdin, stdout=ask.stdout, stderr=ask.stderr, tty=ask.tty)
    if upgrade.websocket:
        return websocket.WebSocketCommand(upgrade.protocol, streams)
    return spdy_channels.SpdyCommand(upgrade.protocol, streams)


def _forward_channels(ask: Ask, upgrade: Upgrade) -> ForwardChannels:
    if not upgrade.websocket:
        return spdy_channels.SpdyForward()
    if upgrade.protocol == spdy_channels.TUNNEL:
        return spdy_channels.TunnelForward()
    return websocket.WebSocketForward(upgrade.protocol, ask.ports)


def _say(connection: socket.socket, data: bytes) -> None:
    try:
        connection.send(data)
    except OSError:
        pass  # it gets no answer then


#: How many may wait at a time.
MAX_TOKENS = 1000


class Ask(NamedTuple):
    """A request of CRI: `kind` is ``exec``, ``attach`` or ``portforward``, `id` that of the container or pod."""

    kind: str
    id: str
    argv: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    ports: tuple[int, ...] = ()


class Tokens:
    """The requests that wait; a token can be used for `life_s` seconds. For any thread."""

    def __init__(self, life_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._life_s, self._clock = life_s, clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, Ask]] = {}  # the oldest first

    def put(self, ask: Ask) -> str:
        """A token for a request. Raises TooMany."""
        with self._lock:
            now = self._clock()
            while self._waiting and next(iter(self._waiting.values()))[0] <= now:
                del self._waiting[next(iter(self._waiting))]
            if len(self._waiting) >= MAX_TOKENS:
                raise TooMany("requests for streams that no client has taken up", MAX_TOKENS)
            token = secrets.token_urlsafe(24)
            self._waiting[token] = now + self._life_s, ask
            return token

    def take(self, token: str) -> Ask | None:
        """The request of a token, which is of no more use then; None if there is none."""
        with self._lock:
            expires, ask = self._waiting.pop(token, (0.0, None))
            return ask if expires > self._clock() else None


class Backend(Protocol):
    """Programs, containers' streams and ports of pods. Each call may take a while, and raise NriError or OSError."""

    def exec(self, container_id: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution:
        """Start a program in a container."""
        ...

    def attach(self, container_id: str) -> Attachment:
        """Connect to a container's streams."""
        ...

    def resize(self, container_id: str, width: int, height: int) -> None:
        """Set the size of a container's own terminal, in characters."""
        ...

    def open_port(self, pod_id: str, port: int) -> socket.socket:
        """Connect to a port of a pod, see :func:`nri.engine.streaming.forward.connect_port`."""
        ...
