"""Requests to a runtime's admin socket: errors have the next step."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.adaptation.admin_client import AdminClient
from nri.errors import NriError, ProgramUnreachable, RuntimeUnavailable
from nri.testing import FakeRuntime
from nri.trace.live_events import live_events
from nri.ttrpc import Server, Service


def test_a_forbidden_socket_is_an_error_that_mentions_only_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str, *_: object) -> None:
        raise RuntimeUnavailable(path, "Permission denied")

    monkeypatch.setattr("nri.adaptation.admin.ask", closed)
    with pytest.raises(ProgramUnreachable) as caught:
        AdminClient("/run/admin.sock").ask("Plugins", {})
    assert str(caught.value) == "cannot connect to /run/admin.sock: permission denied. Run this command as root"


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="nri-admin-", dir="/tmp") as folder:
        yield f"{folder}/admin.sock"


def reason(path: str) -> tuple[str, type[Exception]]:
    with pytest.raises(NriError) as caught:
        AdminClient(path, 0.2).ask("Why", {"container": "c1"})
    return str(caught.value), caught.type


def test_a_silent_or_foreign_socket_is_an_error_with_the_option(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        messages, kind = reason(path)
        assert messages.startswith(f"{path} did not answer") and kind is ProgramUnreachable
    with Server(path, [Service("other", {})]):
        messages, kind = reason(path)
        assert "is not an admin socket" in messages and "--admin-socket" in messages and kind is ProgramUnreachable


def test_a_stopped_runtime_and_a_missing_socket_have_different_errors(path: str) -> None:
    messages, kind = reason(path)
    has = "an admin socket exists only in a runtime that is built on nri and sets admin_socket; choose another socket"
    assert (
        messages == f"cannot connect to {path}: No such file or directory; {has} with --admin-socket"
        and kind is ProgramUnreachable
    )
    with socket.socket(socket.AF_UNIX) as remainder:
        remainder.bind(path)
    messages, kind = reason(path)
    Path(f"{path}.txt").touch()
    refused = ": Connection refused: not a socket; choose another socket with --admin-socket"
    assert reason(f"{path}.txt")[0].endswith(refused)
    ended = "Connection refused: no process listens on the socket; start the runtime, or choose another socket with"
    assert messages == f"cannot connect to {path}: {ended} --admin-socket" and kind is ProgramUnreachable


def test_a_container_without_a_history_is_an_error_with_the_command_that_lists_containers(path: str) -> None:
    with FakeRuntime(admin_socket=path):
        messages, kind = reason(path)
        assert messages.endswith("try: nri pod ps") and kind is NriError


def test_live_events_are_read_from_the_socket_and_report_a_failed_connection(path: str) -> None:
    with pytest.raises(ProgramUnreachable, match="cannot connect to"), live_events(AdminClient(path)):
        pass
    with FakeRuntime(admin_socket=path), live_events(AdminClient(path)) as looking:
        assert looking.summary()["events"] == 0
