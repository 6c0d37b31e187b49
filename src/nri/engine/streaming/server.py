"""The streaming server. The CRI's replies have a URL with a token, and clients connect with it.

A token is random, and valid once and for a minute. It stands for the whole CRI request: of the HTTP request only the
token and the protocol are read. Each client has a thread.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import select
import socket
import ssl
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

#: The maximum number of clients at the same time.
MAX_CLIENTS = 256
#: The maximum number of additional connections that are being closed.
_MAX_CLOSING = 64
_STOP_S = 10.0
_PATH = re.compile(r"/(exec|attach|portforward)/([A-Za-z0-9_-]{32})")
_log = logging.getLogger(__name__)


class StreamingServer:
    """The server. Port 0 means any free port. :meth:`start` raises OSError if the address cannot be used.

    `tls` returns the TLS context of the next connection; without it the server uses plain HTTP.
    """

    def __init__(
        self,
        address: str,
        port: int,
        backend: Backend,
        limits: Limits | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._address, self._port, self._backend, self._tls = address, port, backend, tls
        self._limits = limits or Limits()
        self._tokens = Tokens(self._limits.token_s)
        self._stop = os.eventfd(0)
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._clients_without_token: dict[
            socket.socket, None
        ] = {}  # connections that have not sent a token, the oldest first
        self._url = ""

    # --- for the engine ---

    def start(self) -> None:
        """Listen, and serve clients on other threads."""
        family, _, _, _, address = socket.getaddrinfo(self._address, self._port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=128)
        host = self._address.partition("%")[0]
        port = listener.getsockname()[1]
        scheme = "https" if self._tls else "http"
        self._url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        self._run(self._accept, listener)

    def configure(self, limits: Limits) -> None:
        """Use other limits for the next clients."""
        self._limits, self._tokens.life_s = limits, limits.token_s

    @property
    def url(self) -> str:
        """The beginning of every URL, or "" before the server has started."""
        return self._url

    def stop(self) -> None:
        """Close all connections, and kill the programs that were started for them."""
        if self._stop < 0:
            return
        os.eventfd_write(self._stop, 1)
        deadline = time.monotonic() + _STOP_S
        while (threads := self._running_threads()) and time.monotonic() < deadline:
            for thread in threads:
                thread.join(max(deadline - time.monotonic(), 0))
        if not threads:  # otherwise a thread waits for the engine, and checks the event later
            os.close(self._stop)
            self._stop = -1

    def _running_threads(self) -> list[threading.Thread]:
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
        """Return a URL where a client can run a program.

        Raises RequestError if the request is invalid, and TooMany if too many URLs are unused.
        """
        if not argv:
            raise RequestError("cmd", "", "a program is required")
        stream_request = StreamRequest("exec", container_id, tuple(argv), tty, stdin, stdout, stderr)
        return self._command_url(stream_request)

    def attach_url(
        self, container_id: str, *, tty: bool = False, stdin: bool = False, stdout: bool = False, stderr: bool = False
    ) -> str:
        """Return a URL where a client can connect to a container's streams.

        Raises RequestError if the request is invalid, and TooMany if too many URLs are unused.
        """
        return self._command_url(StreamRequest("attach", container_id, (), tty, stdin, stdout, stderr))

    def _command_url(self, stream_request: StreamRequest) -> str:
        if not stream_request.id:
            raise RequestError("container_id", "", "is required")
        if stream_request.tty and stream_request.stderr:
            raise RequestError("stderr", True, "must not be requested with a terminal, which has only stdout")
        if not (stream_request.stdin or stream_request.stdout or stream_request.stderr):
            raise RequestError("stdin", False, "one of stdin, stdout and stderr must be requested")
        return self._session_url(stream_request)

    def port_forward_url(self, pod_id: str, ports: Sequence[int] = ()) -> str:
        """Return a URL where a client can connect to ports of a pod. Over SPDY the client chooses the ports itself.

        Raises RequestError if the request is invalid, and TooMany if too many URLs are unused.
        """
        if not pod_id:
            raise RequestError("pod_sandbox_id", "", "is required")
        for port in ports:
            if not 0 < port < 65536:
                raise RequestError("port", port, "must be between 1 and 65535")
        if len(ports) > websocket.MAX_PORTS:
            raise RequestError("port", len(ports), f"at most {websocket.MAX_PORTS} ports can be requested")
        return self._session_url(StreamRequest("portforward", pod_id, ports=tuple(ports)))

    def _session_url(self, stream_request: StreamRequest) -> str:
        return f"{self._url}/{stream_request.kind}/{self._tokens.put(stream_request)}"

    # --- threads ---

    def _run(self, target: object, connection: socket.socket) -> None:
        def run() -> None:
            try:
                target(connection)  # type: ignore[operator]
            except Stopped:
                pass
            except Exception:  # noqa: BLE001  nobody else sees a thread's errors
                _log.exception("streaming: a connection is closed after an error")
            finally:
                with self._lock:
                    self._clients_without_token.pop(connection, None)
                connection.close()
                with self._lock:  # last, because `stop` waits for this set
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
            except ConnectionError:  # the client has gone
                continue
            except OSError as error:  # no descriptor is free
                _log.warning("streaming: cannot accept a connection: %s", error)
                time.sleep(0.05)
                continue
            if self._tls:
                try:
                    connection = self._tls().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                except OSError as error:  # the client has gone; others must not wait because of it
                    _log.info("streaming: a client was disconnected: %s", error)
                    connection.close()
                    continue
            if self._is_full():
                connection.setblocking(False)
                _send(
                    connection, answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_CLIENTS} clients are already connected")
                )
                connection.close()
            else:
                with self._lock:
                    self._clients_without_token[connection] = None
                try:
                    self._run(self._serve, connection)
                except RuntimeError as error:  # no thread can be started now
                    _log.warning("streaming: no connection can be served: %s", error)
                    with self._lock:
                        del self._clients_without_token[connection]
                    connection.close()

    def _is_full(self) -> bool:
        """Return whether the server has too many clients, after closing the oldest connection without a token."""
        with self._lock:
            excess = len(self._threads) - MAX_CLIENTS
            if excess <= 0:
                return False
            if excess > _MAX_CLOSING or not self._clients_without_token:
                return True
            oldest = next(iter(self._clients_without_token))
            del self._clients_without_token[oldest]
            with suppress(OSError):  # it has gone
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)  # SSLSocket's method would disturb its thread
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
                stream_request, upgrade = self._match_request(request)
                with self._lock:
                    self._clients_without_token.pop(connection, None)
                link.send(upgrade.answer)
                idle_s = self._limits.idle_s
                self._session(link, poller, stream_request, upgrade).run(reader.rest)
        except Refused as refused:
            link.send(refused.answer)
        except (NriError, OSError) as error:
            _log.info("streaming: a client was disconnected: %s", error)
        link.finish(poller, idle_s)

    def _read_request(self, link: Link, poller: Poller, reader: RequestReader) -> Request | None:
        """Read the HTTP request. Returns None if it does not arrive in time. Raises Refused if it is invalid."""
        deadline = time.monotonic() + self._limits.request_s
        while (remaining_s := deadline - time.monotonic()) > 0 and not link.lost:
            if poller.wait({link.fileno(): select.POLLIN}, remaining_s) and (data := link.read()):
                try:
                    if request := reader.receive(data):
                        return request
                except RemoteProtocolError as error:
                    raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from None
        return None

    def _match_request(self, request: Request) -> tuple[StreamRequest, Upgrade]:
        """Find the CRI request of an HTTP request's token, and negotiate the protocol. Raises Refused if that fails."""
        if request.method not in ("GET", "POST"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are supported", ("Allow", "GET, POST"))
        match = _PATH.fullmatch(request.path)
        stream_request = self._tokens.take(match[2]) if match else None
        if match is None or stream_request is None or stream_request.kind != match[1]:
            raise Refused(HTTPStatus.NOT_FOUND, "no such session, or it has expired")
        if stream_request.kind == "portforward":
            over_websocket = (spdy_channels.TUNNEL, *(websocket.FORWARD_PROTOCOLS if stream_request.ports else ()))
            return stream_request, negotiate(request, (spdy_channels.FORWARD_PROTOCOL,), over_websocket)
        return stream_request, negotiate(request, spdy_channels.COMMAND_PROTOCOLS, websocket.COMMAND_PROTOCOLS)

    # --- sessions ---

    def _session(
        self, link: Link, poller: Poller, stream_request: StreamRequest, upgrade: Upgrade
    ) -> CommandSession | ForwardSession:
        if stream_request.kind == "portforward":
            connect = partial(self._backend.open_port, stream_request.id)
            return ForwardSession(link, poller, _forward_channels(stream_request, upgrade), connect, self._limits)
        start = partial(self._exec if stream_request.kind == "exec" else self._attach, stream_request)
        return CommandSession(link, poller, _command_channels(stream_request, upgrade), start, self._limits)

    def _exec(self, stream_request: StreamRequest) -> Program:
        execution = self._backend.exec(
            stream_request.id, stream_request.argv, tty=stream_request.tty, stdin=stream_request.stdin
        )
        return ExecProgram(execution, tty=stream_request.tty)

    def _attach(self, stream_request: StreamRequest) -> Program:
        return AttachProgram(self._backend.attach(stream_request.id), partial(self._backend.resize, stream_request.id))


def _command_channels(stream_request: StreamRequest, upgrade: Upgrade) -> CommandChannels:
    streams = requested_streams(
        stdin=stream_request.stdin, stdout=stream_request.stdout, stderr=stream_request.stderr, tty=stream_request.tty
    )
    if upgrade.websocket:
        return websocket.WebSocketCommand(upgrade.protocol, streams)
    return spdy_channels.SpdyCommand(upgrade.protocol, streams)


def _forward_channels(stream_request: StreamRequest, upgrade: Upgrade) -> ForwardChannels:
    if not upgrade.websocket:
        return spdy_channels.SpdyForward()
    if upgrade.protocol == spdy_channels.TUNNEL:
        return spdy_channels.TunnelForward()
    return websocket.WebSocketForward(upgrade.protocol, stream_request.ports)


def _send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.send(data)
    except OSError:
        pass  # the client gets no answer


#: The maximum number of unused tokens.
MAX_TOKENS = 1000


class StreamRequest(NamedTuple):
    """A request of the CRI: `kind` is ``exec``, ``attach`` or ``portforward``; `id` is the container's or pod's id."""

    kind: str
    id: str
    argv: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    ports: tuple[int, ...] = ()


class Tokens:
    """The requests that wait for their client. A token is valid for `life_s`. The class is thread-safe."""

    def __init__(self, life_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.life_s, self._clock = life_s, clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, StreamRequest]] = {}  # the oldest first

    def put(self, stream_request: StreamRequest) -> str:
        """Create a token for a request. Raises TooMany if too many tokens are unused."""
        with self._lock:
            now = self._clock()
            while self._waiting and next(iter(self._waiting.values()))[0] <= now:
                del self._waiting[next(iter(self._waiting))]
            if len(self._waiting) >= MAX_TOKENS:
                raise TooMany("stream requests without a client", MAX_TOKENS)
            token = secrets.token_urlsafe(24)
            self._waiting[token] = now + self.life_s, stream_request
            return token

    def take(self, token: str) -> StreamRequest | None:
        """Remove and return the request of a token. Returns None if the token is invalid or has expired."""
        with self._lock:
            expires, stream_request = self._waiting.pop(token, (0.0, None))
            return stream_request if expires > self._clock() else None


class Backend(Protocol):
    """Access to programs, containers' streams and ports of pods. Calls may block, and raise NriError or OSError."""

    def exec(self, container_id: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution:
        """Start a program in a container."""
        ...

    def attach(self, container_id: str) -> Attachment:
        """Connect to a container's streams."""
        ...

    def resize(self, container_id: str, width: int, height: int) -> None:
        """Set the size of a container's terminal, in characters."""
        ...

    def open_port(self, pod_id: str, port: int) -> socket.socket:
        """Connect to a port of a pod."""
        ...
