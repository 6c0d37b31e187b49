"""The blocking front: call and serve over one transport, with deadlines. Knows no sockets: those are in the transport.

Three ways to use it, which can be mixed:
- `call()` from any thread, or its two halves `begin()` and `collect()` from two threads;
- `serve()` in one thread: reads until the connection ends and answers requests as they come (a plugin's loop);
- `poll()` when the descriptor is readable: for a monitor that watches idle connections (`nri.ttrpc.monitor`).

Here requests are sent. The rest is inherited, one file for one job: `nri.ttrpc.collecting` waits for responses,
`nri.ttrpc.answering` reads and answers, `nri.ttrpc.roles` says who may read and write. A chain of classes and no
objects side by side, because a call must not cost one function more. What goes over the wire is `nri.ttrpc.connection`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded
from nri.stream import SentInPart
from nri.ttrpc.answering import LATER, NOW, bind
from nri.ttrpc.collecting import Collecting
from nri.ttrpc.envelope import Request, request_prefix
from nri.ttrpc.waiters import Callback, Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    from nri.ttrpc.collecting import Sent
    from nri.ttrpc.envelope import Response

__all__ = ["LATER", "Endpoint"]

# A frame of at most so many bytes goes into the empty buffer of a socket without waiting (its default is 208 KiB).
_SURE_TO_FIT: Final = 32768

_prefixes: dict[tuple[str, str], bytes] = {}


def _prefix(service: str, method: str) -> bytes:
    key = (service, method)
    prefix = _prefixes.get(key)
    if prefix is None:
        if len(_prefixes) > 1024:  # names come from programs; a caller that makes them up must not fill memory
            _prefixes.clear()
        prefix = _prefixes[key] = request_prefix(service, method)
    return prefix


def _left_ns(deadline: float) -> int:
    """What the peer is told: whole milliseconds, because equal timeouts are encoded once, and at least one."""
    left_s = deadline - monotonic()
    return int(left_s * 1e3) * 1_000_000 or 1_000_000 if left_s > 0 else 0


class Endpoint(Collecting):
    """Client and server of one transport.

    Args:
        transport: `nri.mux.Trunk` or `SocketTransport`.
        client_id: connection number for calls that we make.
        server_id: connection number for requests that we answer.
        on_request: answers a request; None answers everything Unimplemented.
        interceptors: see `nri.ttrpc.interceptors`; the first is outermost.
        on_close: called once, with the reason, when the connection has ended.
    """

    __slots__ = ()

    def call(
        self,
        service: str,
        method: str,
        payload: bytes = b"",
        *,
        deadline: float | None = None,
        metadata: Iterable[tuple[str, str]] = (),
        meanwhile: Callable[[], None] | None = None,
    ) -> bytes:
        """Call and wait for the reply's bytes.

        Args:
            deadline: absolute `time.monotonic()` seconds; the peer is told how much is left. None waits for ever.
            meanwhile: called when the request is on its way: what this side has to do anyway costs nothing then.

        Raises:
            RpcError: the peer answered with a status.
            OversizedMessage: the request is over 4 MiB; nothing was written.
            DeadlineExceeded: no answer in time. The connection stays usable, a late answer is dropped.
            ConnectionClosed: the connection ended.
        """
        if self._interceptors:
            request = Request(service, method, payload, metadata=tuple(metadata))
            return self._intercepted_call(request, deadline, meanwhile)
        return self._call(service, method, payload, deadline, metadata, meanwhile)

    def _intercepted_call(self, asked: Request, deadline: float | None, meanwhile: Callable[[], None] | None) -> bytes:
        def proceed(request: Request) -> bytes:
            return self._call(request.service, request.method, request.payload, deadline, request.metadata, meanwhile)

        step: Callable[[Request], Any] = proceed
        for interceptor in reversed(self._interceptors):
            step = bind(interceptor.call, step)
        reply = step(asked)
        return bytes(reply) if isinstance(reply, (bytearray, memoryview)) else reply

    def _call(
        self,
        service: str,
        method: str,
        payload: bytes,
        deadline: float | None,
        metadata: Iterable[tuple[str, str]],
        meanwhile: Callable[[], None] | None,
    ) -> bytes:
        timeout_ns = 0
        if deadline is not None:
            timeout_ns = _left_ns(deadline)
            if timeout_ns <= 0:
                raise DeadlineExceeded(method)
        if not self._sender.acquire(False) and not self._wait_to_send(deadline):
            raise DeadlineExceeded(method)
        sent = self._send(service, method, payload, timeout_ns, deadline, metadata, deadline)
        if meanwhile is None:
            return self._collect(sent)
        try:
            meanwhile()
        except BaseException:
            self.abandon(sent)
            raise
        return self.collect(sent)  # an answer that came meanwhile counts, however long that was

    def begin(self, service: str, method: str, payload: bytes, deadline: float) -> Sent | None:
        """Send a request whose answer another thread reads: with `collect`, to which the result goes, or `abandon`.

        None, with nothing sent, where that might wait, or where the answer might reach somebody else first.
        """
        timeout_ns = _left_ns(deadline)
        if timeout_ns <= 0 or self._interceptors or len(payload) > _SURE_TO_FIT // 2 or not self._sender.acquire(False):
            return None
        if self.closed is not None or self._waiters or self._behind or self._reader.locked():
            self._sender.release()
            return None
        sent = self._send(service, method, payload, timeout_ns, deadline, (), NOW)
        return sent if sent[4] is None else self._begun_late(sent)

    def _begun_late(self, sent: Sent) -> Sent | None:
        """The peer reads so little that the write would wait: that is not for the thread that only begins."""
        stream_id, method, deadline, waiter, failure = sent
        if isinstance(failure, ConnectionClosed):
            return sent
        if not isinstance(failure, SentInPart):
            self.abandon(sent)
            return None
        if waiter is None:  # while `collect` writes the rest, somebody must go on reading
            waiter = self._waiters[stream_id] = Waiter()
            self._stop_reading(None)
            self._have_watched()
        return stream_id, method, deadline, waiter, failure

    def _send(
        self,
        service: str,
        method: str,
        payload: bytes,
        timeout_ns: int,
        deadline: float | None,
        metadata: Iterable[tuple[str, str]],
        write_by: float | None,
    ) -> Sent:
        """Send a request, and take the role of the reader if that is free. The sender's role is held, and given up."""
        waiter: Waiter | None = None
        failure: DeadlineExceeded | ConnectionClosed | None = None
        try:
            if self.closed is not None:
                raise ConnectionClosed(self.closed)
            prefix = _prefixes.get((service, method)) or _prefix(service, method)
            stream_id, frame, length = self._client.request(prefix, payload, timeout_ns, metadata)
            # To read the answer ourselves, we must be the reader before the peer can answer: else the monitor, which
            # watches until then, gets it, at the price of two switches between threads. Not if the write may have to
            # wait: then somebody must go on reading, or two peers that both write would wait for each other.
            early = length <= _SURE_TO_FIT and not self._waiters and not self._behind
            if not early or not self._reader.acquire(False):
                waiter = self._waiters[stream_id] = Waiter()
                if not early:
                    self._have_watched()
            try:
                if waiter is None:
                    watch = self._watch
                    if watch is not None:
                        watch.busy()
                self._transport.send(self._client_id, frame, write_by)
            except (DeadlineExceeded, ConnectionClosed) as error:
                failure = error
            except BaseException:  # KeyboardInterrupt in a write that waits: nobody will collect
                self.abandon((stream_id, method, deadline, waiter, None))
                raise
        finally:
            self._sender.release()
        return stream_id, method, deadline, waiter, failure

    def start(
        self, service: str, method: str, payload: bytes, deadline: float, done: Callable[[Response | None], None]
    ) -> None:
        """Send a request and return; whoever reads later hands the response to `done`, or None if the connection ends.

        For loops that read anyway, such as `serve`. `deadline` is for the write; the peer is told what is left of it.
        Raises what `call` raises, but for RpcError.
        """
        timeout_ns = _left_ns(deadline)
        if timeout_ns <= 0:
            raise DeadlineExceeded(method)
        if not self._wait_to_send(deadline):
            raise DeadlineExceeded(method)
        try:
            if self.closed is not None:
                raise ConnectionClosed(self.closed)
            stream_id, frame, _ = self._client.request(_prefix(service, method), payload, timeout_ns)
            self._waiters[stream_id] = Callback(done)
            try:
                self._transport.send(self._client_id, frame, deadline)
            except (DeadlineExceeded, ConnectionClosed):
                self._waiters.pop(stream_id, None)
                self._client.forget(stream_id)
                raise
        finally:
            self._sender.release()
