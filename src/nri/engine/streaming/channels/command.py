"""The acts of a client of exec and attach, in any protocol: type, end its input, change the terminal's size, go.

One job: the events and the one interface that the two transports of remote commands share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol

from nri.engine.streaming.channels.status import Status

__all__ = [
    "ERROR",
    "RESIZE",
    "STDERR",
    "STDIN",
    "STDOUT",
    "ClientGone",
    "CommandChannels",
    "Input",
    "InputEnd",
    "Resize",
]

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
RESIZE: Final = 4
_BLANKS: Final = re.compile(r"\s*")


class Input(NamedTuple):
    """Bytes for the program's stdin."""

    data: bytes


class InputEnd(NamedTuple):
    """No more input comes."""


class Resize(NamedTuple):
    """The client's terminal has this size now, in characters."""

    width: int
    height: int


class ClientGone(NamedTuple):
    """The client has left in order."""


CommandEvent = Input | InputEnd | Resize | ClientGone


class CommandChannels(Protocol):
    """The client's side of one exec or attach.

    Attributes:
        ready: all that the client must open first is open.
    """

    ready: bool

    def receive(self, data: bytes) -> Iterator[CommandEvent]:
        """Take bytes of the client. Raises RemoteProtocolError, then it is over."""
        ...

    def consumed(self, size: int) -> None:
        """So many bytes of input are done with."""
        ...

    def room(self, stream: int) -> int:
        """The number of bytes of STDOUT or STDERR that may be sent now."""
        ...

    def write(self, stream: int, data: bytes) -> None:
        """Send output; of a stream that the client does not want, it is dropped."""
        ...

    def finish(self, status: Status) -> None:
        """Send the outcome, and say that all was said."""
        ...

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        ...


class SizeReader:
    """Reads the sizes that come on the channel for them: JSON objects, one after the other, in any pieces.

    JSON that is not a size is passed over, as other servers do; text that is no JSON ends the channel.
    """

    LIMIT: Final = 4096

    def __init__(self) -> None:
        self._kept = ""
        self._ended = False
        self._decoder = json.JSONDecoder()

    def receive(self, data: bytes) -> Iterator[Resize]:
        """Take bytes; yields the sizes that they complete."""
        if self._ended:
            return
        text, at = self._kept + data.decode("latin-1"), 0
        while (at := _BLANKS.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it always matches
            try:
                found, at = self._decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                self._ended = len(text) - at > self.LIMIT or text[at] != "{"
                break
            if size := _size(found):
                yield size
        self._kept = "" if self._ended else text[at:]


def _size(found: object) -> Resize | None:
    if not isinstance(found, dict):
        return None
    named = {str(name).lower(): value for name, value in found.items()}
    width, height = named.get("width"), named.get("height")
    if type(width) is int and type(height) is int and 0 <= width < 65536 and 0 <= height < 65536:
        return Resize(width, height)
    return None


def wanted(*, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> AbstractSet[int]:
    """The streams of a request; with a terminal there is no STDERR."""
    asked = {STDIN: stdin, STDOUT: stdout, STDERR: stderr and not tty, ERROR: True, RESIZE: tty}
    return frozenset(stream for stream, wants in asked.items() if wants)
