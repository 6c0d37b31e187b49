"""Cut a part out of a recording: the events of some time, of a pod or of a container, as a trace of its own.

Rules: whole records are copied as they are, also those of kinds and fields that this version does not know. Notes on
plugins and on the recording stay, so that the part can be read without the rest. Values that the recorder has replaced
stay replaced. The recording is read twice, first to choose events, then to copy them. Next: `nri.trace.history`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from nri.errors import ConfigError, NriError
from nri.text import count
from nri.trace import blocks
from nri.trace.pb import api_pb2 as t
from nri.wire import bytes_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nri.trace.history import Event, Trace

__all__ = ["MAX_EVENTS", "choose", "cut", "write_part"]

#: Events of a part: of any recording, for one more this many bytes, and in any case. A part with more is a second
#: recording.
_EVENTS, _BYTES_PER_EVENT = 50_000, 50
MAX_EVENTS: Final = 1_000_000
#: About what a record takes in memory besides its bytes.
_RECORD_BYTES: Final = 200


def choose(
    trace: Trace,
    is_selected: Callable[[Event], bool],
    since_ns: int,
    until_ns: int,
    selection: str = "that",
    through: Callable[[Iterator[Event]], Iterator[Event]] = iter,
) -> set[tuple[int, int]]:
    """The events that began between two times and are `is_selected`, by recording and serial number.

    `selection` says in errors what they were to be. All events pass `through`, for those who show how far it is.

    Raises ConfigError if there is none, or if there are more than a part of this recording may have.
    """
    chosen: set[tuple[int, int]] = set()
    max_events = min(_EVENTS + trace.size_bytes // _BYTES_PER_EVENT, MAX_EVENTS)
    number = 0
    for event in through(trace.events()):
        number += 1
        if since_ns <= event.began_ns <= until_ns and is_selected(event):
            chosen.add((event.recording, event.serial))
            if len(chosen) > max_events:
                step = "choose fewer with --since and --until"
                raise ConfigError(trace.path, "", f"more than {count(max_events, 'event')} to cut", step)
    if not chosen:
        step = f"nri trace show {trace.path} lists what there is"
        raise ConfigError(trace.path, "", f"none of its {count(number, 'event')} fits {selection}", step)
    return chosen


def cut(trace: Trace, events: set[tuple[int, int]], block_bytes: int = 256 << 10) -> Iterator[bytes]:
    """The bytes of a trace file with the chosen events, in pieces; blocks have so many bytes before compression."""
    yield blocks.MAGIC
    block: list[t.Record] = []
    size = 0
    for record in _records(trace, events):
        length = record.ByteSize() + _RECORD_BYTES
        if block and size + length > block_bytes:
            yield _block(block)
            block, size = [], 0
        block.append(record)
        size += length
    if block:  # its file may have been removed meanwhile
        yield _block(block)


def _records(trace: Trace, events: set[tuple[int, int]]) -> Iterator[t.Record]:
    """The records to copy, and between those of recordings that go on beside each other, which one follows."""
    current = 0
    for record, recording in trace.records():
        if record.kind == t.OPENED:
            current = recording
        elif record.serial and (recording, record.serial) not in events:
            continue
        elif recording != current:
            current = recording
            yield t.Record(kind=t.OPENED, time_ns=record.time_ns, about={"recording": trace.name(recording)})
        yield record


def _block(records: list[t.Record]) -> bytes:
    raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
    times = [record.time_ns for record in records]
    return blocks.pack(raw, len(records), min(times), max(times))


def write_part(path: str, pieces: Iterable[bytes]) -> None:
    """Write the pieces into a new file, which only its owner may read; a failed attempt leaves no file.

    Raises NriError if the file exists already, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.writelines(pieces)
        except BaseException:  # a full disk, Ctrl-C: give back what the attempt took
            os.unlink(path)
            raise
    except FileExistsError:
        raise NriError(f"cannot write {path}: it is there already: give another name, or remove it") from None
    except OSError as error:
        raise NriError(f"cannot write {path}: {error.strerror or error}") from None
