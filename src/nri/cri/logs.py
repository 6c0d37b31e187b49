"""Logs of containers as the CRI has them written: one line for each part, ``TIME STREAM TAGS TEXT``.

`read_log` gives the last lines of a file and then, if wanted, those that are added, through rotation: when the file is
renamed the old one is read to its end before the new one. Parts (tag ``P``) are joined until the line is full (``F``).
Pure but for reading the file. Source: the CRI's logging document of Kubernetes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Self

from nri.files import open_regular

__all__ = ["Joiner", "LogEntry", "parse_line", "read_log"]

_CHUNK = 1 << 16
POLL_S = 0.1
#: The longest line that is joined of parts, in bytes; what is longer comes in several.
LONGEST = 1 << 20
#: The longest beginning of a line that says what it is: time, stream and tags.
_HEAD = 1024


class LogEntry(NamedTuple):
    """A line of a log, or a part of one: `time` is RFC 3339, `stream` stdout or stderr, `text` without its end."""

    time: str
    stream: str
    text: bytes
    partial: bool = False


def parse_line(line: bytes) -> LogEntry | None:
    """An entry out of a line without its end; None for what is none, such as a line that was cut by a full disk."""
    parts = line.split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
        return None
    tags = parts[2].split(b":")
    if not tags[0] or tags[0] not in (b"P", b"F"):
        return None
    text = parts[3] if len(parts) > 3 else b""
    return LogEntry(parts[0].decode(errors="replace"), parts[1].decode(), text, tags[0] == b"P")


class Joiner:
    """Joins the parts of lines, of each stream by itself."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, bytearray]] = {}

    def add(self, entry: LogEntry) -> LogEntry | None:
        """The whole line, if this entry ends one. It bears the time of its first part."""
        first, text = self._open.pop(entry.stream, (entry.time, bytearray()))
        text += entry.text
        if entry.partial and len(text) < LONGEST:
            self._open[entry.stream] = first, text
            return None
        return LogEntry(first, entry.stream, bytes(text))

    def rest(self) -> list[LogEntry]:
        """The lines that were begun and not ended."""
        rest = [LogEntry(first, stream, bytes(text)) for stream, (first, text) in self._open.items()]
        self._open.clear()
        return rest


def read_log(
    path: str, *, tail: int | None = None, follow: Callable[[], bool] | None = None, poll_s: float = POLL_S
) -> Iterator[LogEntry]:
    """The lines of a log. Raises OSError if it cannot be read.

    Args:
        tail: only so many lines of what is there; None for all.
        follow: asked when there is nothing more to read: True to wait for more, False to end.
    """
    joiner = Joiner()
    with _Tracked(path) as file:
        if tail is not None:
            file.seek_tail(tail)
        while True:
            for line in file.lines():
                entry = parse_line(line)
                whole = joiner.add(entry) if entry is not None else None
                if whole is not None:
                    yield whole
            if file.rotated():
                continue
            if follow is None or not follow():
                break
            time.sleep(poll_s)
        yield from joiner.rest()


class _Tracked:
    """A log file that may be renamed or emptied while it is read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = open(path, "rb", opener=open_regular)  # noqa: SIM115  closed by __exit__
        self._rest = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def lines(self) -> Iterator[bytes]:
        """Every whole line that is there now and was not read yet; one that is too long comes in several."""
        while chunk := self._file.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield bytes(self._rest + line)
                self._rest.clear()
            self._rest += rest
            if len(self._rest) > LONGEST:
                yield self._piece()

    def _piece(self) -> bytes:
        """What is there of a line that is too long. Its rest begins as it does; that of no entry is no entry, too."""
        piece = bytes(self._rest)
        head = b"".join(b"%b " % part for part in piece.split(b" ", 3)[:3])
        self._rest = bytearray(head if len(head) < _HEAD and parse_line(piece) is not None else b"")
        return piece

    def rotated(self) -> bool:
        """Go on with the new file if the path is another one by now, or at the start of one that was emptied."""
        mine = os.fstat(self._file.fileno())
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False  # renamed, and the new one is not there yet
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            if mine.st_size > self._file.tell():
                return True  # written to after it was renamed: first the rest
            try:
                new = open(self._path, "rb", opener=open_regular)  # noqa: SIM115
            except FileNotFoundError:
                return False  # renamed once more
            self._file.close()
            self._file = new
        elif there.st_size < self._file.tell():
            self._file.seek(0)
        else:
            return False
        self._rest.clear()
        return True

    def seek_tail(self, count: int) -> None:
        """Go to where the last `count` whole lines begin; parts count for the line that they belong to."""
        start = following = self._file.seek(0, os.SEEK_END)
        if count <= 0:
            return
        head = b""  # how the rest begins of the line that a block ends in
        while start > 0:
            size = min(_CHUNK, start)
            start -= size
            self._file.seek(start)
            lines = self._file.read(size).split(b"\n")
            begin = start + size + 1
            for number in range(len(lines) - 1, 0 if start else -1, -1):  # the first begins in an earlier block
                begin -= len(lines[number]) + 1
                entry = parse_line(lines[number] + head)
                head = b""
                if entry is not None and not entry.partial:
                    count -= 1
                    if count < 0:
                        self._file.seek(following)
                        return
                following = begin
            head = (lines[0] + head)[:_HEAD]
        self._file.seek(0)
