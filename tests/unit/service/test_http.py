"""The HTTP server of all programs: access and limits."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from nri.errors import NriError
from nri.service import connections, http
from nri.service.http import Server, TcpSettings, json_answer, text_answer
from nri.unix import Credentials
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for


def fails(_: object) -> http.Answer:
    raise LookupError("secret")


HANDLERS: dict[str, http.Handler] = {
    "/healthz": lambda _: text_answer("ok\n"),
    "/explain": lambda query: json_answer(dict(query)),
    "/broken": fails,
    "/big": lambda _: text_answer("x" * 5_000_000),
}

#: The handlers of TCP.
PUBLIC: dict[str, http.Handler] = {"/healthz": lambda _: text_answer("brief\n")}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "agent.sock")


@pytest.fixture
def server(path: str) -> Iterator[Server]:
    server = Server(HANDLERS, path=path, public=PUBLIC, address="127.0.0.1:0", deadline_s=5.0)
    with contextlib.closing(server):
        yield server


def connect(where: str | int) -> socket.socket:
    if isinstance(where, int):
        return socket.create_connection(("127.0.0.1", where), timeout=10)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(where)
    return sock


def received(sock: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := sock.recv(1 << 16):
            got += chunk
    return got


def ask(where: str | int, line: str) -> tuple[int, str]:
    with connect(where) as sock:
        sock.sendall(f"{line}\r\nHost: x\r\n\r\n".encode())
        head, _, body = received(sock).decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


def test_the_socket_is_private(server: Server, path: str) -> None:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_a_request_is_answered_with_its_parameters(server: Server, path: str) -> None:
    assert ask(path, "GET /healthz HTTP/1.1") == (200, "ok\n")
    assert ask(path, "GET /explain?pod=a%2Fb&pod=c HTTP/1.0") == (200, '{"pod": "c"}')
    assert ask(path, "HEAD /healthz HTTP/1.1") == (200, "")


def test_tcp_serves_only_public_paths(server: Server) -> None:
    assert ask(server.port, "GET /healthz HTTP/1.1") == (200, "brief\n")
    status, words = ask(server.port, "GET /explain?pod=a HTTP/1.1")
    assert (status, words) == (404, "not found; existing paths: /healthz\n")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST /healthz HTTP/1.1", 405),
        ("GET /nothing HTTP/1.1", 404),
        ("GET /healthz", 400),
        ("GET http://[ HTTP/1.1", 400),
        (f"GET /explain?{'&'.join(f'p{n}=1' for n in range(50))} HTTP/1.1", 400),
    ],
)
def test_an_invalid_request_gets_an_error_status(server: Server, path: str, line: str, status: int) -> None:
    assert ask(path, line)[0] == status


def test_an_exception_of_a_handler_is_sent_without_its_text(server: Server, path: str) -> None:
    assert ask(path, "GET /broken HTTP/1.1") == (500, "LookupError\n")
    assert ask(path, "GET /healthz HTTP/1.1")[0] == 200


def test_another_user_is_refused(server: Server, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "credentials", lambda _: Credentials(1, os.geteuid() + 1000, 1))
    assert ask(path, "GET /explain HTTP/1.1")[0] == 403


def test_an_oversized_request_is_disconnected(server: Server, path: str) -> None:
    with connect(path) as sock:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(b"GET /" + b"x" * 100_000)
        assert received(sock) == b""


def test_slow_clients_are_disconnected(path: str) -> None:
    with contextlib.closing(Server(HANDLERS, path=path, deadline_s=0.5)), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(path)) for _ in range(8)]
        for sock in slow:
            sock.sendall(b"GET /healthz")
        assert all(received(sock) == b"" for sock in slow)
        wait_for(lambda: answered(path), "one that is quick is answered")


def test_idle_connections_give_way_to_requests() -> None:
    patient = Server(public=PUBLIC, address="127.0.0.1:0", deadline_s=300.0)
    with contextlib.closing(patient), contextlib.ExitStack() as stack:
        for _ in range(4 * http.MAX_CONCURRENT_REQUESTS):
            stack.enter_context(connect(patient.port)).sendall(b"GET /healthz")
        for _ in range(20):  # each would wait for the deadline of one that is held open, and we do not
            assert ask(patient.port, "GET /healthz HTTP/1.1") == (200, "brief\n")


def test_a_connection_is_refused_while_all_others_are_answered(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "WAIT_S", 0.1)
    at_work, end = threading.Semaphore(0), threading.Event()

    def slow(_: object) -> http.Answer:
        at_work.release()
        end.wait(60)
        return text_answer("done\n")

    with contextlib.closing(Server({"/slow": slow}, path=path)), contextlib.ExitStack() as stack:
        for _ in range(http.MAX_CONCURRENT_REQUESTS):
            stack.enter_context(connect(path)).sendall(b"GET /slow HTTP/1.1\r\n\r\n")
            assert at_work.acquire(timeout=20)
        with connect(path) as late:
            assert received(late) == b""
        end.set()


def test_a_connection_without_a_place_is_not_answered(
    server: Server, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.Connections, "start_answer", lambda *_: False)
    with connect(path) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert received(sock) == b""


def test_an_unexpected_error_is_logged_and_affects_one_connection(
    server: Server, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> http.Answer:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(http, "credentials", broken)
        with connect(path) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert received(sock) == b""
    wait_for(lambda: "a request could not be answered" in caplog.text, "the log line after the connection is closed")
    assert ask(path, "GET /healthz HTTP/1.1") == (200, "ok\n")


def test_a_temporary_lack_of_descriptors_does_not_end_the_server(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    class Listener:
        """A listening socket: the first connection finds no descriptor, the second one finds the socket closed."""

        def __init__(self, sock: socket.socket) -> None:
            self.sock = sock
            self.errors = [OSError(24, "Too many open files"), OSError(22, "Invalid argument")]

        def setblocking(self, flag: bool) -> None:
            self.sock.setblocking(flag)

        def accept(self) -> None:
            raise self.errors.pop(0)

        def fileno(self) -> int:
            return self.sock.fileno() if self.errors else -1

    with socket.create_server(("127.0.0.1", 0)) as sock, connect(sock.getsockname()[1]):
        listener = Listener(sock)
        server.accept(listener, False)  # type: ignore[arg-type]
    assert "cannot accept a connection: [Errno 24] Too many open files" in caplog.text
    assert listener.errors == []


def test_the_oldest_silent_connection_gives_way() -> None:
    patient = Server(public=PUBLIC, address="127.0.0.1:0", deadline_s=300.0, tcp=TcpSettings(max_silent=20))
    with contextlib.closing(patient), contextlib.ExitStack() as stack:
        threads = threading.active_count()
        silent = [stack.enter_context(connect(patient.port)) for _ in range(30)]
        assert all(received(sock) == b"" for sock in silent[:10]), "the oldest ones are closed"
        assert ask(patient.port, "GET /healthz HTTP/1.1") == (200, "brief\n")
        assert threading.active_count() <= threads + 1, "a silent connection has no thread"
        silent[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert received(silent[-1]).endswith(b"brief\n"), "the newest ones are still served"


def test_a_silent_connection_is_closed_at_the_deadline() -> None:
    with contextlib.closing(Server(public=PUBLIC, address="127.0.0.1:0", deadline_s=0.2)) as server:
        with connect(server.port) as sock:
            assert received(sock) == b""


@pytest.fixture
def echo() -> Iterator[Server]:
    """A server that answers each POST request with its body and its own header `x-a`."""
    server = Server(
        public=PUBLIC,
        address="127.0.0.1:0",
        deadline_s=300.0,
        tcp=TcpSettings(lambda fields, body: (200, "text/plain", f"{fields.get('x-a')} ".encode() + body), 1000),
    )
    with contextlib.closing(server):
        yield server


def post(sock: socket.socket, length: object, body: bytes) -> None:
    sock.sendall(f"POST /any HTTP/1.1\r\nX-A: 1\r\nContent-Length: {length}\r\n\r\n".encode() + body)


def test_a_body_in_several_parts_is_accepted(echo: Server) -> None:
    with connect(echo.port) as sock:
        post(sock, 6, b"abc")
        time.sleep(0.05)
        sock.sendall(b"def, and more than was announced")
        assert received(sock).endswith(b"\r\n\r\n1 abcdef")


@pytest.mark.parametrize("length", ["1001", "9" * 40, "-1", "x", ""])
def test_a_body_without_an_allowed_length_is_refused(echo: Server, length: str) -> None:
    with connect(echo.port) as sock:
        post(sock, length, b"")
        head = received(sock)
    assert head.startswith(b"HTTP/1.1 413 ") and b"Content-Length must be a number up to 1000" in head


def test_a_refused_body_does_not_count_against_the_limit_of_all_bodies(echo: Server) -> None:
    with connect(echo.port) as sock:
        post(sock, 5000, b"x" * 5000)
        assert received(sock).startswith(b"HTTP/1.1 413 ")


def test_unfinished_bodies_give_way_to_new_ones(echo: Server) -> None:
    with contextlib.ExitStack() as stack:
        senders = [stack.enter_context(connect(echo.port)) for _ in range(4)]
        for sock in senders:
            post(sock, 1000, b"")
            sock.sendall(b"x" * 900)
        assert received(senders[0]) == b"", "3,600 of 3,000 bytes: the oldest sender is closed"
        senders[3].sendall(b"x" * 100)
        assert received(senders[3]).endswith(b"x" * 1000)


def test_a_temporary_lack_of_threads_does_not_end_the_server(
    server: Server, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with no_threads():
        assert not answered(path)
    assert answered(path)
    assert "cannot serve a connection: can't start new thread" in caplog.text


def answered(path: str) -> bool:
    with connect(path) as sock:
        with contextlib.suppress(BrokenPipeError):
            sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        return b"200" in received(sock)


def test_a_client_that_does_not_read_its_reply_is_disconnected(path: str) -> None:
    with contextlib.closing(Server(HANDLERS, path=path, deadline_s=0.3)), connect(path) as sock:
        sock.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        cut = select.poll()
        cut.register(sock, select.POLLRDHUP)
        assert cut.poll(20_000), "it is waited for"
        assert len(received(sock)) < 5_000_000


def test_a_closed_server_leaves_no_thread_or_socket(path: str) -> None:
    before = threading.active_count()
    server = Server(HANDLERS, path=path, public=PUBLIC, address="127.0.0.1:0")
    server.close()
    server.close()
    assert not os.path.exists(path)
    wait_for(lambda: threading.active_count() <= before, "its threads end")


def test_an_occupied_socket_or_address_is_an_error_with_its_name(server: Server, path: str) -> None:
    with pytest.raises(NriError, match=r"agent\.sock"):
        Server(HANDLERS, path=path)
    with pytest.raises(NriError, match=r"cannot listen on 127\.0\.0\.1.*: another process listens there"):
        Server(public=PUBLIC, address=f"127.0.0.1:{server.port}")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"])
def test_an_address_without_a_port_is_an_error_with_an_example(address: str) -> None:
    with pytest.raises(NriError, match=r"cannot listen on 127.*: not HOST:PORT, for example 127.0.0.1:8080"):
        Server(public=PUBLIC, address=address)


def test_an_address_can_be_ipv6() -> None:
    try:
        server = Server(public=PUBLIC, address="[::1]:0")
    except NriError:
        pytest.skip("this machine has no IPv6")
    with contextlib.closing(server):
        assert server.port


def test_a_flood_over_tcp_does_not_block_the_unix_socket(server: Server, path: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(2 * http.MAX_CONCURRENT_REQUESTS):
            stack.enter_context(connect(server.port)).sendall(b"GET /healthz")
        time.sleep(0.2)
        assert ask(path, "GET /healthz HTTP/1.1") == (200, "ok\n")


def test_over_tcp_a_guard_can_refuse_and_replies_have_the_given_headers(path: str) -> None:
    def guard(requested: str, headers: Mapping[str, str]) -> http.Answer | None:
        return None if headers.get("x-key") == "k" else text_answer(f"not {requested}\n", 401)

    server = Server(HANDLERS, path=path, public=PUBLIC, address="127.0.0.1:0", guard=guard, headers={"X-Own": "1"})
    with contextlib.closing(server):
        answers = []
        for key in ("k", "j"):
            with socket.create_connection(("127.0.0.1", server.port), 10) as sock:
                sock.sendall(b"GET /healthz HTTP/1.1\r\nX-KEY:  %b \r\nodd line\r\n\r\n" % key.encode())
                answers.append(sock.makefile("rb").read())
        assert answers[0].startswith(b"HTTP/1.1 200 OK") and answers[0].endswith(b"brief\n")
        assert answers[1].startswith(b"HTTP/1.1 401 Unauthorized") and answers[1].endswith(b"not /healthz\n")
        assert all(b"\r\nX-Own: 1\r\n" in answer for answer in answers)
        with connect(path) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            root = sock.makefile("rb").read()
        assert b" 401 " not in root and b"X-Own" not in root


def endless(argument: Mapping[str, str]) -> Generator[bytes]:
    """Sends a word for ever, and creates the requested file when it has ended."""
    try:
        while True:
            yield b"x" * 100_000
    finally:
        Path(argument["end"]).touch()


@pytest.fixture
def streaming() -> Iterator[Server]:
    server = Server(public=PUBLIC, address="127.0.0.1:0", streams={"/follow": endless}, deadline_s=0.5)
    with contextlib.closing(server):
        yield server


def follow(server: Server, end: Path) -> socket.socket:
    """Begin to read a stream."""
    sock = connect(server.port)
    sock.sendall(f"GET /follow?end={end} HTTP/1.1\r\n\r\n".encode())
    return sock


def test_a_stream_is_sent_in_parts_until_its_reader_disconnects(streaming: Server, tmp_path: Path) -> None:
    with follow(streaming, tmp_path / "gone") as sock:
        head = sock.recv(12)
        assert head == b"HTTP/1.1 200" and sock.recv(1000)
    wait_for((tmp_path / "gone").exists, "its end is noticed")


def test_a_reader_that_does_not_read_is_disconnected(streaming: Server, tmp_path: Path) -> None:
    with follow(streaming, tmp_path / "slow"):
        wait_for((tmp_path / "slow").exists, "it is too slow")


def test_streams_are_bounded_and_do_not_block_requests(tmp_path: Path) -> None:
    patient = Server(public=PUBLIC, address="127.0.0.1:0", streams={"/follow": endless}, deadline_s=300.0)
    with contextlib.closing(patient), contextlib.ExitStack() as stack:
        readers = [stack.enter_context(follow(patient, tmp_path / str(number))) for number in range(http.MAX_STREAMS)]
        assert all(reader.recv(12) == b"HTTP/1.1 200" for reader in readers)
        assert ask(patient.port, "GET /follow?end=x HTTP/1.1") == (
            503,
            "8 clients are already connected: close one first\n",
        )
        for _ in range(2 * http.MAX_CONCURRENT_REQUESTS):
            assert ask(patient.port, "GET /healthz HTTP/1.1") == (200, "brief\n")


def test_closing_the_server_ends_streams(streaming: Server, tmp_path: Path) -> None:
    with follow(streaming, tmp_path / "end") as sock:
        assert sock.recv(12) == b"HTTP/1.1 200"
        streaming.close()
        received(sock)
    wait_for((tmp_path / "end").exists, "the stream ends")


def test_a_thousand_silent_clients_do_not_block_requests() -> None:
    """A silent client looks like a slow client, so each gives way to clients that send requests."""
    server = Server(public=PUBLIC, address="127.0.0.1:0", deadline_s=300.0)
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connect(server.port))
        for _ in range(20):
            assert ask(server.port, "GET /healthz HTTP/1.1") == (200, "brief\n")
        assert sum(thread.name == "nri-http" for thread in threading.enumerate()) < 5 * http.MAX_CONCURRENT_REQUESTS


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""], ids=["whole", "without an end"])
def test_a_request_above_8_kib_is_disconnected_without_a_reply(server: Server, path: str, end: bytes) -> None:
    for where in (path, server.port):
        with connect(where) as sock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 8192 + end)
            assert received(sock) == b""
        assert ask(where, "GET /healthz HTTP/1.1")[0] == 200


def test_a_reply_that_is_read_too_slowly_is_disconnected(path: str) -> None:
    """Each part is read at once, but the whole reply would take ten times the allowed time."""
    with contextlib.closing(Server(HANDLERS, path=path, deadline_s=0.4)), connect(path) as sock:
        sock.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while chunk := sock.recv(1 << 16):
                size += len(chunk)
                time.sleep(0.05)
    assert size < 5_000_000
