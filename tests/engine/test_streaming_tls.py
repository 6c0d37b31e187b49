"""Exec and port forwarding over TLS: client-go and `nri pod` as clients of a real container."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import StreamingConfig
from nri.errors import ConfigError
from tests.engine.live import Live
from tests.engine.machine import Machine
from tests.engine.test_streaming import OVER, Client, talk
from tests.support.http_server import make_certificate

SERVER = "while true; do echo hello | busybox nc -l -p 8080; done"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path, address="127.0.0.1")


@pytest.fixture
def live(machine: Machine, certificate: Path) -> Iterator[Live]:
    streaming = StreamingConfig(tls_certificate=str(certificate), tls_key=str(certificate), tls_min_version="1.3")
    with Live(machine, streaming=streaming) as live_:
        yield live_


def connect(url: str, **options: object) -> str:
    """Connect with TLS, and return its version. `options` are attributes of the client's context."""
    address = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in options.items():
        setattr(context, name, value)
    with (
        socket.create_connection((address.hostname, address.port), 20) as plain,
        context.wrap_socket(plain) as connection,
    ):
        return str(connection.version())


def test_programs_and_ports_are_reached_over_tls_by_client_go(live: Live, certificate: Path) -> None:
    container = live.run(live.pod("p", network=pb.POD), "c", ["sh", "-c", SERVER])
    text = "0123456789abcdef" * 4096
    with Client(SSL_CERT_FILE=str(certificate)) as client:
        for over in OVER:
            url = live.cri.call("Exec", container_id=container, cmd=["cat"], stdin=True, stdout=True).url
            assert url.startswith("https://127.0.0.1:")
            session = client.begin("run", url, over, stdin=True, stdout=True)
            session.tell("type", text=text, repeat=64)
            session.tell("end_input")
            ended = session.end()
            assert ended["ok"], ended
            assert ended["stdout"]["sha256"] == hashlib.sha256(text.encode() * 64).hexdigest()
        url = live.cri.call("PortForward", pod_sandbox_id=live.engine.inventory.pods()[0].id).url
        forward = client.begin("forward", url, "spdy", ports=["0:8080"])
        assert talk(forward.ports()[0], b"") == b"hello\n"
        forward.tell("leave")
        forward.end()


def test_old_protocols_and_plain_http_are_refused(live: Live) -> None:
    url = live.daemon.streaming.url
    assert connect(url) == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        connect(url, maximum_version=ssl.TLSVersion.TLSv1_2)
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), 20) as plain:
        plain.sendall(b"GET /exec/x HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(1000)


def test_clients_that_reset_their_connections_do_not_delay_others(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    address, reset = urlsplit(live.daemon.streaming.url), struct.pack("ii", 1, 0)
    for _ in range(100):
        with socket.create_connection((address.hostname, address.port), 20) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            connection.sendall(b"x")
    assert connect(live.daemon.streaming.url) == "TLSv1.3"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING], "each was a pause of 50 ms"


def test_nri_pod_trusts_a_named_ca_only(live: Live, certificate: Path) -> None:
    live.run(live.pod("p"), "c")
    argv = [
        sys.executable,
        "-m",
        "nri",
        "pod",
        "exec",
        "--cri-socket",
        str(live.config.socket),
        "-n",
        "tests",
        "p",
        "echo",
        "hi",
    ]
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1 and "its certificate is not trusted" in refused.stderr
    assert "SSL_CERT_FILE" in refused.stderr
    environment = {**os.environ, "SSL_CERT_FILE": str(certificate)}
    trusted = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (trusted.returncode, trusted.stdout) == (0, "hi\n"), trusted.stderr


def test_a_replaced_certificate_counts_and_clients_may_need_one(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    old, new = make_certificate(tmp_path), make_certificate(tmp_path / "new", "node-2")
    paths = {"tls_certificate": str(old), "tls_key": str(old), "tls_client_ca": str(new)}
    with Live(machine, streaming=StreamingConfig(**paths)) as live:  # type: ignore[arg-type]
        address = urlsplit(live.daemon.streaming.url)
        endpoint = (str(address.hostname), int(address.port or 0))
        assert ssl.get_server_certificate(endpoint) in old.read_text()
        old.write_text(new.read_text())
        assert ssl.get_server_certificate(endpoint) in new.read_text()
        url = live.cri.call("Exec", container_id=live.run(live.pod("p"), "c"), cmd=["true"], stdout=True).url
        assert answer(url, None) == b""
        assert answer(url, new).startswith(b"HTTP/1.1 400"), "a client with a certificate is heard"


def answer(url: str, certificate: Path | None) -> bytes:
    """The beginning of the server's answer to a client with this certificate."""
    address = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    with socket.create_connection((address.hostname, address.port), 20) as plain:
        try:
            with context.wrap_socket(plain) as connection:
                connection.sendall(f"GET {address.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                return connection.recv(1000)
        except OSError:
            return b""


def test_an_invalid_certificate_is_named_with_its_key(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "none.pem").touch()
    streaming = StreamingConfig(tls_certificate=str(tmp_path / "none.pem"), tls_key="/none")
    with pytest.raises(
        ConfigError, match=r"streaming.tls_certificate: .*none.pem does not contain a certificate in PEM"
    ):
        with Live(machine, streaming=streaming):
            pass
