"""The waiting half of a call: take the response, as the reader or from whoever is.

There is no reader thread and no queue. Whoever waits for a response reads the transport itself; a response for another
caller met on the way is handed to it, and a caller that is done wakes the next one, which reads on. So one call costs
one write and one read, and no switch between threads. Who waits for what is `nri.ttrpc.waiters`; what sends requests is
`nri.ttrpc.endpoint`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError
from nri.signals import heed
from nri.stream import SentInPart
from nri.ttrpc.answering import Answering
from nri.ttrpc.waiters import Reading, Waiter, payload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.ttrpc.envelope import Response

    #: A request on its way: stream id, method, deadline, who waits if not the reader, and what went wrong.
    Sent = tuple[int, str, float | None, Waiter | None, DeadlineExceeded | ConnectionClosed | None]

__all__ = ["Collecting"]


class Collecting(Answering):
    """Waits for responses."""

    __slots__ = ()

    def collect(self, sent: Sent) -> bytes:
        """Wait for the reply's bytes to a request that `begin` has sent. Raises what `call` raises.

        An answer that is there counts, also if nobody came to collect it before the deadline.
        """
        stream_id, method, deadline, waiter, failure = sent
        now = monotonic()
        if deadline is not None and deadline < now:
            return self._collect((stream_id, method, now, waiter, failure))
        return self._collect(sent)

    def _collect(self, sent: Sent) -> bytes:
        """Wait for the reply's bytes."""
        stream_id, method, deadline, waiter, failure = sent
        try:
            if waiter is None:
                reply = self._read_reply(stream_id, deadline, failure)
            else:
                reply = self._await_reply(waiter, deadline, failure)
        except DeadlineExceeded:
            self._forget(stream_id)
            raise DeadlineExceeded(method) from None
        except (RpcError, ConnectionClosed):
            raise
        except BaseException:  # KeyboardInterrupt: the turn to read must not be passed to a caller that is gone
            self._forget(stream_id)
            raise
        self._behind = False
        return reply

    def abandon(self, sent: Sent) -> None:
        """Nobody waits for the reply to what `begin` has sent; it will be dropped."""
        stream_id, _, _, waiter, _ = sent
        if waiter is None:
            self._stop_reading(self._watch)
        self._forget(stream_id)

    def _forget(self, stream_id: int) -> None:
        self._waiters.pop(stream_id, None)
        self._client.forget(stream_id)
        self._behind = True
        self._hand_over()  # a wake-up meant for the caller that now leaves must not be lost

    def _read_reply(
        self, stream_id: int, deadline: float | None, failure: DeadlineExceeded | ConnectionClosed | None
    ) -> bytes:
        """The usual way: we are the reader since before we wrote, and the first thing to come is our reply."""
        watch = self._watch
        waiter: Reading | None = None
        try:
            if failure is not None:
                waiter = self._waiters[stream_id] = Reading()
                self._after_failed_write(failure, deadline, reading=True)
            while True:
                if waiter is not None:
                    response = waiter.response
                    if response is not None:
                        return payload_of(response)
                if self.closed is not None:
                    raise ConnectionClosed(self.closed)
                try:
                    chunks = self._transport.receive(deadline)
                    if waiter is None:
                        if len(chunks) == 1 and chunks[0][0] == self._client_id:
                            reply = self._client.receive_sole(stream_id, chunks[0][1])
                            if reply is not None:
                                return reply
                        waiter = self._waiters[stream_id] = Reading()
                    self._dispatch(chunks, deadline)
                except (ConnectionClosed, ProtocolError) as error:
                    self._fail(error.reason)
                    if waiter is None or waiter.response is None:
                        raise ConnectionClosed(self._end(error.reason)) from None
        finally:
            self._stop_reading(watch)

    def _await_reply(
        self, waiter: Waiter, deadline: float | None, failure: DeadlineExceeded | ConnectionClosed | None
    ) -> bytes:
        """The other way: others call as well, and whoever reads hands us our response."""
        if failure is not None:
            self._after_failed_write(failure, deadline, reading=False)
        return payload_of(waiter.response or self._wait(waiter, deadline))

    def _wait(self, waiter: Waiter, deadline: float | None) -> Response:
        """Read until our response is there; or wait while another thread reads."""
        while True:
            response = waiter.response
            if response is not None:
                return response
            if self.closed is not None:
                raise ConnectionClosed(self.closed)
            if self._reader.acquire(False):
                watch = self._watch
                try:
                    if watch is not None:
                        watch.busy()
                    while waiter.response is None:
                        self._read(deadline)
                finally:
                    self._stop_reading(watch)
            elif deadline is None:
                heed()
                waiter.lock.acquire()
            else:
                heed()
                left_s = deadline - monotonic()
                if (left_s <= 0 or not waiter.lock.acquire(timeout=left_s)) and waiter.response is None:
                    raise DeadlineExceeded("a response")

    def _after_failed_write(
        self, failure: DeadlineExceeded | ConnectionClosed, deadline: float | None, *, reading: bool
    ) -> None:
        if isinstance(failure, SentInPart) and self._wait_to_send(deadline):
            try:
                self._transport.flush(deadline)
            except ConnectionClosed as error:
                failure = error
            else:
                return
            finally:
                self._sender.release()
        if isinstance(failure, DeadlineExceeded):
            raise failure
        # What the peer wrote before it went may hold the answer, or the reason.
        self._drain_before_close(failure.reason, reading)

    def _drain_before_close(self, reason: str, reading: bool) -> None:
        """The write failed: take in what had already arrived, then close."""
        if reading or self._reader.acquire(False):
            try:
                while self.closed is None:
                    self._dispatch(self._transport.receive_now())
            except (DeadlineExceeded, ConnectionClosed, ProtocolError):
                pass
            finally:
                if not reading:
                    self._reader.release()
        self._fail(reason)
