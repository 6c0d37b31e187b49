"""A ttRPC server for a unix socket: a thread per connection reads, a bounded pool of threads answers. Thread-safe.

    server = Server("/run/my.sock", [Service("my.Echo", {"Echo": Method(echo, EchoRequest, EchoReply)})])
    with server:
        ...

Requests of a connection are answered concurrently, as ttRPC requires, by at most `workers` threads for the whole
server. `backlog` more requests may wait; further requests are answered ResourceExhausted. Each open stream has its own
thread, and there are at most `streams` of them. A plugin does not use this server: its loop answers in the thread that
reads (`nri.stub.session.service`).
"""

from __future__ import annotations

import logging
import socket
import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.errors import ConnectionClosed, DeadlineExceeded, RpcError
from nri.thread_pool import ThreadPool
from nri.ttrpc.codes import Code, status_of
from nri.ttrpc.endpoint import LATER, Endpoint
from nri.ttrpc.frames import REMOTE_OPEN
from nri.ttrpc.halves import Data
from nri.ttrpc.interceptors import around_serving
from nri.ttrpc.services.service import Method, Service, Services
from nri.ttrpc.services.streams import ServerStream
from nri.ttrpc.transport import SocketTransport
from nri.unix import UnixListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Self

    from nri.ttrpc.envelope import Request
    from nri.ttrpc.interceptors import Interceptor

log = logging.getLogger("nri.ttrpc")


class Server:
    """Serve `services` on a unix socket until `stop`.

    Args:
        path: the socket, with mode 0600. An existing socket is replaced if no process listens on it; otherwise the
            start fails.
        services: the services.
        workers: the limit of threads that answer.
        backlog: the limit of requests that wait for a thread.
        streams: the limit of open streams; further streams are answered ResourceExhausted.
        max_connections: the limit of connections; further connections are closed at once.
        interceptors: see `nri.ttrpc.interceptors`.
        admit: called for a connection before any byte is read from it; False closes the connection.
    """

    def __init__(
        self,
        path: str,
        services: Iterable[Service],
        *,
        workers: int = 8,
        backlog: int = 256,
        streams: int = 128,
        max_connections: int = 256,
        interceptors: Sequence[Interceptor] = (),
        admit: Callable[[socket.socket], bool] | None = None,
    ) -> None:
        self.path = path
        self._admit = admit
        self._services = Services(services)
        self._answer = around_serving(interceptors, lambda request: self._services.find(request).answer(request))
        self._room = threading.Semaphore(workers + backlog)
        self._max_streams = streams
        self.streams: set[threading.Thread] = set()
        self._pool = ThreadPool(workers, thread_name_prefix="ttrpc-worker")
        self._max_connections = max_connections
        self._connections: set[Endpoint] = set()
        self._lock = threading.Lock()
        self._listener: UnixListener | None = None
        self._accepting: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Listen, and serve in the background. Raises OSError if the socket cannot be created."""
        self._listener = UnixListener(self.path, backlog=64)
        listening = self._listener.socket
        self._accepting = threading.Thread(target=self._accept, args=(listening,), name="ttrpc-accept", daemon=True)
        self._accepting.start()

    def _accept(self, listening: socket.socket) -> None:
        while not self._stopping:
            try:
                sock, _ = listening.accept()
            except OSError:
                if not self._stopping:
                    threading.Event().wait(0.1)  # probably there are no descriptors left at the moment
                continue
            try:
                with self._lock:
                    full = len(self._connections) >= self._max_connections or self._stopping
                if full or not (self._admit is None or self._admit(sock)):
                    sock.close()
                    continue
                threading.Thread(target=self._serve, args=(sock,), name="ttrpc-connection", daemon=True).start()
            except (OSError, RuntimeError):  # the peer's user is unknown, or no thread could be started
                sock.close()

    def _serve(self, sock: socket.socket) -> None:
        endpoint: Endpoint

        def enqueue(request: Request) -> object:
            method = self._services.find(request)
            if method.streaming is not None:
                self._start_stream(endpoint, request, method)
                return LATER
            if not self._room.acquire(blocking=False):
                raise RpcError(Code.RESOURCE_EXHAUSTED, "too many requests are waiting")
            try:
                self._pool.submit(self._serve_request, endpoint, request)
            except RuntimeError:  # the pool is shut down
                self._room.release()
                raise RpcError(Code.UNAVAILABLE, "the server is stopping") from None
            return LATER

        endpoint = Endpoint(SocketTransport(sock), on_request=enqueue, streams=True)
        with self._lock:
            self._connections.add(endpoint)
            late = self._stopping
        if late:  # `stop` may already have closed the other connections
            endpoint.close("server closed")
        try:
            endpoint.serve()
        finally:
            with self._lock:
                self._connections.discard(endpoint)
            endpoint.release(monotonic() + 1.0)

    def _serve_request(self, endpoint: Endpoint, request: Request) -> None:
        try:
            endpoint.reply(request, self._answer(request))
        except Exception as error:  # noqa: BLE001 - the caller must get an answer
            _fail(endpoint, request, error)
        finally:
            self._room.release()

    def _start_stream(self, endpoint: Endpoint, request: Request, method: Method) -> None:
        stream: ServerStream[Any] = ServerStream(endpoint, request, method.request_type)
        if method.streaming != "server":
            closed = not request.flags & REMOTE_OPEN
            if request.payload or closed:
                stream.begin(Data(request.stream_id, request.payload or None, last=closed))
        thread = threading.Thread(
            target=self._run_stream, args=(endpoint, stream, method), name="ttrpc-stream", daemon=True
        )
        with self._lock:
            full = len(self.streams) >= self._max_streams or self._stopping
            try:
                if full:
                    raise RpcError(Code.RESOURCE_EXHAUSTED, "too many streams are open")
                thread.start()  # started with the lock held, because `stop` joins threads, which must have started
                self.streams.add(thread)
            except BaseException:
                stream.forget()
                raise

    def _run_stream(self, endpoint: Endpoint, stream: ServerStream[Any], method: Method) -> None:
        request = stream.request
        try:
            reply = method.stream(stream)
            if reply is None:
                stream.end()
            else:
                endpoint.reply(request, reply)
        except Exception as error:  # noqa: BLE001 - the caller must get an answer
            if endpoint.closed is None or not isinstance(
                error, ConnectionClosed
            ):  # otherwise the client has disconnected
                _fail(endpoint, request, error)
        finally:
            stream.forget()
            with self._lock:
                self.streams.discard(threading.current_thread())

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop listening, let running requests end for up to `timeout_s`, close all connections, remove the socket.

        Streams have the same time; streams that continue are ended with their connections.
        """
        self._stopping = True
        deadline = monotonic() + timeout_s
        if self._listener is not None:
            self._listener.socket.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
            self._listener.close()
            self._listener = None
        drain = threading.Thread(target=self._pool.shutdown, name="ttrpc-drain", daemon=True)
        try:
            drain.start()
            drain.join(timeout_s)
        except RuntimeError:  # no thread could be started: running requests end with their connections
            self._pool.shutdown(wait=False)
        with self._lock:
            streams = list(self.streams)
        for stream in streams:
            stream.join(max(0.0, deadline - monotonic()))
        with self._lock:
            connections = list(self._connections)
        for endpoint in connections:
            endpoint.close("server closed")
        if self._accepting is not None:
            self._accepting.join(timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _fail(endpoint: Endpoint, request: Request, error: Exception) -> None:
    """Answer with the status of a method's exception. Unexpected exceptions are logged."""
    if not isinstance(error, (RpcError, DeadlineExceeded)):  # the client knows its own deadline
        log.error("%s/%s failed", request.service, request.method, exc_info=error)
    endpoint.reply_error(request, *status_of(error))
