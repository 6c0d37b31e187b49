"""The events of clients of exec, attach and port forward, and the interfaces of their transports."""

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
    """The end of the input."""


class Resize(NamedTuple):
    """The current size of the client's terminal, in characters."""

    width: int
    height: int


class ClientGone(NamedTuple):
    """The client has disconnected properly."""


CommandEvent = Input | InputEnd | Resize | ClientGone


class CommandChannels(Protocol):
    """The client's side of one exec or attach.

    Attributes:
        ready: whether the client has opened everything that it has to open first.
    """

    ready: bool

    def receive(self, data: bytes) -> Iterator[CommandEvent]:
        """Receive bytes of the client. RemoteProtocolError ends the session."""
        ...

    def consumed(self, size: int) -> None:
        """Report that the program has read `size` bytes of input, so that the client may send more."""
        ...

    def send_window(self, stream: int) -> int:
        """Return the number of bytes of STDOUT or STDERR that may be sent now."""
        ...

    def write(self, stream: int, data: bytes) -> None:
        """Send output. Drop it if the client did not request this stream."""
        ...

    def finish(self, status: Status) -> None:
        """Send the outcome, and end the channels."""
        ...

    def take(self) -> bytes:
        """Take out the bytes to send."""
        ...


class SizeReader:
    """Reads terminal sizes: a sequence of JSON objects, in pieces of any length.

    JSON that is not a size is ignored, as by other servers; invalid JSON ends the channel.
    """

    MAX_BYTES: Final = 4096

    def __init__(self) -> None:
        self._pending = ""
        self._ended = False
        self._decoder = json.JSONDecoder()

    def receive(self, data: bytes) -> Iterator[Resize]:
        """Receive bytes, and yield the sizes that are complete."""
        if self._ended:
            return
        text, at = self._pending + data.decode("latin-1"), 0
        while (at := _BLANKS.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it always matches
            try:
                document, at = self._decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                self._ended = len(text) - at > self.MAX_BYTES or text[at] != "{"
                break
            if size := _size(document):
                yield size
        self._pending = "" if self._ended else text[at:]


def _size(document: object) -> Resize | None:
    if not isinstance(document, dict):
        return None
    values = {str(name).lower(): value for name, value in document.items()}
    width, height = values.get("width"), values.get("height")
    if type(width) is int and type(height) is int and 0 <= width < 65536 and 0 <= height < 65536:
        return Resize(width, height)
    return None


def requested_streams(*, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> AbstractSet[int]:
    """Return the requested streams. With a terminal there is no STDERR."""
    is_requested = {STDIN: stdin, STDOUT: stdout, STDERR: stderr and not tty, ERROR: True, RESIZE: tty}
    return frozenset(stream for stream, requested in is_requested.items() if requested)


#: The maximum length of a message. Some clients show it on one line.
_MAX_TEXT_LENGTH = 16384


class Status(NamedTuple):
    """The outcome of a program: its exit code, or the reason why it has no exit code."""

    code: int = 0
    error: str = ""

    @property
    def message(self) -> str:
        """The message for users, or "" for success."""
        if self.error:
            return f"Internal error occurred: error executing command in container: {self.error[:_MAX_TEXT_LENGTH]}"
        return f"command terminated with non-zero exit code: exit status {self.code}" if self.code else ""

    def text(self) -> bytes:
        """The outcome for protocols before v4: the message."""
        return self.message.encode(errors="replace")

    def json(self) -> bytes:
        """The outcome for v4 and v5: a metav1.Status."""
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
    """The client requests a connection to a port of the pod. `key` identifies the connection."""

    key: str
    port: int


class PortData(NamedTuple):
    """Bytes for a connection."""

    key: str
    data: bytes


class PortHalfClosed(NamedTuple):
    """The client has ended sending on a connection, but may still read."""

    key: str


class PortClosed(NamedTuple):
    """The client has closed a connection."""

    key: str


ForwardEvent = PortOpened | PortData | PortHalfClosed | PortClosed | ClientGone


class ForwardChannels(Protocol):
    """The client's side of one port forwarding.

    Attributes:
        halves: whether the two directions of a connection end separately.
    """

    halves: bool

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Receive bytes of the client. RemoteProtocolError ends the session."""
        ...

    def consumed(self, key: str, size: int) -> None:
        """Report that a port has taken `size` bytes of a connection."""
        ...

    def send_window(self, key: str) -> int:
        """The number of bytes that may be sent on a connection now."""
        ...

    def send(self, key: str, data: bytes) -> None:
        """Send bytes from the port."""
        ...

    def end(self, key: str) -> None:
        """Report that the port has ended sending. It may still read."""
        ...

    def close(self, key: str, error: str = "") -> None:
        """Close a connection, or report the error that prevented it."""
        ...

    def expire(self, now: float) -> None:
        """Close connections that the client has not opened completely in time. `now` is monotonic."""
        ...

    @property
    def over(self) -> bool:
        """Whether all connections are closed, and the client cannot open more."""
        ...

    def finish(self) -> None:
        """End the channels."""
        ...

    def take(self) -> bytes:
        """Take out the bytes to send."""
        ...
