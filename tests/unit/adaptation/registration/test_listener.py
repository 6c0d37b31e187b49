"""The listening socket: an error in the runtime costs at most one connection."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nri.adaptation.audit.reporting import Reporting
from nri.adaptation.registration.listener import Listener
from nri.testing import FakeRuntime
from nri.ttrpc import Endpoint, Monitor
from tests.support.adapting import PATIENCE_S, register
from tests.support.made_plugins import Mode, both
from tests.support.waiting import wait_for


def full(*_: object) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def is_closed(sock: socket.socket) -> bool:
    sock.settimeout(PATIENCE_S)
    return sock.recv(1) == b""


def test_a_new_socket_folder_is_accessible_to_allowed_users(tmp_path: Path) -> None:
    for users, mode in (((), 0o700), ((4711,), 0o711)):
        folder = tmp_path / f"{mode:o}"
        with FakeRuntime(socket_path=str(folder / "nri.sock"), allowed_uids=users):
            assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_start_that_fails_halfway_can_be_stopped_and_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry: Any = None
    listener = Listener(str(tmp_path / "nri.sock"), registry, (), 5.0, Reporting())
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe2", full)
        with pytest.raises(OSError, match="Too many open files"):
            listener.start()
    listener.stop()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_connection_that_cannot_be_watched_is_closed_and_the_next_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "nri.sock")
    add, failures = Monitor.add, [1]

    def watch(monitor: Monitor, endpoint: Endpoint) -> None:
        if failures:
            failures.pop()
            full()
        add(monitor, endpoint)

    monkeypatch.setattr(Monitor, "add", watch)
    with FakeRuntime(socket_path=path, registration_timeout_s=100.0) as runtime:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            assert is_closed(sock)
        wait_for(lambda: runtime.plugins == [], "it is forgotten")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(path)
            sock.sendall(register("raw"))
            assert sock.recv(1), "the next one is not watched"
    assert not failures


def test_a_connection_after_the_stop_is_closed() -> None:
    with FakeRuntime() as runtime:
        pass
    local, remote = socket.socketpair()
    runtime.adaptation.connect(remote)
    assert is_closed(local)
    local.close()


@both
def test_live_socket_kept(mode: Mode, tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path):
        first = os.stat(path)
        if mode == "default":
            with pytest.raises(OSError, match="in use: another process listens there"):
                FakeRuntime(socket_path=path, compat=mode)
            assert os.path.samestat(os.stat(path), first)
        else:
            with FakeRuntime(socket_path=path, compat=mode):
                assert not os.path.samestat(os.stat(path), first)


def crowd(monkeypatch: pytest.MonkeyPatch, places: int) -> None:
    monkeypatch.setattr("nri.adaptation.registration.listener.MAX_UNSETTLED", places)


def test_of_too_many_connections_the_oldest_silent_one_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(monkeypatch, 2)
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path), ExitStack() as stack:
        socks = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        for sock in socks:
            sock.connect(path)
        assert is_closed(socks[0])
        for sock in socks[1:]:
            sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                sock.recv(1)


def test_a_connection_is_refused_if_all_others_are_joining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd(monkeypatch, 1)
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path), ExitStack() as stack:
        joining, late = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        joining.settimeout(PATIENCE_S)
        joining.connect(path)
        joining.sendall(register("raw"))
        assert joining.recv(1), "it is not configured"
        late.connect(path)
        assert is_closed(late)
    assert "refused a plugin's connection: 1 other plugins are joining" in caplog.text


def test_a_user_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "nri.sock")
    monkeypatch.setattr(
        "nri.adaptation.registration.listener.credentials", lambda sock: SimpleNamespace(pid=5, uid=4711, gid=0)
    )
    with FakeRuntime(socket_path=path) as runtime, socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        assert is_closed(sock)
        assert runtime.plugins == []
    assert "refused a plugin's connection: user 4711 (process 5) is not in allowed_uids" in caplog.text


def test_without_free_descriptors_a_connection_is_accepted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "nri.sock")
    accept, failures = socket.socket.accept, [BlockingIOError(), OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

    def scarce(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    with FakeRuntime(socket_path=path), socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect(path)
        sock.sendall(register("raw"))
        assert sock.recv(1)
    assert failures == []
    assert "cannot accept a plugin's connection: Too many open files" in caplog.text


def test_an_unexpected_error_of_one_connection_does_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, errors = Monitor.add, [LookupError("no such zone")]

    def watch(monitor: Monitor, endpoint: Endpoint) -> None:
        if errors:
            raise errors.pop()
        add(monitor, endpoint)

    monkeypatch.setattr(Monitor, "add", watch)
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path, registration_timeout_s=100.0):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            wait_for(lambda: not errors)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(path)
            sock.sendall(register("raw"))
            assert sock.recv(1), "the next one is not served"
