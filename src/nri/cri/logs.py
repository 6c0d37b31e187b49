"""Read container logs in the CRI's format: lines ``TIME STREAM TAGS TEXT``, in full (tag ``F``) or in parts (``P``).

iSulad writes Docker's format instead, a JSON object with log, stream and time in each line. Source: the CRI's logging
document of Kubernetes; Docker's json-file driver.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Self

from nri.config.syntax import parse_json
from nri.files import open_regular

_CHUNK = 1 << 16
POLL_S = 0.1
#: Maximum length of a line that is joined from parts, in bytes. A longer line is returned in several pieces.
MAX_LINE_BYTES = 1 << 20
#: Maximum length of the prefix with time, stream and tags.
_HEAD_BYTES = 1024


class LogEntry(NamedTuple):
    """A line of a log or a part of a line. `time` is RFC 3339, `stream` stdout or stderr, `text` has no newline."""

    time: str
    stream: str
    text: bytes
    partial: bool = False


def parse_line(line: bytes) -> LogEntry | None:
    """Parse a line without its newline. Returns None if it is malformed, for example truncated by a full disk."""
    if line.startswith(b"{"):
        return _parse_docker_line(line)
    parts = line.split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
        return None
    tags = parts[2].split(b":")
    if not tags[0] or tags[0] not in (b"P", b"F"):
        return None
    text = parts[3] if len(parts) > 3 else b""
    return LogEntry(parts[0].decode(errors="replace"), parts[1].decode(), text, tags[0] == b"P")


def _parse_docker_line(line: bytes) -> LogEntry | None:
    """Parse a line of Docker's format; a text without a line end at its end is a part of a line."""
    try:
        fields = parse_json(line)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    text, stream, written = (fields.get(key) for key in ("log", "stream", "time"))
    if not isinstance(text, str) or stream not in ("stdout", "stderr") or not isinstance(written, str):
        return None
    return LogEntry(written, stream, text.removesuffix("\n").encode(errors="replace"), not text.endswith("\n"))


class Joiner:
    """Join the parts of lines, separately for each stream."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, bytearray]] = {}

    def add(self, entry: LogEntry) -> LogEntry | None:
        """Return the complete line if this entry ends it, else None. The line has the time of its first part."""
        first, text = self._open.pop(entry.stream, (entry.time, bytearray()))
        text += entry.text
        if entry.partial and len(text) < MAX_LINE_BYTES:
            self._open[entry.stream] = first, text
            return None
        return LogEntry(first, entry.stream, bytes(text))

    def take_unfinished(self) -> list[LogEntry]:
        """Remove and return the incomplete lines."""
        entries = [LogEntry(first, stream, bytes(text)) for stream, (first, text) in self._open.items()]
        self._open.clear()
        return entries


def read_log(
    path: str, *, tail: int | None = None, follow: Callable[[], bool] | None = None, poll_s: float = POLL_S
) -> Iterator[LogEntry]:
    """Yield the lines of a log, with their parts joined. Raises OSError if it cannot be read.

    A renamed file is read to its end before the new file.

    Args:
        tail: start with this number of last lines, or None for all lines.
        follow: called when all lines were read; it returns True to wait for more lines, False to stop.
    """
    joiner = Joiner()
    with _LogFile(path) as file:
        if tail is not None:
            file.seek_tail(tail)
        while True:
            for line in file.lines():
                entry = parse_line(line)
                joined = joiner.add(entry) if entry is not None else None
                if joined is not None:
                    yield joined
            if file.rotated():
                continue
            if follow is None or not follow():
                break
            time.sleep(poll_s)
        yield from joiner.take_unfinished()


class _LogFile:
    """A log file that may be renamed or truncated while it is read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = open(path, "rb", opener=open_regular)  # noqa: SIM115  closed by __exit__
        self._partial = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def lines(self) -> Iterator[bytes]:
        """Yield every complete line that was not read yet. A line that is too long comes in pieces."""
        while chunk := self._file.read(_CHUNK):
            *lines, start = chunk.split(b"\n")
            for line in lines:
                yield bytes(self._partial + line)
                self._partial.clear()
            self._partial += start
            if len(self._partial) > MAX_LINE_BYTES:
                yield self._line_piece()

    def _line_piece(self) -> bytes:
        """Take the start of a line that is too long. The remainder gets the same prefix, so that it can be parsed."""
        piece = bytes(self._partial)
        head = b"".join(b"%b " % part for part in piece.split(b" ", 3)[:3])
        self._partial = bytearray(head if len(head) < _HEAD_BYTES and parse_line(piece) is not None else b"")
        return piece

    def rotated(self) -> bool:
        """Switch to the new file, or to the start of a truncated file. Returns whether the log was rotated."""
        opened = os.fstat(self._file.fileno())
        try:
            current = os.stat(self._path)
        except FileNotFoundError:
            return False  # renamed, and the new file does not exist yet
        if (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino):
            if opened.st_size > self._file.tell():
                return True  # lines were written after the rename: read these lines first
            try:
                new = open(self._path, "rb", opener=open_regular)  # noqa: SIM115
            except FileNotFoundError:
                return False  # renamed again
            self._file.close()
            self._file = new
        elif current.st_size < self._file.tell():
            self._file.seek(0)
        else:
            return False
        self._partial.clear()
        return True

    def seek_tail(self, count: int) -> None:
        """Seek to the start of the last `count` complete lines. The parts of a line count as one line."""
        start = following = self._file.seek(0, os.SEEK_END)
        if count <= 0:
            return
        head = b""  # the end of the line that the block after this one begins with
        while start > 0:
            size = min(_CHUNK, start)
            start -= size
            self._file.seek(start)
            lines = self._file.read(size).split(b"\n")
            begin = start + size + 1
            for number in range(len(lines) - 1, 0 if start else -1, -1):  # the first may begin in an earlier block
                begin -= len(lines[number]) + 1
                entry = parse_line(lines[number] + head)
                head = b""
                if entry is not None and not entry.partial:
                    count -= 1
                    if count < 0:
                        self._file.seek(following)
                        return
                following = begin
            head = (lines[0] + head)[:_HEAD_BYTES]
        self._file.seek(0)
