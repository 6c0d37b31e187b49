"""Copy a part of a recording, for example the events of a pod, to a separate trace.

Records are copied unchanged, including unknown kinds and fields, with all notes on plugins and on the recording. The
recording is read twice, first to select events, then to copy them.
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

#: This many events may be selected, even from a small recording.
_EVENTS = 50_000
#: One more event may be selected per this many bytes of the recording.
_BYTES_PER_EVENT = 50
#: At most this many events may be selected; with more, copy the whole recording instead.
MAX_EVENTS: Final = 1_000_000
#: The memory of a record in addition to its bytes.
_RECORD_BYTES: Final = 200


def choose(
    trace: Trace,
    is_selected: Callable[[Event], bool],
    since_ns: int,
    until_ns: int,
    selection: str = "the selection",
    progress: Callable[[Iterator[Event]], Iterator[Event]] = iter,
) -> set[tuple[int, int]]:
    """Select events that began between two times, as pairs of recording and serial number.

    `selection` describes the condition in errors. `progress` wraps the iterator of all
    events, for example to count them.

    Raises ConfigError if no events are selected, or too many.
    """
    chosen: set[tuple[int, int]] = set()
    max_events = min(_EVENTS + trace.size_bytes // _BYTES_PER_EVENT, MAX_EVENTS)
    number = 0
    for event in progress(trace.events()):
        number += 1
        if since_ns <= event.began_ns <= until_ns and is_selected(event):
            chosen.add((event.recording, event.serial))
            if len(chosen) > max_events:
                advice = "select fewer with --since and --until"
                raise ConfigError(trace.path, "", f"more than {count(max_events, 'event')} selected", advice)
    if not chosen:
        advice = f"list all events: nri trace show {trace.path}"
        raise ConfigError(trace.path, "", f"none of its {count(number, 'event')} matches {selection}", advice)
    return chosen


def cut(trace: Trace, events: set[tuple[int, int]], block_bytes: int = 256 << 10) -> Iterator[bytes]:
    """Yield a trace file with the selected events. `block_bytes` is the size of blocks before compression."""
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
    if block:  # the block is empty if the recorder has removed the file in the meantime
        yield _block(block)


def _records(trace: Trace, events: set[tuple[int, int]]) -> Iterator[t.Record]:
    """Yield the records to copy.

    An OPENED record precedes each record that belongs to another recording than the record before it.
    """
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
    """Write the pieces to a new file that only its owner may read. A failure leaves no file.

    Raises NriError if the file already exists or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.writelines(pieces)
        except BaseException:  # a full disk, or Ctrl-C
            os.unlink(path)
            raise
    except FileExistsError:
        raise NriError(f"cannot write {path}: it already exists. Use another name, or remove it") from None
    except OSError as error:
        raise NriError(f"cannot write {path}: {error.strerror or error}") from None
