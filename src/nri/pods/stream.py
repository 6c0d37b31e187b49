"""The client's side of exec, attach and port forwarding, over SPDY/3.1 to the streaming server of a runtime.

SPDY is used because every runtime serves it, and accepts the end of input over it; most runtimes do not accept that
over a WebSocket. Output is written before more is read. Window updates are not sent: Go's servers do not read them, and
unread data on a closed connection makes the kernel discard the rest of the output.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from nri.config.syntax import parse_json
from nri.engine.streaming import spdy
from nri.engine.streaming.link import CHUNK_BYTES, Link
from nri.errors import ConfigError, NriError, RemoteProtocolError
from nri.text import plain
from nri.user_agent import user_agent

_PORTS = {"http": 80, "https": 443}
#: Timeout for the server's answer.
_ANSWER_TIMEOUT_S = 20.0
#: Timeout for the end of the server's streams after the outcome.
_CLOSE_TIMEOUT_S = 2.0
_MAX_HEAD_BYTES, _MAX_OUTCOME_BYTES = 16384, 65536
#: Stop reading input while this much waits to be sent.
_MAX_QUEUED_BYTES = 256 << 10
_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io")
#: Ctrl-P Ctrl-Q, which detaches from the program.
LEAVE = b"\x10\x11"


class Streams(NamedTuple):
    """The client's ends of the streams.

    Attributes:
        write: called with the stream ("stdout", "stderr") and its output.
        stdin: the descriptor of the input, or None without input.
        resized: a descriptor that is readable after a change of the terminal's size, or None without a terminal.
        leave: whether Ctrl-P Ctrl-Q detaches.
    """

    write: Callable[[str, bytes], None]
    stdin: int | None = None
    resized: int | None = None
    leave: bool = False


@contextmanager
def ends(*, stdin: bool, tty: bool, leave: bool = False) -> Iterator[Streams]:
    """Open the streams for a program. Raises ConfigError if standard input is not a required terminal."""
    source = sys.stdin.fileno() if stdin else None
    if not tty:
        yield Streams(_write, source)
        return
    if source is None or not os.isatty(source):
        raise ConfigError("command line", "-t", "requires -i and a terminal as standard input", "omit -t")
    settings, resized = termios.tcgetattr(source), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    handler = signal.signal(signal.SIGWINCH, lambda *_: os.eventfd_write(resized, 1))
    try:
        modes.setraw(source, termios.TCSADRAIN)  # keeps earlier input
        yield Streams(_write, source, resized, leave)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, settings)
        signal.signal(signal.SIGWINCH, handler)
        os.close(resized)


def _write(kind: str, data: bytes) -> None:
    """Write output, byte for byte."""
    stream = sys.stderr if kind == "stderr" else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def converse(url: str, ends: Streams, *, tty: bool) -> int:
    """Transfer streams until the program ends. Returns its exit code. Raises NriError if the server fails."""
    connection, data, protocol = open_spdy(url, _PROTOCOLS)
    with connection:
        return _Conversation(connection, data, ends, tty=tty, outcome=protocol == _PROTOCOLS[0]).run()


def open_spdy(url: str, protocols: Sequence[str]) -> tuple[socket.socket, bytes, str]:
    """Connect to the streaming server of a URL, and switch to SPDY.

    Returns the socket, the data after the server's answer, and the protocol of `protocols` that the server chose.
    Raises NriError if the server cannot be reached or refuses.
    """
    connection = _connect(url)
    try:
        return (connection, *_upgrade(connection, url, protocols))
    except BaseException:
        connection.close()
        raise


def _connect(url: str) -> socket.socket:
    """Connect to the server of a URL."""
    try:
        address = urlsplit(url)
        host, port = address.hostname or "", address.port or _PORTS.get(address.scheme, 0)
    except ValueError:
        raise NriError(f"the runtime's streaming address {plain(url)} is not a URL") from None
    if address.scheme not in _PORTS or not host:
        raise NriError(f"the runtime's streaming address {plain(url)} must begin with http:// or https://")
    server = f"the runtime's streaming server {host}:{port}"
    try:
        connection = socket.create_connection((host, port), _ANSWER_TIMEOUT_S)
    except OSError as error:
        raise NriError(f"{server}: {error.strerror or error}") from None
    return _with_tls(connection, host, server) if address.scheme == "https" else connection


def _with_tls(connection: socket.socket, host: str, server: str) -> socket.socket:
    """Start TLS. Raises NriError if the server's certificate cannot be verified by the CAs of this machine."""
    import ssl  # noqa: PLC0415  most runtimes serve streams without TLS

    try:
        return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        step = "set the variable SSL_CERT_FILE to a file with its CA"
        raise NriError(f"{server}: its certificate is not trusted: {error.verify_message}. {step}") from None
    except OSError as error:
        connection.close()
        raise NriError(f"{server}: {getattr(error, 'reason', None) or error.strerror or error}") from None


def _upgrade(connection: socket.socket, url: str, protocols: Sequence[str]) -> tuple[bytes, str]:
    """Switch to SPDY. Returns the data after the answer, and the stream protocol."""
    address = urlsplit(url)
    target = address.path + (f"?{address.query}" if address.query else "")
    headers = [("Host", address.netloc), ("User-Agent", user_agent()), ("Content-Length", "0")]
    headers += [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    headers += [("X-Stream-Protocol-Version", protocol) for protocol in protocols]
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    server = f"the streaming server at {plain(address.netloc)}"
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
    answer_headers = {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in event.headers}
    return http.trailing_data[0], answer_headers.get("x-stream-protocol-version", protocols[-1])


class _Conversation:
    """The streams of a program."""

    def __init__(self, connection: socket.socket, data: bytes, ends: Streams, *, tty: bool, outcome: bool) -> None:
        self._ends, self._json = ends, outcome
        self._spdy, self._link, self._first_bytes = spdy.Connection(client=True), Link(connection), data
        kinds = ["error", *(["stdin"] if ends.stdin is not None else []), "stdout"]
        kinds += ["resize"] if tty else ["stderr"]
        self._streams = {kind: self._spdy.open({"streamtype": kind}) for kind in kinds}
        self._kinds = {stream: kind for kind, stream in self._streams.items()}
        self._open = {self._streams[kind] for kind in kinds if kind in ("error", "stdout", "stderr")}
        self._outcome = bytearray()
        self._input = ends.stdin is not None
        self._partial_sequence = b""
        if tty:
            self._resize()

    def run(self) -> int:
        self._receive(self._first_bytes)
        deadline = None
        while self._open and not self._link.lost:
            self._link.send(self._spdy.take())
            if deadline is None and self._streams["error"] not in self._open:
                deadline = time.monotonic() + _CLOSE_TIMEOUT_S
            if deadline is not None and time.monotonic() > deadline:
                break
            if self._step(0.1 if deadline else 4.0):
                return 0
        return self._exit_code()

    def _step(self, timeout_s: float) -> bool:
        """Wait for an event and handle it. Returns whether the user detaches."""
        poll, descriptors = select.poll(), [(self._link.fileno(), self._link.mask(read=True))]
        reads = (
            self._input
            and self._link.waiting < _MAX_QUEUED_BYTES
            and self._spdy.send_window(self._streams["stdin"]) > 0
        )
        descriptors += [(self._ends.stdin, select.POLLIN)] if reads and self._ends.stdin is not None else []
        descriptors += [(self._ends.resized, select.POLLIN)] if self._ends.resized is not None else []
        for descriptor, mask in descriptors:
            poll.register(descriptor, mask)
        ready = dict(poll.poll(timeout_s * 1000))
        if self._ends.resized in ready:
            os.read(self._ends.resized or 0, 8)
            self._resize()
        if self._ends.stdin in ready and self._send_input():
            return True
        self._receive(self._link.receive(ready, read=True))
        return False

    def _send_input(self) -> bool:
        """Send input. Returns whether the user detaches."""
        stream = self._streams["stdin"]
        typed = os.read(self._ends.stdin or 0, min(CHUNK_BYTES, self._spdy.send_window(stream)))
        self._input = bool(typed)
        if self._ends.leave and typed:
            typed, leaves, _ = (self._partial_sequence + typed).partition(LEAVE)
            self._partial_sequence = typed[-1:] if typed.endswith(LEAVE[:1]) and not leaves else b""
            typed = typed[: len(typed) - len(self._partial_sequence)]
            self._spdy.send(stream, typed)
            self._link.send(self._spdy.take())
            return bool(leaves)
        self._spdy.send(stream, typed, end=not self._input)
        return False

    def _resize(self) -> None:
        size = shutil.get_terminal_size()
        text = json.dumps({"Width": size.columns, "Height": size.lines})
        self._spdy.send(self._streams["resize"], text.encode())

    def _receive(self, data: bytes) -> None:
        """Handle data of the server."""
        for event in self._spdy.receive(data):
            kind = self._kinds.get(event.stream, "")
            if isinstance(event, spdy.Data):
                if kind == "error":
                    self._outcome += event.data
                    if len(self._outcome) > _MAX_OUTCOME_BYTES:
                        raise RemoteProtocolError(f"an outcome of more than {_MAX_OUTCOME_BYTES} bytes")
                elif kind in ("stdout", "stderr"):
                    self._ends.write(kind, event.data)
            else:
                self._open.discard(event.stream)
                self._input = self._input and not (kind == "stdin" and isinstance(event, spdy.Reset))

    def _exit_code(self) -> int:
        """The exit code of the outcome. Raises NriError if the outcome is an error."""
        text = self._outcome.decode(errors="replace")
        if not self._json:
            if text:
                raise NriError(plain(text))
            return 0
        if not text and self._link.lost:
            raise NriError("the runtime closed the connection without the program's exit code")
        try:
            status = parse_json(text or '{"status": "Success"}')
            if status["status"] == "Success":
                return 0
            causes = (status.get("details") or {}).get("causes") or []
            return next(int(one["message"]) & 0xFF for one in causes if one.get("reason") == "ExitCode")
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
            raise NriError(_message(text)) from None


def _message(text: str) -> str:
    """The message of an outcome without an exit code."""
    try:
        status = parse_json(text)
    except ValueError:
        status = None
    message = status.get("message") if isinstance(status, dict) else None
    return plain(str(message or text))
