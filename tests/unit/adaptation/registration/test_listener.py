"""The listening socket: what goes wrong on the runtime's side costs one connection at most."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.audit.reporting import Reporting
from nri.adaptation.registration.listener import Listener
from nri.testing import FakeRuntime
from nri.ttrpc import Endpoint, Monitor
from tests.support.adapting import PATIENCE_S


def full(*_: object) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def is_closed(sock: socket.socket) -> bool:
    sock.settimeout(PATIENCE_S)
    return sock.recv(1) == b""


def test_users_who_are_allowed_can_reach_the_socket_in_a_folder_that_is_made(tmp_path: Path) -> None:
    for users, mode in (((), 0o700), ((4711,), 0o711)):
        folder = tmp_path / f"{mode:o}"
        with FakeRuntime(socket_path=str(folder / "nri.sock"), allowed_uids=users):
            assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_start_that_fails_half_way_can_be_stopped_and_leaves_no_descriptor(
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
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_connection_that_cannot_be_watched_is_closed_and_the_next_one_is_taken(
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
    with FakeRuntime(socket_path=path, registration_timeout_s=0.5):
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                assert is_closed(sock)  # the second one because it does not register
    assert not failures


def test_a_connection_after_the_end_is_closed() -> None:
    with FakeRuntime() as runtime:
        pass
    ours, theirs = socket.socketpair()
    runtime.adaptation.connect(theirs)
    assert is_closed(ours)
    ours.close()
