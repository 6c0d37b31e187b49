"""Small recordings that cost a reader much: memory for what they unpack to, or time for how much of it there is."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator

from nri.trace import blocks
from nri.trace.pb import api_pb2 as t
from nri.wire import bytes_field, varint_field

_NOW_NS = 10**18
_BLOCK_BYTES = 15 << 20
#: A character that makes a text of Python four bytes a character, and JSON of it twelve.
_WIDE = "\U0001f600"


def block(raw: bytes, records: int = 1, first_ns: int = _NOW_NS, last_ns: int = _NOW_NS + 10**9) -> bytes:
    """A block with right checksums, as small as it can be."""
    stored = zlib.compress(raw, 9)
    head = struct.pack(
        ">4sBBHIIIQQI", b"NRIB", 1, 1, 0, len(stored), len(raw), records, first_ns, last_ns, zlib.crc32(stored)
    )
    return head + zlib.crc32(head).to_bytes(4, "big") + stored


def _record(**fields: object) -> bytes:
    return bytes_field(1, t.Record(**fields).SerializeToString())  # type: ignore[arg-type]


def _opened(name: str = "x") -> bytes:
    return block(_record(kind=t.OPENED, time_ns=_NOW_NS, about={"recording": name}))


def _blocks(records: Iterable[bytes]) -> list[bytes]:
    """Blocks of as many records as one may have."""
    blocks, size = [_opened()], 0
    piece: list[bytes] = []
    for record in records:
        if size + len(record) > _BLOCK_BYTES:
            blocks.append(block(b"".join(piece)))
            piece, size = [], 0
        piece.append(record)
        size += len(record)
    return [*blocks, block(b"".join(piece))]


def _event(number: int, event: str, message: bytes = b"", reply: bytes = b"", plugin: str = "10-p") -> bytes:
    """An event that one plugin answers; its steps a microsecond apart."""
    at = {"time_ns": _NOW_NS + number * 1000, "serial": number, "event": event}
    begins = _record(kind=t.BEGINS, message=message, **at)
    answered = _record(kind=t.ANSWERED, plugin=plugin, message=reply, duration_ns=number, **at)
    merged = _record(kind=t.MERGED, plugin=plugin, **at)
    record = _record(kind=t.ASKED, plugin=plugin, same=True, **at)
    return begins + record + answered + merged + _record(kind=t.ENDS, message=reply, **at)


def _pod(name: str = "web") -> bytes:
    return bytes_field(1, bytes_field(1, b"p1") + bytes_field(2, name.encode()) + bytes_field(4, b"shop"))


def _container(ident: str, more: bytes = b"") -> bytes:
    return bytes_field(2, bytes_field(1, ident.encode()) + bytes_field(2, b"p1") + bytes_field(3, b"app") + more)


def _creation(number: int, more: bytes = b"", reply: bytes = b"", ident: str = "") -> bytes:
    return _event(number, "CreateContainer", _pod() + _container(ident or f"c{number}", more), reply)


def _variables(number: int) -> bytes:
    """An answer that sets variables."""
    pairs = (bytes_field(1, str(entry).encode()) + bytes_field(2, b"v") for entry in range(number))
    return bytes_field(1, b"".join(bytes_field(4, pair) for pair in pairs))


def _updates(number: int) -> bytes:
    """An answer that updates containers."""
    cpu = bytes_field(2, bytes_field(1, bytes_field(2, bytes_field(1, varint_field(1, 7)))))
    return b"".join(bytes_field(2, bytes_field(1, f"u{entry}".encode()) + cpu) for entry in range(number))


def _random_note(size: int) -> bytes:
    """A note that does not get smaller when it is packed: a reader allows more for a recording that is larger."""
    text = random.Random(1).randbytes(size // 2).hex()
    return _record(kind=t.PLUGIN, time_ns=_NOW_NS, event="active", plugin="10-p", about={"config": text})


def _dense_containers() -> bytes:
    """As many containers and mounts as a reader parses in one message, of as many bytes as a message may have."""
    containers = 5000 + blocks.MAX_MESSAGE_BYTES // 256 - 1000
    mounts = 30_000 + blocks.MAX_MESSAGE_BYTES // 36 - containers - 1000
    empty = b"\x12\x00" * containers
    filled = bytes_field(9, b"") * mounts
    return empty + bytes_field(2, filled + bytes_field(3, b"x" * (blocks.MAX_MESSAGE_BYTES - 3 * len(filled) - 60_000)))


def _headers(count: int) -> list[bytes]:
    return [_opened(), *[block(b"", 0)] * count]


def _backwards(count: int) -> Iterator[bytes]:
    yield _opened()
    for number in range(count):
        at = {"serial": number, "event": "StopContainer"}
        begins = _record(kind=t.BEGINS, time_ns=(1 << 64) - 1 - number, **at)
        ends = _record(kind=t.ENDS, time_ns=number, duration_ns=(1 << 64) - 1, **at)
        yield block(begins + ends, 2, (1 << 64) - 1, 0)


def _nested(depth: int) -> bytes:
    message = b""
    for _ in range(depth):
        message = bytes_field(2, message)
    return message


#: By name what makes the blocks of a recording.
BOMBS: dict[str, Callable[[], Iterable[bytes]]] = {
    "records without content": lambda: [_opened(), *[block(b"\x0a\x00" * (_BLOCK_BYTES // 2))] * 4],
    "fields other than records": lambda: [_opened(), *[block(b"\x12\x00" * (_BLOCK_BYTES // 2))] * 4],
    "events without an end": lambda: _blocks(
        _record(kind=t.BEGINS, time_ns=_NOW_NS + n, serial=n, event="CreateContainer") for n in range(100_000)
    ),
    "steps of one event": lambda: _blocks(
        _record(kind=t.ASKED, time_ns=_NOW_NS + n, serial=1, event="CreateContainer", plugin=f"10-{n}")
        for n in range(100_000)
    ),
    "steps of one event with its request": lambda: _blocks(
        [
            _record(kind=t.BEGINS, time_ns=_NOW_NS, serial=1, event="CreateContainer",
                    message=_pod() + _container("c1", bytes_field(8, b"A=b") * 10_000)),
            *[_record(kind=t.ASKED, time_ns=_NOW_NS, serial=1, event="CreateContainer", plugin="10-p", same=True)]
            * 20_000,
        ]
    ),
    "notes on plugins": lambda: _blocks(
        _record(kind=t.PLUGIN, time_ns=_NOW_NS + n, event="active", plugin=f"10-{n}", about={"reason": "r"})
        for n in range(100_000)
    ),
    "notes with many keys": lambda: _blocks(
        _record(kind=t.PLUGIN, time_ns=_NOW_NS, event="active", plugin="10-p",
                about=dict.fromkeys(map(str, range(60_000)), ""))
        for _ in range(3)
    ),
    "long notes": lambda: _blocks(
        _record(kind=t.PLUGIN, time_ns=_NOW_NS, event="active", plugin="10-p", about={"reason": _WIDE * 1_000_000})
        for _ in range(8)
    ),
    "recordings": lambda: _blocks(
        _record(kind=t.OPENED, time_ns=_NOW_NS + n, about={"recording": f"{_WIDE * 40}{n}"}) for n in range(50_000)
    ),
    "blocks without content": lambda: _headers(100_000),
    "great numbers in headers": lambda: [_opened(), *[block(b"", 2**32 - 1, 0, 2**64 - 1)] * 1000],
    "times that go backwards": lambda: _backwards(5000),
    "what looks like blocks": lambda: [b"NRIB" * 500_000],
    "empty containers in requests": lambda: _blocks(
        _event(n, "Synchronize", b"\x12\x00" * (2 << 20), b"\x0a\x00" * 1000) for n in range(8)
    ),
    "containers in long requests": lambda: [
        *_blocks([_random_note(140_000)]),
        *_blocks(_event(n, "Synchronize", _dense_containers()) for n in range(4)),
    ],
    "empty containers in short requests": lambda: _blocks(
        _event(n, "Synchronize", b"\x12\x00" * 30_000) for n in range(1000)
    ),
    "empty variables": lambda: _blocks(_creation(n, bytes_field(8, b"") * 1_900_000) for n in range(6)),
    "numbers in a row": lambda: _blocks(
        _creation(n, bytes_field(21, bytes_field(3, b"\x01" * 3_000_000))) for n in range(6)
    ),
    "short requests": lambda: _blocks(_creation(n, bytes_field(8, b"") * 2000) for n in range(5000)),
    "events of one key": lambda: _blocks(
        _record(kind=kind, time_ns=_NOW_NS, serial=5, event="StopContainer")
        for _ in range(50_000)
        for kind in (t.BEGINS, t.ENDS)
    ),
    "names of events": lambda: _blocks(_event(n, f"__class__{n}") for n in range(20_000)),
    "long names": lambda: _blocks(
        _event(n, f"E{n}{_WIDE * 100}", plugin=f"{n}-{_WIDE * 500}") for n in range(5000)
    ),
    "long errors": lambda: _blocks(
        _record(kind=t.FAILED, time_ns=_NOW_NS + n // 500, serial=n // 500, event="StopContainer", plugin=f"{n}-p",
                error=t.Error(kind="E", text=_WIDE * 4000, message=_WIDE * 4000))
        for n in range(3000)
    ),
    "nested messages": lambda: _blocks(_event(n, "CreateContainer", _nested(3000)) for n in range(100)),
    "long ids": lambda: _blocks(_creation(n, ident=f"{n}{_WIDE * 200_000}") for n in range(15)),
    "long words": lambda: _blocks(
        _creation(n, bytes_field(8, b"A=" + _WIDE.encode() * 900_000), ident="c1") for n in range(4)
    ),
    "control characters": lambda: _blocks(
        _creation(n, bytes_field(8, b"\x01" * 900_000), ident="c1") for n in range(4)
    ),
    "containers": lambda: _blocks(_creation(n) for n in range(20_000)),
    "answers": lambda: _blocks(_creation(n, reply=_variables(3000)) for n in range(500)),
    "answers that differ": lambda: _blocks(_creation(n, reply=_variables(20 + n % 50)) for n in range(10_000)),
    "answers for one container": lambda: _blocks(_creation(n, reply=_variables(3000), ident="c1") for n in range(500)),
    "updates of other containers": lambda: _blocks(_creation(n, reply=_updates(3000)) for n in range(300)),
    "plugins": lambda: _blocks(
        _event(n, "CreateContainer", _pod() + _container("c1"), _variables(10), f"{n % 100:02}-p{n}")
        for n in range(10_000)
    ),
    "durations": lambda: _blocks(
        _record(kind=t.ANSWERED, time_ns=_NOW_NS, serial=n, event="StopContainer", plugin="10-p", duration_ns=n * n * n)
        for n in range(60_000)
    ),
}  # fmt: skip


def write(name: str, path: str) -> int:
    """Write the recording of a bomb; returns its size in bytes."""
    data = b"".join((blocks.MAGIC, *BOMBS[name]()))
    with open(path, "wb") as file:
        file.write(data)
    return len(data)
