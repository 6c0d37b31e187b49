"""The lock of a registration."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from nri.agent.transports.registration import Registration, TakenError


def test_a_second_registration_with_the_same_name_and_socket_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    with Registration(path, "00-a"), Registration(path, "00-b"), Registration(str(tmp_path / "x/nri.sock"), "00-a"):
        with pytest.raises(TakenError, match=r"this process has already registered plugin 00-a at "):
            Registration(path, "00-a").__enter__()
        assert (tmp_path / ".00-a.lock").read_text() == f"{os.getpid()}\n"
    with Registration(path, "00-a"):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".00-a.lock").symlink_to(tmp_path / "precious")
    with Registration(str(tmp_path / "nri.sock"), "00-a"):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_no_file_descriptor_stays_open(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    path = str(tmp_path / "nri.sock")
    with Registration(path, "00-a"), pytest.raises(TakenError):
        Registration(path, "00-a").__enter__()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_file_system_without_locks_refuses_no_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Registration(str(tmp_path / "nri.sock"), "00-agent"):
        pass
