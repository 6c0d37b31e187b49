"""A ttRPC server for a unix socket: a thread per connection reads, a bounded pool answers. Thread-safe.

    server = Server("/run/my.sock", [Service("my.Echo", {"Echo": Method(echo, EchoRequest, EchoReply)})])
    with server:
        ...

Requests of one connection are answered concurrently, as ttRPC asks for, by at most `workers` threads for the whole
server; `backlog` more may wait, and what comes on top is answered ResourceExhausted. A plugin does not use this: its
loop answers inline (`nri.stub.session.service`).
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING

from nri.errors import RpcError
from nri.ttrpc.codes import Code, code_of
from nri.ttrpc.endpoint import LATER, Endpoint
from nri.ttrpc.service import Service, dispatcher
from nri.ttrpc.transport import SocketTransport
from nri.unix import UnixListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from nri.ttrpc.envelope import Request
    from nri.ttrpc.interceptors import Interceptor

__all__ = ["Server"]


class Server:
    """Serve `services` on a unix socket until `stop`.

    Args:
        path: the socket, with mode 0600. One that is there is replaced if no process listens on it.
        services: what to serve.
        workers: threads that answer.
        backlog: requests that may wait for a thread.
        max_connections: connections at one time; further ones are closed at once.
        interceptors: see `nri.ttrpc.interceptors`.
        admit: decides about a connection before anything is read from it; what it refuses is closed at once.
    """

    def __init__(
        self,
        path: str,
        services: Iterable[Service],
        *,
        workers: int = 8,
        backlog: int = 256,
        max_connections: int = 256,
        interceptors: Sequence[Interceptor] = (),
        admit: Callable[[socket.socket], bool] | None = None,
    ) -> None:
        self.path = path
        self._admit = admit
        self._answer = dispatcher(services)
        self._interceptors = tuple(interceptors)
        self._room = threading.Semaphore(workers + backlog)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="ttrpc-worker")
        self._max_connections = max_connections
        self._connections: set[Endpoint] = set()
        self._lock = threading.Lock()
        self._listener: UnixListener | None = None
        self._accepting: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Listen, and serve in the background. OSError if the socket cannot be made."""
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
                    threading.Event().wait(0.1)  # out of descriptors, most likely: there will be some again
                continue
            try:
                with self._lock:
                    full = len(self._connections) >= self._max_connections or self._stopping
                if full or not (self._admit is None or self._admit(sock)):
                    sock.close()
                    continue
                threading.Thread(target=self._serve, args=(sock,), name="ttrpc-connection", daemon=True).start()
            except (OSError, RuntimeError):  # the peer cannot be asked who it is, or there are no more threads
                sock.close()

    def _serve(self, sock: socket.socket) -> None:
        endpoint: Endpoint

        def enqueue(request: Request) -> object:
            if not self._room.acquire(blocking=False):
                raise RpcError(Code.RESOURCE_EXHAUSTED, "too many requests are waiting")
            try:
                self._pool.submit(self._work, endpoint, request)
            except RuntimeError:  # the pool is shut down
                self._room.release()
                raise RpcError(Code.UNAVAILABLE, "the server is stopping") from None
            return LATER

        endpoint = Endpoint(SocketTransport(sock), on_request=enqueue)
        with self._lock:
            self._connections.add(endpoint)
        try:
            endpoint.serve()
        finally:
            with self._lock:
                self._connections.discard(endpoint)
            endpoint.release(monotonic() + 1.0)

    def _work(self, endpoint: Endpoint, request: Request) -> None:
        try:
            answer: Callable[[Request], bytes] = self._answer
            for interceptor in reversed(self._interceptors):
                answer = _wrapped(interceptor, answer)
            endpoint.reply(request, answer(request))
        except RpcError as error:
            endpoint.reply_error(request, error.code, error.message)
        except Exception as error:  # noqa: BLE001 - the caller gets an answer, whatever the method raises
            endpoint.reply_error(request, code_of(error), str(error) or type(error).__name__)
        finally:
            self._room.release()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop listening, let running requests end for up to `timeout_s`, close all connections, remove the socket."""
        self._stopping = True
        if self._listener is not None:
            self._listener.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listener.close()
            self._listener = None
        done = threading.Thread(target=self._pool.shutdown, name="ttrpc-drain", daemon=True)
        done.start()
        done.join(timeout_s)
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


def _wrapped(interceptor: Interceptor, step: Callable[[Request], bytes]) -> Callable[[Request], bytes]:
    return lambda request: interceptor.serve(request, step)
