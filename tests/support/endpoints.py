"""Two endpoints on one trunk, and what tests of `nri.ttrpc` do with them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from nri.mux import Trunk
from nri.mux.frames import cut, pack
from nri.ttrpc import Endpoint
from nri.ttrpc.connection import ClientSide
from tests.support.waiting import PATIENCE_S


def soon(seconds: float = PATIENCE_S) -> float:
    return time.monotonic() + seconds


class Pair:
    """Two endpoints on one trunk; the far one serves in a thread."""

    def __init__(
        self,
        on_request: Callable[[Any], Any] | None = None,
        near_request: Callable[[Any], Any] | None = None,
        near_interceptors: Any = (),
    ) -> None:
        near_end, far_end = socket.socketpair()
        self.near_sock, self.far_sock = near_end, far_end
        self.closed: list[str] = []
        self.near = Endpoint(
            Trunk(near_end),
            client_id=1,
            server_id=2,
            on_request=near_request,
            interceptors=near_interceptors,
            on_close=self.closed.append,
        )
        self.far = Endpoint(Trunk(far_end), client_id=2, server_id=1, on_request=on_request or (lambda r: r.payload))
        self.thread = threading.Thread(target=self.far.serve, daemon=True)
        self.thread.start()

    def call(self, payload: bytes = b"", deadline: float | None = None, **options: Any) -> bytes:
        return self.near.call("s", "m", payload, deadline=soon() if deadline is None else deadline, **options)

    def close(self) -> None:
        self.near.close()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "the serving end hangs"
        for endpoint in (self.near, self.far):
            endpoint.close()
            endpoint.release(soon(1))


def end(*endpoints: Endpoint) -> None:
    for endpoint in endpoints:
        endpoint.close()
        endpoint.release(soon(1))


def fill(endpoint: Endpoint) -> None:
    """Fill the way to the peer, with frames of a connection that is not open: whoever reads them drops them."""
    sock = socket.socket(fileno=os.dup(endpoint.fileno()))
    try:
        while True:
            sock.send(pack(9, bytes(100)), socket.MSG_DONTWAIT)
    except BlockingIOError:
        pass
    finally:
        sock.close()


def serve(sock: socket.socket, numbers: list[int]) -> Endpoint:
    def echo(request: Any) -> Any:
        numbers.append(len(request.payload))
        return request.payload

    server = Endpoint(Trunk(sock), client_id=2, server_id=1, on_request=echo)
    threading.Thread(target=server.serve, daemon=True).start()
    return server


def a_request(payload: bytes = b"") -> bytes:
    """A request of the peer, as it is on the wire."""
    return cut(2, *ClientSide().request("s", "m", payload)[1])


def ends(work: Callable[[], object], what: str) -> list[BaseException]:
    """Run it in a thread, and see that it ends long before a reply is given up."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), f"{what} waits for a peer that does not read its replies"
    return errors


def responses(sock: socket.socket, side: ClientSide, count: int) -> list[Any]:
    """Read until so many responses and messages of streams have come; frames of no stream are dropped."""
    got: list[Any] = []
    while len(got) < count:
        data = sock.recv(65536)
        assert data, "the connection was closed"
        got += side.receive(data)
    return got
