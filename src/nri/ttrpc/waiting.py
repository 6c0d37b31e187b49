"""The rare ways of a call: another thread reads, something else comes before the response, the write waits or fails.

All of it is waiting for what others do. Which way a call takes is decided in `nri.ttrpc.endpoint`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError
from nri.signals import check_signals
from nri.stream import SentInPart
from nri.ttrpc.answering import NOW
from nri.ttrpc.waiters import Callback, Reading, Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from nri.ttrpc.answering import Answerer
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.link import Link
    from nri.ttrpc.waiters import Sent

__all__ = ["abandon", "await_response", "begun_late", "send_and_read", "start"]

# How often a write that waits looks whether there is something to read, in seconds.
_GLANCE_S: Final = 0.01


def await_response(
    link: Link, answerer: Answerer, sent: Sent, deadline: float | None, chunks: list[tuple[int, bytes]]
) -> Response:
    """Wait for the response of a call that `Endpoint.collect` did not find at once.

    `chunks` are what it has read instead. A call without a waiter has the role of the reader.
    """
    stream_id, _, _, waiter, failure = sent
    if waiter is None:
        reading = link.waiters[stream_id] = Reading()
        if failure is not None:
            _after_failed_write(link, answerer, failure, deadline, reading=True)
        return _read_on(link, answerer, reading, deadline, chunks)
    if failure is not None:
        _after_failed_write(link, answerer, failure, deadline, reading=False)
    while True:
        response = waiter.response
        if response is not None:
            return response
        if link.closed is not None:
            raise ConnectionClosed(link.closed)
        if not link.reader.acquire(False):
            _wait_for_turn(waiter, deadline)
            continue
        watch = link.watch
        try:
            if watch is not None:
                watch.busy()
            _read_on(link, answerer, waiter, deadline, chunks)
        finally:
            link.stop_reading(watch)


def _read_on(
    link: Link,
    answerer: Answerer,
    waiter: Waiter | Reading,
    deadline: float | None,
    chunks: list[tuple[int, bytes]],
) -> Response:
    """Hand out what was read, as the reader, and read on until the response of this call is among it."""
    while True:
        try:
            answerer.dispatch(chunks)
        except ProtocolError as error:
            link.fail(error.reason)
        response = waiter.response
        if response is not None:
            return response
        if link.closed is not None:
            raise ConnectionClosed(link.closed)
        link.await_room(deadline)
        chunks = link.transport.receive(deadline)


def _wait_for_turn(waiter: Waiter, deadline: float | None) -> None:
    """Wait while another thread reads, until it has our response or lets us read."""
    check_signals()
    if deadline is None:
        waiter.lock.acquire()
        return
    left_s = deadline - monotonic()
    if (left_s <= 0 or not waiter.lock.acquire(timeout=left_s)) and waiter.response is None:
        raise DeadlineExceeded("a response")


def send_and_read(link: Link, answerer: Answerer, conn_id: int, frame: list[bytes], deadline: float | None) -> None:
    """Write a frame as `Transport.send` does; while that waits, read what comes, if no other thread does.

    For connections that neither a loop nor a monitor reads: a peer that cannot write to us may not read either, and
    both would wait. The caller has the role of the sender. Data that a stream must not take yet is not read.
    """
    write_by, in_part = NOW, False
    while True:
        try:
            if in_part:
                link.transport.flush(write_by)
            else:
                link.transport.send(conn_id, frame, write_by)
        except SentInPart:
            in_part = True
        except DeadlineExceeded:
            pass
        else:
            return
        now = monotonic()
        if deadline is not None and now >= deadline:
            raise SentInPart("the peer to read") if in_part else DeadlineExceeded("the peer to read")
        answerer.poll()
        if link.closed is not None:
            raise ConnectionClosed(link.closed)
        write_by = now + _GLANCE_S if deadline is None else min(deadline, now + _GLANCE_S)


def abandon(link: Link, sent: Sent) -> None:
    """Give up on a call that has been sent: no caller waits for its answer."""
    stream_id, _, _, waiter, _ = sent
    if waiter is None:
        link.stop_reading(link.watch)
    link.forget(stream_id)


def start(
    link: Link,
    service: str,
    method: str,
    payload: bytes,
    timeout_ns: int,
    deadline: float,
    done: Callable[[Response | None], None],
) -> None:
    """Send a request whose response goes to a function."""
    if not link.wait_to_send(deadline):
        raise DeadlineExceeded(method)
    try:
        if link.closed is not None:
            raise ConnectionClosed(link.closed)
        stream_id, frame, _ = link.client.request(service, method, payload, timeout_ns)
        link.waiters[stream_id] = Callback(done)
        try:
            link.transport.send(link.client_id, frame, deadline)
        except (DeadlineExceeded, ConnectionClosed):
            link.waiters.pop(stream_id, None)
            link.client.forget(stream_id)
            raise
    finally:
        link.sender.release()


def begun_late(link: Link, sent: Sent) -> Sent | None:
    """See to a request that `begin` could not write at once: the peer reads too little.

    Writing it to its end is not for the thread that only begins; `collect` does it. None if nothing was written.
    """
    stream_id, method, deadline, waiter, failure = sent
    if isinstance(failure, ConnectionClosed):
        return sent
    if not isinstance(failure, SentInPart):
        abandon(link, sent)
        return None
    if waiter is None:  # while `collect` writes the rest, a thread must go on reading
        waiter = link.waiters[stream_id] = Waiter()
        link.stop_reading(None)
        link.have_watched()
    return stream_id, method, deadline, waiter, failure


def _after_failed_write(
    link: Link,
    answerer: Answerer,
    failure: DeadlineExceeded | ConnectionClosed,
    deadline: float | None,
    *,
    reading: bool,
) -> None:
    """See what can be done for a request that was not written, or in part: write the rest, or raise why not."""
    reason = failure.reason if isinstance(failure, ConnectionClosed) else None
    if isinstance(failure, SentInPart) and link.wait_to_send(deadline):
        try:
            link.transport.flush(deadline)
        except ConnectionClosed as error:
            reason = error.reason
        else:
            return
        finally:
            link.sender.release()
    if reason is None:
        raise DeadlineExceeded("the peer to read")  # a new one: callers hold the other, and a traceback holds callers
    # The peer's last bytes before it went may hold the answer, or the reason.
    _drain_before_close(link, answerer, reason, reading)


def _drain_before_close(link: Link, answerer: Answerer, reason: str, reading: bool) -> None:
    """The write failed: take in what had already arrived, then close."""
    if reading or link.reader.acquire(False):
        try:
            while link.closed is None:
                answerer.dispatch(link.transport.receive_now())
        except (DeadlineExceeded, ConnectionClosed, ProtocolError):
            pass
        finally:
            if not reading:
                link.reader.release()
    link.fail(reason)
