"""Hand a joining plugin the state of the runtime: in one message if it fits, else in parts.

Every object is encoded once. Up to 4 MiB one message goes out, because old plugins know no parts. Above, parts are
packed greedily, smaller than the limit on purpose: while the plugin takes one part in, the next is encoded by a helper
thread, so that both sides work at the same time. A part's reply must say `more` back, or the plugin does not understand
parts. Next: `nri.adaptation.registration.handshake`, which calls this.
"""

from __future__ import annotations

import itertools
import queue
import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.merge import limits
from nri.api import messages as m
from nri.errors import NriError, RemoteProtocolError
from nri.ttrpc.frames import MAX_DATA
from nri.wire import LENGTHS, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["hand_over", "parts", "read_reply"]

#: Room for the envelope around a message (service, method, timeout, lengths), in bytes.
ENVELOPE = 256
#: Size of a part, in bytes: small enough that both sides work at once, large enough that calls do not count.
PART = 1 << 20

#: All parts together have at most so many times the timeout of one: events wait meanwhile.
MOST = 10

_MORE = b"\x18\x01"
_KEYS = (b"", b"\x0a", b"\x12")  # by number, of fields that are length-delimited


def parts(
    pods: Iterable[m.PodSandbox], containers: Iterable[m.Container], part_size: int = PART
) -> Iterator[tuple[bytes, bool]]:
    """Encoded `SynchronizeRequest`s, and whether more follow; one if everything fits into a message."""
    objects: Iterator[tuple[int, m.PodSandbox | m.Container]]
    objects = itertools.chain(zip(itertools.repeat(1), pods), zip(itertools.repeat(2), containers))
    fields = (_field(number, message) for number, message in objects)
    whole, rest = _upto(fields, MAX_DATA - ENVELOPE)
    if rest is None:
        yield b"".join(itertools.chain.from_iterable(whole)), False
        return
    bunch: list[bytes] = []
    size = 0
    for key, encoded in itertools.chain(whole, (rest,), fields):
        length = len(key) + len(encoded)
        if bunch and size + length > part_size:
            yield b"".join((*bunch, _MORE)), True
            bunch, size = [], 0
        bunch += (key, encoded)
        size += length
    yield b"".join(bunch), False


def _field(number: int, message: m.PodSandbox | m.Container) -> tuple[bytes, bytes]:
    """A field in two pieces, its key with the length and its bytes: joined once, in the part, they are copied once."""
    encoded = message.SerializeToString()
    length = len(encoded)
    return _KEYS[number] + (LENGTHS.get(length) or varint(length)), encoded


def _upto(
    fields: Iterator[tuple[bytes, bytes]], limit: int
) -> tuple[list[tuple[bytes, bytes]], tuple[bytes, bytes] | None]:
    """Take fields while they fit into `limit` bytes; and the first one that did not fit, or None."""
    fitting: list[tuple[bytes, bytes]] = []
    size = 0
    for field in fields:
        size += len(field[0]) + len(field[1])
        if size > limit:
            return fitting, field
        fitting.append(field)
    return fitting, None


def hand_over(
    call: Callable[[bytes, float], bytes],
    pods: Iterable[m.PodSandbox],
    containers: Iterable[m.Container],
    timeout_s: float,
    *,
    each: bool = True,
    most: int = 0,
) -> list[m.ContainerUpdate]:
    """Send all parts and return the updates that the plugin asks for.

    Args:
        call: sends one encoded request before a deadline and returns the encoded reply.
        timeout_s: seconds for each part, and `MOST` times that for all; or for all together if not `each`.
        most: entries that the replies may have; 0 for no limit.

    Raises:
        RemoteProtocolError: the plugin does not understand parts, or asks for too much.
        NriError: what `call` raises.
    """
    began = monotonic()
    deadline = began + timeout_s
    reply = m.SynchronizeResponse()
    for part, more in _ahead(parts(pods, containers)):
        if each:
            deadline = min(monotonic(), began + (MOST - 1) * timeout_s) + timeout_s
        reply = read_reply(call(part, deadline), most)
        if more and (not reply.more or reply.update):
            raise RemoteProtocolError("plugin does not handle split sync requests")
    return list(reply.update)


def read_reply(encoded: bytes, most: int) -> m.SynchronizeResponse:
    """A reply to Synchronize; RemoteProtocolError for one that has more entries than `most` or is none."""
    reason = limits.too_much(m.SynchronizeResponse, encoded, most) if most else ""
    if reason:
        raise RemoteProtocolError(f"the reply to Synchronize {reason}")
    try:
        return m.SynchronizeResponse.FromString(encoded)
    except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
        raise RemoteProtocolError(f"the reply to Synchronize cannot be read: {error}") from None


def _ahead(source: Iterator[tuple[bytes, bool]]) -> Iterator[tuple[bytes, bool]]:
    """The parts of a source; if there are several, a thread encodes the next ones while the caller waits."""
    first = next(source)
    yield first
    if not first[1]:
        return
    ready: queue.Queue[tuple[bytes, bool] | BaseException] = queue.Queue(maxsize=2)
    given_up = threading.Event()
    helper = threading.Thread(target=_encode, args=(source, ready, given_up), name="nri-synchronize", daemon=True)
    helper.start()
    try:
        more = True
        while more:
            part = ready.get()
            if isinstance(part, BaseException):
                raise NriError(f"the state of the runtime cannot be encoded: {part}") from part
            yield part
            more = part[1]
    finally:
        given_up.set()
        helper.join()


def _encode(
    source: Iterator[tuple[bytes, bool]],
    ready: queue.Queue[tuple[bytes, bool] | BaseException],
    given_up: threading.Event,
) -> None:
    try:
        for part in source:
            _put(ready, part, given_up)
    except BaseException as error:  # noqa: BLE001 - the waiting thread must hear of everything
        _put(ready, error, given_up)


def _put(
    ready: queue.Queue[tuple[bytes, bool] | BaseException],
    item: tuple[bytes, bool] | BaseException,
    given_up: threading.Event,
) -> None:
    while not given_up.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return
