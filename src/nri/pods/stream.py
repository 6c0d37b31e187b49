"""The client's side of exec and attach, over the streaming server whose address the CRI gives out: SPDY/3.1.

Rules: SPDY, because every runtime of the field serves it, and takes the end of the input over it, which most do not
take over a WebSocket. The server's texts are bounded: the head of its answer, its frames, the outcome. Output is
written before more is read: that is the only window, for Go's servers read no others, and what they have not read when
they close the connection makes the kernel throw away the rest of the output. A person's terminal is raw while the
conversation lasts, and as it was afterwards. Next: `nri.engine.streaming.spdy`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import termios
import time
import tty as modes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from nri.config.syntax import parse_json
from nri.engine.streaming import spdy
from nri.engine.streaming.link import CHUNK_BYTES, Link
from nri.errors import ConfigError, NriError, RemoteProtocolError
from nri.text import plain

__all__ = ["Streams", "converse", "ends"]

#: How long the server has to answer, in seconds; and to end the streams after it told the outcome.
_ANSWER_S, _END_S = 20.0, 2.0
_HEAD_BYTES, _OUTCOME_BYTES = 16384, 65536
#: How much input may wait to be sent before no more is read, in bytes.
_WAITING_BYTES = 256 << 10
_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io")
#: Ctrl-P Ctrl-Q, which leaves a program that has the terminal.
LEAVE = b"\x10\x11"


class Streams(NamedTuple):
    """The ends on this side.

    Attributes:
        write: takes output, by its stream ("stdout", "stderr").
        stdin: a descriptor, or None for no input.
        resized: a descriptor that is readable when the terminal has another size; None without a terminal.
        leave: Ctrl-P Ctrl-Q ends this side alone.
    """

    write: Callable[[str, bytes], None]
    stdin: int | None = None
    resized: int | None = None
    leave: bool = False


@contextmanager
def ends(*, stdin: bool, tty: bool, leave: bool = False) -> Iterator[Streams]:
    """The streams for a program. Raises ConfigError if it needs a terminal and there is none."""
    source = sys.stdin.fileno() if stdin else None
    if not tty:
        yield Streams(_write, source)
        return
    if source is None or not os.isatty(source):
        raise ConfigError("command line", "-t", "needs -i and a terminal as standard input", "leave it out")
    before, changed = termios.tcgetattr(source), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    handler = signal.signal(signal.SIGWINCH, lambda *_: os.eventfd_write(changed, 1))
    try:
        modes.setraw(source, termios.TCSADRAIN)  # what was typed before stays
        yield Streams(_write, source, changed, leave)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
        os.close(changed)


def _write(kind: str, data: bytes) -> None:
    """Write output, byte for byte."""
    stream = sys.stderr if kind == "stderr" else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def converse(url: str, ends: Streams, *, tty: bool) -> int:
    """Talk until the program ends; its exit code. Raises NriError if the server refuses, or says no outcome."""
    with _connect(url) as connection:
        rest, protocol = _upgrade(connection, url)
        return _Conversation(connection, rest, ends, tty=tty, outcome=protocol == _PROTOCOLS[0]).run()


def _connect(url: str) -> socket.socket:
    """A connection to the server of a URL."""
    try:
        where = urlsplit(url)
        host, port = where.hostname or "", where.port or 80
    except ValueError:
        raise NriError(f"the runtime gives out {plain(url)} for its streams, which is not an address") from None
    if where.scheme != "http" or not host:
        raise NriError(f"the runtime gives out {plain(url)} for its streams: only http is spoken here")
    try:
        return socket.create_connection((host, port), _ANSWER_S)
    except OSError as error:
        raise NriError(f"the runtime's streaming server {host}:{port}: {error.strerror or error}") from None


def _upgrade(connection: socket.socket, url: str) -> tuple[bytes, str]:
    """Switch to SPDY; what came behind the answer, and the protocol over it."""
    where = urlsplit(url)
    target = where.path + (f"?{where.query}" if where.query else "")
    headers = [("Host", where.netloc), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("Content-Length", "0")]
    headers += [("X-Stream-Protocol-Version", each) for each in _PROTOCOLS]
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    server = f"the streaming server at {plain(where.netloc)}"
    try:
        connection.sendall(http.send(h11.Request(method="POST", target=target, headers=headers)) or b"")
        http.send(h11.EndOfMessage())
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(connection.recv(CHUNK_BYTES))
    except (h11.ProtocolError, OSError) as error:
        raise NriError(f"{server}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(event, h11.InformationalResponse) or event.status_code != 101:
        status = getattr(event, "status_code", 0)
        raise NriError(f"{server} answers {status} {plain(bytes(getattr(event, 'reason', b'')).decode('latin-1'))}")
    said = {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in event.headers}
    return http.trailing_data[0], said.get("x-stream-protocol-version", _PROTOCOLS[1])


class _Conversation:
    """One program's streams."""

    def __init__(self, connection: socket.socket, rest: bytes, ends: Streams, *, tty: bool, outcome: bool) -> None:
        self._ends, self._json = ends, outcome
        self._spdy, self._link, self._first = spdy.Connection(client=True), Link(connection), rest
        kinds = ["error", *(["stdin"] if ends.stdin is not None else []), "stdout"]
        kinds += ["resize"] if tty else ["stderr"]
        self._streams = {kind: self._spdy.open({"streamtype": kind}) for kind in kinds}
        self._kinds = {stream: kind for kind, stream in self._streams.items()}
        self._open = {self._streams[kind] for kind in kinds if kind in ("error", "stdout", "stderr")}
        self._outcome = bytearray()
        self._input = ends.stdin is not None
        self._held = b""
        if tty:
            self._resize()

    def run(self) -> int:
        self._take(self._first)
        until = None
        while self._open and not self._link.lost:
            self._link.send(self._spdy.take())
            if until is None and self._streams["error"] not in self._open:
                until = time.monotonic() + _END_S
            if until is not None and time.monotonic() > until:
                break
            if self._step(0.1 if until else 4.0):
                return 0
        return self._ended()

    def _step(self, timeout_s: float) -> bool:
        """Wait for one thing and do it; whether the person leaves."""
        poll, asked = select.poll(), [(self._link.fileno(), self._link.mask(read=True))]
        reads = (
            self._input and self._link.waiting < _WAITING_BYTES and self._spdy.send_window(self._streams["stdin"]) > 0
        )
        asked += [(self._ends.stdin, select.POLLIN)] if reads and self._ends.stdin is not None else []
        asked += [(self._ends.resized, select.POLLIN)] if self._ends.resized is not None else []
        for descriptor, mask in asked:
            poll.register(descriptor, mask)
        ready = dict(poll.poll(timeout_s * 1000))
        if self._ends.resized in ready:
            os.read(self._ends.resized or 0, 8)
            self._resize()
        if self._ends.stdin in ready and self._type():
            return True
        self._take(self._link.receive(ready, read=True))
        return False

    def _type(self) -> bool:
        """Send what was typed; whether that is the sequence to leave."""
        stream = self._streams["stdin"]
        typed = os.read(self._ends.stdin or 0, min(CHUNK_BYTES, self._spdy.send_window(stream)))
        self._input = bool(typed)
        if self._ends.leave and typed:
            typed, leaves, _ = (self._held + typed).partition(LEAVE)
            self._held = typed[-1:] if typed.endswith(LEAVE[:1]) and not leaves else b""
            typed = typed[: len(typed) - len(self._held)]
            self._spdy.send(stream, typed)
            self._link.send(self._spdy.take())
            return bool(leaves)
        self._spdy.send(stream, typed, end=not self._input)
        return False

    def _resize(self) -> None:
        size = shutil.get_terminal_size()
        text = json.dumps({"Width": size.columns, "Height": size.lines})
        self._spdy.send(self._streams["resize"], text.encode())

    def _take(self, data: bytes) -> None:
        """Take what the server sent."""
        for event in self._spdy.receive(data):
            kind = self._kinds.get(event.stream, "")
            if isinstance(event, spdy.Data):
                if kind == "error":
                    self._outcome += event.data
                    if len(self._outcome) > _OUTCOME_BYTES:
                        raise RemoteProtocolError(f"an outcome of more than {_OUTCOME_BYTES} bytes")
                elif kind in ("stdout", "stderr"):
                    self._ends.write(kind, event.data)
            else:
                self._open.discard(event.stream)
                self._input = self._input and not (kind == "stdin" and isinstance(event, spdy.Reset))

    def _ended(self) -> int:
        """The exit code that the outcome says."""
        text = self._outcome.decode(errors="replace")
        if not self._json:
            if text:
                raise NriError(plain(text))
            return 0
        if not text and self._link.lost:
            raise NriError("the runtime ended the connection without saying how the program ended")
        try:
            found = parse_json(text or '{"status": "Success"}')
            if found["status"] == "Success":
                return 0
            causes = (found.get("details") or {}).get("causes") or []
            return next(int(one["message"]) & 0xFF for one in causes if one.get("reason") == "ExitCode")
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
            raise NriError(_message(text)) from None


def _message(text: str) -> str:
    """A person's words for an outcome that is no exit code."""
    try:
        found = parse_json(text)
    except ValueError:
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    return plain(str(message or text))
