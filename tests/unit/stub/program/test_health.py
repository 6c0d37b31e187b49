"""Readiness over HTTP, and systemd's notification."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri
from nri.stub.program.health import HealthServer, notify

READY = [False]


@pytest.fixture
def server() -> Iterator[HealthServer]:
    made = HealthServer("127.0.0.1:0", lambda: READY[0])
    yield made
    made.close()


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_healthz_says_that_the_process_lives_and_readyz_whether_it_takes_part(server: HealthServer) -> None:
    READY[0] = False
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz") == (503, "not synchronized with a runtime\n")
    READY[0] = True
    assert get(server, "/readyz") == (200, "ready\n")
    assert get(server, "/") == (404, "see /healthz and /readyz\n")


def test_an_address_that_is_taken_is_a_configuration_error(server: HealthServer) -> None:
    with pytest.raises(nri.ConfigError, match="--health-addr: cannot listen on"):
        HealthServer(f"127.0.0.1:{server.port}", lambda: True)


def test_systemd_is_told_over_its_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.bind(str(tmp_path / "notify"))
        theirs.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert theirs.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "not-a-path", "/nonexistent/notify"])
def test_no_systemd_is_no_trouble(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("READY=1")
