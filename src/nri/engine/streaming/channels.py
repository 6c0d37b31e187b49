"""Events of clients of exec, attach and port forward, and the interfaces of the transports that bring them.

The outcome of a program is a metav1.Status as JSON, or a text in old protocols.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, Protocol

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
                document, at = self._decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                self._ended = len(text) - at > self.LIMIT or text[at] != "{"
                break
            if size := _size(document):
                yield size
        self._kept = "" if self._ended else text[at:]


def _size(document: object) -> Resize | None:
    if not isinstance(document, dict):
        return None
    values = {str(name).lower(): value for name, value in document.items()}
    width, height = values.get("width"), values.get("height")
    if type(width) is int and type(height) is int and 0 <= width < 65536 and 0 <= height < 65536:
        return Resize(width, height)
    return None


def requested_streams(*, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> AbstractSet[int]:
    """The streams of a request; with a terminal there is no STDERR."""
    is_requested = {STDIN: stdin, STDOUT: stdout, STDERR: stderr and not tty, ERROR: True, RESIZE: tty}
    return frozenset(stream for stream, requested in is_requested.items() if requested)


#: Longer texts are cut, in characters: some client shows them on one line.
_MAX_TEXT_LENGTH = 16384


class Status(NamedTuple):
    """An exit code, or why there is none."""

    code: int = 0
    error: str = ""

    @property
    def message(self) -> str:
        """For a person; empty if all went well."""
        if self.error:
            return f"Internal error occurred: error executing command in container: {self.error[:_MAX_TEXT_LENGTH]}"
        return f"command terminated with non-zero exit code: exit status {self.code}" if self.code else ""

    def text(self) -> bytes:
        """For the protocols before v4: nothing, or the message."""
        return self.message.encode(errors="replace")

    def json(self) -> bytes:
        """For v4 and v5."""
        document: dict[str, Any] = {"metadata": {}, "status": "Failure" if self.message else "Success"}
        if self.message:
            document["message"] = self.message
        if self.error:
            document |= {"reason": "InternalError", "code": 500}
        elif self.code:
            causes = [{"reason": "ExitCode", "message": str(self.code)}]
            document |= {"reason": "NonZeroExitCode", "details": {"causes": causes}}
        return json.dumps(document).encode(errors="replace")


class PortOpened(NamedTuple):
    """The client wants a connection to a port of the pod; `key` is its name from now on."""

    key: str
    port: int


class PortData(NamedTuple):
    """Bytes for a connection."""

    key: str
    data: bytes


class PortHalfClosed(NamedTuple):
    """The client sends no more on a connection, and may still read."""

    key: str


class PortClosed(NamedTuple):
    """The client has let go of a connection."""

    key: str


ForwardEvent = PortOpened | PortData | PortHalfClosed | PortClosed | ClientGone


class ForwardChannels(Protocol):
    """The client's side of one port forwarding.

    Attributes:
        halves: the two directions of a connection end each by itself.
    """

    halves: bool

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Take bytes of the client. Raises RemoteProtocolError, then it is over."""
        ...

    def consumed(self, key: str, size: int) -> None:
        """So many bytes of a connection are done with."""
        ...

    def room(self, key: str) -> int:
        """The number of bytes that may be sent on a connection now."""
        ...

    def send(self, key: str, data: bytes) -> None:
        """Send what the port said."""
        ...

    def end(self, key: str) -> None:
        """The port says no more; it may still listen."""
        ...

    def close(self, key: str, error: str = "") -> None:
        """A connection is over, or there is none because of an error."""
        ...

    def expire(self, now: float) -> None:
        """Let go of what the client began and did not complete. `now` is in monotonic seconds."""
        ...

    @property
    def over(self) -> bool:
        """Whether no more connections can come, and none is left."""
        ...

    def finish(self) -> None:
        """Say that all was said."""
        ...

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        ...
