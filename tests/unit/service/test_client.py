"""Requests to an agent: every failure is an error of one line with code 3."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.errors import NriError, ProgramUnreachable
from nri.service import client
from nri.service.client import ask
from nri.service.http import Server, json_answer, text_answer


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-ask-", dir="/tmp") as folder:
        yield Path(folder, "agent.sock")


@contextmanager
def listening(path: Path, answer: bytes | None) -> Iterator[None]:
    """A socket that answers anything with these bytes and ends; with None it does not answer."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        event = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                if answer is None:
                    event.wait(30)
                else:
                    connection.recv(4096)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        event.set()
        thread.join(30)


def test_replies_are_read_as_json_or_as_text_with_their_status(path: Path) -> None:
    handlers = {
        "/a": lambda argument: json_answer({"given": dict(argument)}),
        "/b": lambda _: text_answer("words\n", 503),
    }
    server = Server(handlers, path=str(path))
    try:
        assert ask(str(path), "/a", 5, {"pod": "a/b c&d=é"}) == (200, {"given": {"pod": "a/b c&d=é"}})
        assert ask(str(path), "/b", 5) == (503, "words\n")
    finally:
        server.close()


def test_a_silent_agent_is_an_error_at_the_deadline(path: Path) -> None:
    with listening(path, None), pytest.raises(ProgramUnreachable, match=r"has not replied in 0\.05 s"):
        ask(str(path), "/a", 0.05)


def test_a_socket_of_another_program_is_an_error(path: Path) -> None:
    with listening(path, b"SSH-2.0\r\n"), pytest.raises(ProgramUnreachable, match="is not the agent's socket"):
        ask(str(path), "/a", 5)


def test_a_missing_socket_is_an_error_with_the_next_step(path: Path) -> None:
    with pytest.raises(ProgramUnreachable, match="try: nri agent run"):
        ask(str(path), "/a", 5)


def test_an_oversized_reply_is_not_read_completely(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1 << 20)
    server = Server({"/a": lambda _: text_answer("x" * (1 << 21))}, path=str(path))
    try:
        with pytest.raises(NriError, match="is longer than 1 MiB"):
            ask(str(path), "/a", 5)
    finally:
        server.close()


def test_a_socket_of_another_user_is_an_error_with_the_next_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(client.UnixConnection, "connect", refuse)
    with pytest.raises(ProgramUnreachable, match=r"permission denied\. Run this command as root"):
        ask(str(path), "/a", 5)
