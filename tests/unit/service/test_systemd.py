"""systemd's notification."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nri.service.systemd import notify


def test_systemd_is_notified_over_its_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert receiver.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "not-a-path", "/nonexistent/notify"])
def test_without_systemd_no_notification_is_sent_or_error_raised(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind("not-a-path")
        other.setblocking(False)
        notify("READY=1")
        with pytest.raises(BlockingIOError):
            other.recv(100)
