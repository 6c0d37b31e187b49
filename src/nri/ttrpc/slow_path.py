"""The rare paths of a call: another thread reads, other frames arrive first, or the write waits or fails.

`nri.ttrpc.endpoint` decides which path a call takes.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError
from nri.signals import check_signals
from nri.stream import SentInPart
from nri.ttrpc.answerer import NOW
from nri.ttrpc.waiters import Callback, Reading, Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from nri.ttrpc.answerer import Answerer
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.link import Link
    from nri.ttrpc.waiters import Sent

# The interval in which a waiting write checks for bytes to read, in seconds.
_POLL_INTERVAL_S: Final = 0.01


def await_response(
    link: Link, answerer: Answerer, sent: Sent, deadline: float | None, chunks: list[tuple[int, bytes]]
) -> Response:
    """Wait for the response of a call that `Endpoint.collect` did not get at once.

    `chunks` are other bytes that `Endpoint.collect` has read. A call without a waiter has the role of the reader.
    """
    stream_id, _, _, waiter, failure = sent
    if waiter is None:
        reading = link.waiters[stream_id] = Reading()
        if failure is not None:
            _after_failed_write(link, answerer, failure, deadline, reading=True)
        return _read_until_response(link, answerer, reading, deadline, chunks)
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
            _read_until_response(link, answerer, waiter, deadline, chunks)
        finally:
            link.stop_reading(watch)


def _read_until_response(
    link: Link,
    answerer: Answerer,
    waiter: Waiter | Reading,
    deadline: float | None,
    chunks: list[tuple[int, bytes]],
) -> Response:
    """As the reader, pass on the bytes that were read, and read until the response of this call arrives."""
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
    """Wait while another thread reads, until that thread has our response or passes on the role of the reader."""
    check_signals()
    if deadline is None:
        waiter.lock.acquire()
        return
    remaining_s = deadline - monotonic()
    if (remaining_s <= 0 or not waiter.lock.acquire(timeout=remaining_s)) and waiter.response is None:
        raise DeadlineExceeded("a response")


def send_and_read(link: Link, answerer: Answerer, conn_id: int, frame: list[bytes], deadline: float | None) -> None:
    """Write a frame like `Transport.send`. While the write waits, read, if no other thread reads.

    For connections that no loop or monitor reads: a peer that cannot write to us may not read either, and both
    sides would wait. The caller has the role of the sender. Nothing is read while a stream is full.
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
        write_by = now + _POLL_INTERVAL_S if deadline is None else min(deadline, now + _POLL_INTERVAL_S)


def abandon(link: Link, sent: Sent) -> None:
    """Give up a call that was sent. Its answer is dropped."""
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
    callback: Callable[[Response | None], None],
) -> None:
    """Send a request whose response is passed to a function."""
    if not link.wait_to_send(deadline):
        raise DeadlineExceeded(method)
    try:
        if link.closed is not None:
            raise ConnectionClosed(link.closed)
        stream_id, frame, _ = link.client.request(service, method, payload, timeout_ns)
        link.waiters[stream_id] = Callback(callback)
        try:
            link.transport.send(link.client_id, frame, deadline)
        except (DeadlineExceeded, ConnectionClosed):
            link.waiters.pop(stream_id, None)
            link.client.forget(stream_id)
            raise
    finally:
        link.sender.release()


def continue_write_later(link: Link, sent: Sent) -> Sent | None:
    """Continue a request that `begin` could not write at once, because the peer does not read enough.

    `collect` writes the rest, because `begin` must not wait. Returns None if nothing was written.
    """
    stream_id, method, deadline, waiter, failure = sent
    if isinstance(failure, ConnectionClosed):
        return sent
    if not isinstance(failure, SentInPart):
        abandon(link, sent)
        return None
    if waiter is None:  # another thread must continue reading while `collect` writes the rest
        waiter = link.waiters[stream_id] = Waiter()
        link.stop_reading(None)
        link.watch_now()
    return stream_id, method, deadline, waiter, failure


def _after_failed_write(
    link: Link,
    answerer: Answerer,
    failure: DeadlineExceeded | ConnectionClosed,
    deadline: float | None,
    *,
    reading: bool,
) -> None:
    """Handle a request that was not written, or only partly: write the rest, or raise the error."""
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
        raise DeadlineExceeded(
            "the peer to read"
        )  # a new error: callers keep the old one, whose traceback would keep their frames
    # The peer's last bytes may contain the answer, or the reason.
    _drain_before_close(link, answerer, reason, reading)


def _drain_before_close(link: Link, answerer: Answerer, reason: str, reading: bool) -> None:
    """After a failed write, process the bytes that have arrived, then close the connection."""
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
