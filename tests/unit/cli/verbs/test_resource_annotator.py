"""`nri resource-annotator` as a program: settings, messages, limits and end."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pytest

from nri.cli.main import main
from nri.plugins.resource_annotator.webhook import MAX_REQUESTS
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import command, environment
from tests.unit.plugins.resource_annotator.test_webhook import REVIEW, certify


def test_settings_of_the_environment_are_used_until_a_signal(folder: Path) -> None:
    certify(folder)
    settings = {"PORT": "0", "CERT_FILE": str(folder / "tls.crt"), "KEY_FILE": str(folder / "tls.key")}
    variables = {f"RESOURCE_ANNOTATOR_{name}": value for name, value in settings.items()}
    with subprocess.Popen(
        command("resource-annotator"), env=environment(**variables), stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        try:
            assert "ready: port " in program.stderr.readline()
            program.send_signal(signal.SIGTERM)
            assert program.wait(30) == 0
        finally:
            program.kill()


def test_a_valid_certificate_is_accepted_on_a_machine_with_only_tls_1_2(folder: Path) -> None:
    certify(folder)
    limit = folder / "openssl.cnf"
    limit.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.2\n")
    words = ["--port", "0", "--cert-file", str(folder / "tls.crt"), "--key-file", str(folder / "tls.key")]
    with subprocess.Popen(
        command("resource-annotator", *words),
        env=environment(OPENSSL_CONF=str(limit)),
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        try:
            line = program.stderr.readline()
            assert "ready: port " in line, line
            port = int(line.rpartition("ready: port ")[2].split()[0].rstrip(";,."))
            context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
            with (
                socket.create_connection(("localhost", port), 20) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secured,
            ):
                assert secured.version() == "TLSv1.2"
        finally:
            program.kill()


@pytest.fixture
def annotator(folder: Path) -> Iterator[tuple[int, Callable[[], HTTPSConnection]]]:
    """A running program: its process, and what opens a connection to it."""
    certify(folder)
    words = ["--port", "0", "--cert-file", str(folder / "tls.crt"), "--key-file", str(folder / "tls.key")]
    with subprocess.Popen(
        command("resource-annotator", *words), env=environment(), stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        try:
            port = int(program.stderr.readline().rpartition("ready: port ")[2])
            context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
            yield program.pid, lambda: HTTPSConnection("localhost", port, context=context, timeout=60)
        finally:
            program.kill()


def review(connection: HTTPSConnection, body: bytes) -> int:
    """Send a review; return the status of the answer."""
    with closing(connection):
        connection.request("POST", "/", body, {"Content-Type": "application/json"})
        return connection.getresponse().status


def test_a_review_is_answered_during_a_thousand_silent_connections(
    annotator: tuple[int, Callable[[], HTTPSConnection]],
) -> None:
    pid, connect = annotator
    port = connect().port
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("localhost", port), 20))
        assert [review(connect(), REVIEW.encode()) for _ in range(5)] == [200] * 5
        assert len(os.listdir(f"/proc/{pid}/task")) < 10, "a silent connection has no thread"


def test_stalled_connections_use_bounded_threads_and_delay_no_review(
    annotator: tuple[int, Callable[[], HTTPSConnection]],
) -> None:
    pid, connect = annotator
    with ExitStack() as stack:
        for _ in range(10 * MAX_REQUESTS):
            stack.enter_context(socket.create_connection(("localhost", connect().port), 20)).sendall(b"\x16")
        assert review(connect(), REVIEW.encode()) == 200
        assert len(os.listdir(f"/proc/{pid}/task")) < MAX_REQUESTS + 10


#: Reviews of 8 MiB whose parts cost most memory when they are decoded.
BOMBS = {
    "lists": b"[" + b"[]," * 2_790_000 + b"[]]",
    "keys": b"{" + b",".join(b'"%x":[]' % number for number in range(700_000)) + b"}",
    "containers": REVIEW.encode().replace(b'{"name": "app"}', b"{}," * 2_780_000 + b"{}"),
    "texts": REVIEW.encode().replace(b'{"name": "app"}', '{"name": "\U0001f600'.encode() + b"x" * 8_000_000 + b'"}'),
    "quotes": b'{"request": "' + b'\\"' * 4_000_000,
    "depth": b"[" * 8_000_000,
}


def test_a_hostile_review_uses_less_than_half_of_the_memory_limit(
    annotator: tuple[int, Callable[[], HTTPSConnection]],
) -> None:
    pid, connect = annotator
    peaks = {}
    for name, body in BOMBS.items():
        assert review(connect(), body) in (200, 400)
        peaks[name] = peak_mib(pid)
    assert max(peaks.values()) < 128, peaks


FLOODS = {
    "long": REVIEW.encode().replace(b'{"name": "app"}', b'{"name": "' + b"x" * 8_000_000 + b'"}'),
    "costly": REVIEW.encode().replace(b'{"name": "app"}', b",".join(b'{"name": "%d"}' % i for i in range(50_000))),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_does_not_block_reviews_of_another_address(
    annotator: tuple[int, Callable[[], HTTPSConnection]], kind: str
) -> None:
    pid, connect = annotator
    end = threading.Event()

    def flood() -> None:
        while not end.is_set():
            with suppress(OSError, HTTPException):
                review(connect(), FLOODS[kind])

    threads = [threading.Thread(target=flood) for _ in range(40)]
    for thread in threads:
        thread.start()
    statuses = []
    try:
        for _ in range(15):
            connection = connect()
            connection.source_address = ("127.0.0.2", 0)
            statuses.append(review(connection, REVIEW.encode()))
            time.sleep(0.1)
    finally:
        end.set()
        for thread in threads:
            thread.join(60)
    assert statuses == [200] * 15
    assert peak_mib(pid) < 192
    wait_for(lambda: len(os.listdir(f"/proc/{pid}/task")) < 5, "the end of all threads")


def peak_mib(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM"))


def test_a_missing_certificate_is_an_error_with_its_file(nri, folder: Path) -> None:
    result = nri("resource-annotator", "--cert-file", str(folder / "none"), "--key-file", os.devnull)
    assert result.returncode == 2 and f"--cert-file: {folder / 'none'} cannot be read: No such" in result.stderr


def test_without_its_package_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    for module in ("admission", "webhook"):
        monkeypatch.delitem(sys.modules, f"nri.plugins.resource_annotator.{module}", raising=False)
    with pytest.raises(SystemExit) as exit_:
        main(["resource-annotator"])
    assert exit_.value.code == 1
    assert "nri resource-annotator requires msgspec" in capsys.readouterr().err
