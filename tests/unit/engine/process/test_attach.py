"""The attach socket of a container. The test plays conmon."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.engine.process.attach import STDERR, STDOUT, Attachment
from nri.engine.support.errors import EngineError


class Conmon:
    """Listens as conmon does, in a bundle whose path is longer than a socket's may be."""

    def __init__(self, folder: Path) -> None:
        self.bundle = folder / ("deep" * 30)
        self.bundle.mkdir()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.chdir(self.bundle):
            self._listener.bind("attach")
        self._listener.listen()
        self.client: socket.socket | None = None

    def accept(self) -> socket.socket:
        self.client, _ = self._listener.accept()
        return self.client

    def close(self) -> None:
        self._listener.close()
        if self.client is not None:
            self.client.close()


@pytest.fixture
def conmon(tmp_path: Path) -> Iterator[Conmon]:
    conmon_ = Conmon(tmp_path)
    yield conmon_
    conmon_.close()


def test_each_part_has_its_stream_and_the_end_is_none(conmon: Conmon) -> None:
    with Attachment(conmon.bundle) as attached:
        client = conmon.accept()
        client.send(bytes([STDOUT]) + b"out")
        client.send(bytes([STDERR]) + b"err")
        client.send(bytes([STDOUT]))
        assert [attached.read(20) for _ in range(3)] == [(STDOUT, b"out"), (STDERR, b"err"), (STDOUT, b"")]
        client.close()
        assert attached.read(20) is None


def test_a_silent_container_is_a_timeout(conmon: Conmon) -> None:
    with Attachment(conmon.bundle) as attached, pytest.raises(TimeoutError, match=r"wrote nothing for 0\.01 s"):
        attached.read(0.01)


def test_input_is_split_into_parts_that_conmon_can_read(conmon: Conmon) -> None:
    with Attachment(conmon.bundle) as attached:
        client = conmon.accept()
        attached.write(b"x" * 20_000)
        assert [len(client.recv(1 << 16)) for _ in range(3)] == [8192, 8192, 20_000 - 2 * 8192]


def test_send_returns_the_number_of_bytes_sent_without_waiting(conmon: Conmon) -> None:
    with Attachment(conmon.bundle) as attached:
        conmon.accept()
        sent = [attached.send(b"x" * 10_000) for _ in range(1000)]
        assert sent[0] == 8192
        assert sent[-1] == 0, "a container that reads nothing holds up its client"


def test_input_and_container_can_end(conmon: Conmon) -> None:
    with Attachment(conmon.bundle) as attached:
        client = conmon.accept()
        attached.close_stdin()
        assert client.recv(10) == b""
        client.close()
        attached.close_stdin()
        with pytest.raises(OSError, match="pipe"):
            attached.write(b"x")


@pytest.mark.parametrize("bundle", ["none", "."])
def test_a_conmon_that_does_not_listen_is_an_error(tmp_path: Path, bundle: str) -> None:
    with pytest.raises(EngineError, match=f"conmon of {tmp_path / bundle} does not listen"):
        Attachment(tmp_path / bundle)
