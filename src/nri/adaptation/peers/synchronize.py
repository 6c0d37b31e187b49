"""Hand a joining plugin the state of the runtime: in one message if it fits, else in parts.

Every object is encoded once. Up to 4 MiB one message goes out, because old plugins know no parts. Above, parts are
packed greedily, smaller than the limit on purpose: while the plugin takes one part in, the thread that waits for its
reply encodes the next, so that both sides work at the same time. A helper thread for that would take the interpreter's
lock from the one that writes. A part's reply must say `more` back, or the plugin does not understand parts. Next:
`nri.adaptation.registration.handshake`, which calls this.
"""

from __future__ import annotations

import itertools
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
PART = 1 << 19

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
    call: Callable[[bytes, float, Callable[[], None]], bytes],
    pods: Iterable[m.PodSandbox],
    containers: Iterable[m.Container],
    timeout_s: float,
    *,
    each: bool = True,
    most: int = 0,
) -> list[m.ContainerUpdate]:
    """Send all parts and return the updates that the plugin asks for.

    Args:
        call: sends one encoded request before a deadline, calls a function, and returns the encoded reply.
        timeout_s: seconds for each part, and `MOST` times that for all; or for all together if not `each`.
        most: entries that the replies may have; 0 for no limit.

    Raises:
        RemoteProtocolError: the plugin does not understand parts, or asks for too much.
        NriError: a part cannot be encoded; and what `call` raises.
    """
    began = monotonic()
    deadline = began + timeout_s
    coming = parts(pods, containers)
    ready: list[tuple[bytes, bool]] = []

    def encode_next() -> None:
        try:
            if not ready:
                ready.extend(itertools.islice(coming, 1))
        except Exception as error:
            raise NriError(f"the state of the runtime cannot be encoded: {error}") from error

    while True:
        encode_next()  # if that is not done: an interceptor may call the plugin again, or answer in its place
        part, more = ready.pop()
        if each:
            deadline = min(monotonic(), began + (MOST - 1) * timeout_s) + timeout_s
        reply = read_reply(call(part, deadline, encode_next), most)
        if not more:
            return list(reply.update)
        if not reply.more or reply.update:
            raise RemoteProtocolError("plugin does not handle split sync requests")


def read_reply(encoded: bytes, most: int) -> m.SynchronizeResponse:
    """A reply to Synchronize; RemoteProtocolError for one that has more entries than `most` or is none."""
    reason = limits.too_much(m.SynchronizeResponse, encoded, most) if most else ""
    if reason:
        raise RemoteProtocolError(f"the reply to Synchronize {reason}")
    try:
        return m.SynchronizeResponse.FromString(encoded)
    except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
        raise RemoteProtocolError(f"the reply to Synchronize cannot be read: {error}") from None
