"""The streaming client with our server and real programs, and with faulty servers."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.engine.streaming.spdy import Connection, StreamOpened
from nri.errors import NriError
from nri.pods.stream import LEAVE, Streams, converse, ends
from tests.support.stream_world import World

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n%s\r\n"
V4 = b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


class Person:
    """Takes output, and types."""

    def __init__(self) -> None:
        self.heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self.stdin, self.hand = os.pipe()
        self.leaves = threading.Event()

    def write(self, kind: str, data: bytes) -> None:
        self.heard[kind] += data

    def talk(self, url: str, *, tty: bool = False, stdin: bool = True) -> int:
        changed = os.eventfd(1) if tty else None  # the size has changed already
        streams = Streams(self.write, self.stdin if stdin else None, changed, leave=tty)
        return converse(url, streams, tty=tty)


def test_exec_passes_input_output_and_the_exit_code(world: World) -> None:
    person = Person()
    url = world.server.exec_url("c", ["sh", "-c", "cat; echo bad >&2; exit 5"], stdin=True, stdout=True, stderr=True)
    typed = threading.Thread(target=lambda: (os.write(person.hand, b"typed" * 10000), os.close(person.hand)))
    typed.start()
    assert person.talk(url) == 5
    typed.join()
    assert (len(person.heard["stdout"]), person.heard["stderr"]) == (50000, b"bad\n")


def test_a_terminal_has_its_size_and_can_be_detached_by_keys(world: World) -> None:
    person = Person()
    url = world.server.exec_url("c", ["cat"], stdin=True, stdout=True, stderr=False, tty=True)
    os.write(person.hand, b"some \x10 keys" + LEAVE)
    assert person.talk(url, tty=True) == 0


def test_an_address_can_be_used_once(world: World) -> None:
    person = Person()
    url = world.server.exec_url("c", ["true"], stdin=False, stdout=True, stderr=True)
    with pytest.raises(NriError, match="answers 404"):
        person.talk(re.sub("/exec/.*", "/exec/" + "x" * 32, url), stdin=False)


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that reads a request and then does this."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            with contextlib.suppress(OSError):  # a client that has had enough
                answer(connection)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/exec/x?y"
        thread.join(20)


def outcome(text: bytes, *, protocol: bytes = V4) -> Callable[[socket.socket], None]:
    """Say this on the first stream that is opened, which is the one for the outcome."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(SWITCH % protocol)
        spdy = Connection()
        opened = [event for event in spdy.receive(connection.recv(65536)) if isinstance(event, StreamOpened)]
        for event in opened:
            spdy.reply(event.stream)
        spdy.send(opened[0].stream, text, end=True)
        connection.sendall(spdy.take())

    return answer


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda it: it.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), "answers 403 Forbidden"),
        (lambda it: it.sendall(b"SSH-2.0\r\n\r\n"), "the streaming server at 127.0.0.1"),
        (lambda it: it.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000), "the streaming server at"),
        (lambda it: it.sendall(SWITCH % V4), "closed the connection without"),
        (lambda it: it.sendall(SWITCH % V4 + b"GET / HTTP/1.1\r\n"), "SPDY data on stream"),
        (outcome(b'{"status": "Failure", "message": "no such program"}'), "no such program"),
        (outcome(b"not json"), "not json"),
        (outcome(b'{"status": "Failure", "details": {"causes": [1]}}'), "Failure"),
        (outcome(b"[" * 70000), "an outcome of more than 65536 bytes"),
        (outcome(b"command terminated", protocol=b""), "command terminated"),
    ],
)
def test_a_refusal_or_protocol_error_of_the_server_is_an_error(
    answer: Callable[[socket.socket], object], error: str
) -> None:
    with answering(answer) as url, pytest.raises(NriError, match=error):
        Person().talk(url, stdin=False)


def test_success_is_exit_code_zero() -> None:
    for text, protocol in ((b'{"status": "Success"}', V4), (b"", b"")):
        with answering(outcome(text, protocol=protocol)) as url:
            assert Person().talk(url, stdin=False) == 0


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x", "http:///x", "http://h:99999/x", "http://127.0.0.1:1/x"])
def test_an_unusable_address_is_an_error(url: str) -> None:
    with pytest.raises(NriError, match="the runtime"):
        Person().talk(url, stdin=False)


def test_a_terminal_is_raw_during_a_stream_and_reports_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setattr(sys, "stdin", os.fdopen(slave, closefd=False))
    before, handler = termios.tcgetattr(slave), signal.getsignal(signal.SIGWINCH)
    with ends(stdin=True, tty=True, leave=True) as streams:
        assert not termios.tcgetattr(slave)[3] & termios.ICANON
        signal.raise_signal(signal.SIGWINCH)
        assert streams.leave and streams.resized is not None and os.read(streams.resized, 8)
    assert termios.tcgetattr(slave) == before and signal.getsignal(signal.SIGWINCH) is handler
    os.close(master)
    os.close(slave)


def test_without_a_terminal_there_is_no_size(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with ends(stdin=False, tty=False) as streams:
        assert (streams.stdin, streams.resized) == (None, None)
        streams.write("stdout", b"out\xff")
        streams.write("stderr", b"err")
    with pytest.raises(NriError, match="-t: requires -i and a terminal"), ends(stdin=False, tty=True):
        pass
    captured = capfd.readouterr()
    assert (captured.out[:3], captured.err) == ("out", "err")
