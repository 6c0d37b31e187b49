"""Send a joining plugin the state of the runtime: in one message if it fits, else in parts.

A state of up to 4 MiB is sent in one message, because old plugins do not know parts. A larger state is packed into
parts that are smaller than the limit on purpose: while the plugin processes one part, the waiting thread encodes the
next. A helper thread would compete for the interpreter's lock with the thread that writes. The reply to a part must
echo `more`; otherwise the plugin does not understand parts.
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

#: The envelope around a message (service, method, timeout, lengths) has at most this many bytes.
ENVELOPE_BYTES = 256
#: The size of a part: small enough that both sides work at the same time, large enough to make calls cheap.
PART_BYTES = 1 << 19

#: The time limit for all parts together, in timeouts of one part: events wait meanwhile.
MAX_TIMEOUTS = 10

_MORE = b"\x18\x01"
_KEYS = (b"", b"\x0a", b"\x12")  # the key of each length-delimited field, by field number


def parts(
    pods: Iterable[m.PodSandbox], containers: Iterable[m.Container], part_size: int = PART_BYTES
) -> Iterator[tuple[bytes, bool]]:
    """Yield encoded `SynchronizeRequest`s, and whether more follow.

    Yields a single request if everything fits into a message.
    """
    objects: Iterator[tuple[int, m.PodSandbox | m.Container]]
    objects = itertools.chain(zip(itertools.repeat(1), pods), zip(itertools.repeat(2), containers))
    fields = (_field(number, message) for number, message in objects)
    first_fields, overflow = _take_fitting(fields, MAX_DATA - ENVELOPE_BYTES)
    if overflow is None:
        yield b"".join(itertools.chain.from_iterable(first_fields)), False
        return
    pieces: list[bytes] = []
    size = 0
    for key, encoded in itertools.chain(first_fields, (overflow,), fields):
        length = len(key) + len(encoded)
        if pieces and size + length > part_size:
            yield b"".join((*pieces, _MORE)), True
            pieces, size = [], 0
        pieces += (key, encoded)
        size += length
    yield b"".join(pieces), False


def _field(number: int, message: m.PodSandbox | m.Container) -> tuple[bytes, bytes]:
    """A field in two pieces, key with length, and bytes. They are copied only once, when the part is joined."""
    encoded = message.SerializeToString()
    length = len(encoded)
    return _KEYS[number] + (LENGTHS.get(length) or varint(length)), encoded


def _take_fitting(
    fields: Iterator[tuple[bytes, bytes]], limit: int
) -> tuple[list[tuple[bytes, bytes]], tuple[bytes, bytes] | None]:
    """Return the fields that fit into `limit` bytes, and the first field that did not fit, or None."""
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
    timeout_per_part: bool = True,
    max_entries: int = 0,
) -> list[m.ContainerUpdate]:
    """Send all parts and return the updates that the plugin requests.

    Args:
        call: sends an encoded request before a deadline, calls a function, and returns the encoded reply.
        timeout_s: the time for each part in seconds; for all parts together, `MAX_TIMEOUTS` times this time.
        timeout_per_part: with False, `timeout_s` is the time for all parts together.
        max_entries: the limit of entries in the replies; 0 for no limit.

    Raises:
        RemoteProtocolError: the plugin does not understand parts, or its reply has too many entries.
        NriError: a part cannot be encoded, and all errors of `call`.
    """
    began = monotonic()
    deadline = began + timeout_s
    encoded_parts = parts(pods, containers)
    ready: list[tuple[bytes, bool]] = []

    def encode_next() -> None:
        try:
            if not ready:
                ready.extend(itertools.islice(encoded_parts, 1))
        except Exception as error:
            raise NriError(f"the state of the runtime cannot be encoded: {error}") from error

    while True:
        encode_next()  # if `call` did not: an interceptor may call the plugin again, or answer in its place
        part, more = ready.pop()
        if timeout_per_part:
            deadline = min(monotonic(), began + (MAX_TIMEOUTS - 1) * timeout_s) + timeout_s
        reply = read_reply(call(part, deadline, encode_next), max_entries)
        if not more:
            return list(reply.update)
        if not reply.more or reply.update:
            raise RemoteProtocolError("plugin does not handle split sync requests")


def read_reply(encoded: bytes, max_entries: int) -> m.SynchronizeResponse:
    """Decode a reply to Synchronize. Raises RemoteProtocolError if it is invalid or has more than `max_entries`."""
    reason = limits.excess(m.SynchronizeResponse, encoded, max_entries) if max_entries else ""
    if reason:
        raise RemoteProtocolError(f"the reply to Synchronize {reason}")
    try:
        return m.SynchronizeResponse.FromString(encoded)
    except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
        raise RemoteProtocolError(f"the reply to Synchronize is invalid: {error}") from None
