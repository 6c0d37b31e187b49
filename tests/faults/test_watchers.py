"""Misbehaving clients of the page of `nri inspect`, the admin socket, and the HTTP servers of agents.

None of them may slow a runtime's events down, keep others out for long, or make the process grow.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.adaptation.admin import ask, follow
from nri.errors import NriError
from nri.inspector.web import Web
from nri.service.http import MAX_CONCURRENT_REQUESTS, MAX_STREAMS, Server, text_answer
from nri.service.probes import probes
from tests.support.inspected import ATTACK, Inspected
from tests.support.waiting import wait_for

CLIENTS = 1000


@pytest.fixture(scope="module")
def node() -> Iterator[Inspected]:
    with (
        tempfile.TemporaryDirectory(prefix="nri-watchers-", dir="/tmp") as folder,
        Inspected(Path(folder)) as inspected,
    ):
        inspected.work()
        yield inspected


@pytest.fixture
def web(node: Inspected) -> Iterator[Web]:
    with node.source() as source, Web(source) as web:
        yield web


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def port_of(web: Web) -> int:
    return int(web.url.partition("127.0.0.1:")[2].partition("/")[0])


def request(web: Web, path: str, token: str = "") -> bytes:
    lines = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token or web.token}\r\n\r\n"
    return lines.encode()


def answer(web: Web, path: str) -> bytes:
    with connected(port_of(web)) as sock:
        sock.sendall(request(web, path))
        return sock.makefile("rb").read()


def threads(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def test_a_thousand_misbehaving_clients_do_not_block_the_page(web: Web) -> None:
    """Some send nothing, half a request or a wrong token; some do not read the response."""
    requests = (b"", b"GET /api/ov", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", request(web, "/api/overview"))
    with contextlib.ExitStack() as stack:
        for number in range(CLIENTS):
            sock = stack.enter_context(connected(port_of(web)))
            with contextlib.suppress(OSError):  # its place is taken already
                sock.sendall(requests[number % len(requests)])
        for _ in range(10):
            assert answer(web, "/api/overview").startswith(b"HTTP/1.1 200")
        assert threads("nri-http") < 4 * (MAX_CONCURRENT_REQUESTS + MAX_STREAMS)


def test_stream_clients_that_do_not_read_delay_no_event_and_block_no_request(node: Inspected, web: Web) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(2 * MAX_STREAMS):
            stack.enter_context(connected(port_of(web))).sendall(request(web, "/api/follow?after=0"))
        with node.busy(1e6, 2000) as finished:
            wait_for(lambda: finished() == 2000, "all events continue")
        assert answer(web, "/api/events").startswith(b"HTTP/1.1 200")


def test_endless_lines_and_requests_are_cut_off(web: Web) -> None:
    for endless in (b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000):
        with connected(port_of(web)) as sock, contextlib.suppress(ConnectionError):
            sock.sendall(endless)
            assert sock.makefile("rb").read() == b""
    assert answer(web, "/api/containers").startswith(b"HTTP/1.1 200")


def test_responses_are_json_without_unescaped_tags_or_line_ends(web: Web) -> None:
    wait_for(lambda: b"onerror" in answer(web, "/api/events"), "the attack is seen")
    for path in ("/api/events", "/api/containers", "/api/view?name=agent", "/api/view?name=placement"):
        head, _, body = answer(web, path).partition(b"\r\n\r\n")
        assert b"Content-Type: application/json" in head and b"nosniff" in head, path
        assert ATTACK.encode() not in head and json.loads(body) is not None, path


def test_the_admin_socket_limits_the_threads_of_a_thousand_connections(node: Inspected) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            with contextlib.suppress(OSError):
                sock.connect(node.admin)
                sock.sendall(b"\0\0")  # a frame that never ends
        assert threads("ttrpc-connection") < 100
        node.work()

    def answers() -> bool:
        try:
            return bool(ask(node.admin, "Plugins", {})["plugins"])
        except NriError:
            return False

    wait_for(answers, "it answers again")


def test_an_event_reader_that_pauses_delays_no_event_and_learns_the_missed_count(node: Inspected) -> None:
    readings = follow(node.admin, {})
    next(readings)
    with node.busy(1e6, 8_000) as finished:
        wait_for(lambda: finished() == 8_000, "all events continue")
    calls = missed = 0
    while calls + missed < 8_000:
        reading = next(readings)
        missed += reading["missed"]
        calls += sum(row.get("container") == "busy" for row in reading["rows"])
    assert calls >= 4096 and missed > 0
    readings.close()


@pytest.mark.parametrize("where", ["unix", "tcp"])
def test_clients_that_occupy_a_programs_probes_do_not_block_the_kubelet(tmp_path: Path, where: str) -> None:
    handlers = probes(lambda: (True, "ok\n")) | {"/explain": lambda _: text_answer("x" * 5_000_000)}
    path = str(tmp_path / "agent.sock")
    server = Server(handlers, path=path, public=handlers, address="127.0.0.1:0", deadline_s=300.0)

    def reached() -> socket.socket:
        if where == "tcp":
            return connected(server.port)
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)  # waits for a place in the queue, which it would not with a timeout
        sock.settimeout(30)
        return sock

    requests = (b"", b"GET /healthz", b"GET /explain HTTP/1.1\r\n\r\n")
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        for number in range(CLIENTS):
            sock = stack.enter_context(reached())
            with contextlib.suppress(OSError):
                sock.sendall(requests[number % len(requests)])
        for _ in range(10):
            with reached() as sock:
                sock.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
                assert sock.makefile("rb").read().endswith(b"ok\n")
        assert (
            threads("nri-http") < 4 * MAX_CONCURRENT_REQUESTS and len(os.listdir("/proc/self/fd")) < 2 * CLIENTS + 200
        )
