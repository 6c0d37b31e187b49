"""Bytes that are no frames, no envelopes and no messages; lengths of 4 GiB; streams that do not exist."""

from __future__ import annotations

import random
import struct
from functools import partial

from nri.api.naming import PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN
from nri.mux.frames import cut, pack
from nri.ttrpc import frames
from nri.ttrpc.envelope import Request, encode_request, request_prefix
from nri.wire import bytes_field
from tests.torture.attack import Attack
from tests.torture.hostile import Answer, Raw, Target

#: No protobuf message: a length that goes beyond the end.
NO_MESSAGE = b"\x0a\xff\xff\xff\xff\x0f\x01"
OURS = ("20-hostile",)


def garbage(target: Target) -> None:
    """Random bytes on the trunk, before and after joining."""
    dice = random.Random(1)

    def turn() -> None:
        with target.connect() as plugin:
            if dice.random() < 0.5:
                plugin.join()
            plugin.send(dice.randbytes(dice.choice((1, 7, 8, 100, 70_000))))
            plugin.next(0.2)

    target.again(turn)


def huge_frames(target: Target) -> None:
    """Frames that announce 4 GiB, of the mux and of ttRPC, on every connection number."""
    dice = random.Random(2)

    def turn() -> None:
        with target.connect() as plugin:
            if dice.random() < 0.5:
                plugin.join()
            conn_id = dice.choice((0, 1, 2, 3, 0xFFFFFFFF))
            if dice.random() < 0.5:
                plugin.send(struct.pack(">II", conn_id, 0xFFFFFFFF) + bytes(4096))
            else:
                header = struct.pack(">IIBB", 0xFFFFFFFF, 1, dice.choice((1, 2, 3)), 0)
                plugin.send(pack(conn_id or 1, header + bytes(4096)) * 50)
            plugin.next(0.2)

    target.again(turn)


def oversized_answers(target: Target) -> None:
    """Answers of 5 MiB, which no message may have: read and dropped."""
    data = struct.pack(">I", 5 << 20)

    def answer(request: Request) -> Answer:
        message = data + request.stream_id.to_bytes(4, "big") + b"\x02\x00" + bytes(5 << 20)
        return Raw(b"".join(pack(1, message[n : n + (1 << 20)]) for n in range(0, len(message), 1 << 20)), trunk=True)

    with target.connect(events=1 << 3) as plugin:
        plugin.join().serve(target, answer)


def envelopes(target: Target) -> None:
    """Answers whose envelope cannot be read; each costs the connection or the call."""

    def turn() -> None:
        with target.connect() as plugin:
            plugin.join().serve(target, lambda request: Raw(NO_MESSAGE))

    target.again(turn)


def empty_fields(target: Target) -> None:
    """Answers of two million empty fields of the envelope, and of the status in it."""
    answers = [Raw(field * 2_000_000) for field in (b"\x0a\x00", b"\x12\x00", b"\x22\x00")]
    answers.append(Raw(bytes_field(1, b"\x08\x01" * 2_000_000)))
    with target.connect() as plugin:
        plugin.join().serve(target, lambda request: answers[target.count.total() % len(answers)])


def replies(target: Target) -> None:
    """Whole envelopes around replies that cannot be read, for every event."""
    with target.connect() as plugin:
        plugin.join().serve(target, lambda request: NO_MESSAGE)


def requests(target: Target) -> None:
    """Requests to the runtime that cannot be read, for every method, known or not."""
    methods = ("RegisterPlugin", "UpdateContainers", "Nothing", "")

    def turn() -> None:
        with target.connect(events=1) as plugin:
            if target.count["turns"] % 2:
                plugin.join()
            for method in methods:
                plugin.ask(method, NO_MESSAGE)
            for envelope in (NO_MESSAGE, b"", encode_request(request_prefix("", ""), NO_MESSAGE)):
                data = frames.pack(plugin.next_id, frames.REQUEST, envelope)
                plugin.send(cut(RUNTIME_SERVICE_CONN, data))
                plugin.next_id += 2
            for _ in range(5):
                plugin.next(0.2)

    target.again(turn)


def metadata(target: Target) -> None:
    """Requests of two million pairs of metadata that hold nothing, and for methods whose names have 4 MiB."""
    pairs = request_prefix("s", "m") + b"\x2a\x00" * 2_000_000

    def turn() -> None:
        with target.connect(events=1) as plugin:
            plugin.join()
            while not target.over:
                number = target.count["asked"] = target.count["asked"] + 1
                data = pairs if number % 8 == 0 else request_prefix(f"s{number}", "m" * 4_000_000)
                plugin.send(cut(RUNTIME_SERVICE_CONN, frames.pack(plugin.next_id, frames.REQUEST, data)))
                plugin.next_id += 2
                plugin.reply()

    target.again(turn)


def streams(target: Target) -> None:
    """Stream ids that are even, used twice, unknown or from the future; data where none is expected."""
    dice = random.Random(3)

    def frame() -> bytes:
        stream_id = dice.choice((0, 1, 2, 3, 5, 0x7FFFFFFF, 0xFFFFFFFF))
        kind = dice.choice((frames.REQUEST, frames.RESPONSE, frames.DATA, 4, 255))
        data = dice.choice((b"", b"\x12\x00", NO_MESSAGE, encode_request(request_prefix("s", "m"), b"")))
        conn_id = dice.choice((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))
        return pack(conn_id, frames.pack(stream_id, kind, data, dice.choice((0, 1, 2, 4, 5, 255))))

    with target.connect() as plugin:
        plugin.join()

        def answer(request: Request) -> Answer:
            plugin.send(b"".join(frame() for _ in range(20)))
            return b""

        plugin.serve(target, answer)


ROWS = (
    Attack("garbage", "sends random bytes, before and after joining", "the connection ends", garbage, log_lines=300),
    Attack(
        "huge-frames",
        "sends frames that announce 4 GiB",
        "nothing is allocated; the connection ends",
        huge_frames,
        log_lines=300,
    ),
    Attack(
        "oversized-answers",
        "answers with messages of 5 MiB",
        "read, dropped, refused by name",
        oversized_answers,
        OURS,
        short=False,
    ),
    Attack(
        "envelopes",
        "answers with envelopes that cannot be read",
        "refused by name",
        envelopes,
        OURS,
        log_lines=300,
        short=False,
    ),
    Attack(
        "empty-fields",
        "answers with envelopes of 2,000,000 empty fields",
        "not read to their end; refused by name",
        empty_fields,
        OURS,
    ),
    Attack(
        "metadata",
        "sends 2,000,000 empty pairs of metadata with a request, and names of 4 MiB",
        "refused; nothing of it is kept",
        metadata,
    ),
    Attack(
        "replies",
        "answers every event with a reply that cannot be read",
        "refused by name, without a traceback",
        replies,
        OURS,
    ),
    Attack(
        "requests",
        "sends requests that cannot be read, for each method",
        "one status for all; it may stay",
        requests,
        log_lines=300,
    ),
    Attack(
        "streams",
        "uses streams that are even, used, unknown or not its own",
        "refused or dropped; its own events may fail",
        lambda target: target.again(partial(streams, target)),
        OURS,
        fails=False,
    ),
)
