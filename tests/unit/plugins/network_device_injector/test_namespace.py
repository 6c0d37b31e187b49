"""A separate thread enters another network namespace; all other threads stay."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from nri.plugins.network_device_injector.namespace import OWN, enter, same
from tests.support.networks import CLONE_NEWNET, in_own_network, pod_network


@in_own_network
def test_the_function_runs_in_the_namespace_and_the_caller_stays() -> None:
    before = os.readlink(OWN)
    with pod_network() as pod:
        assert enter(pod.path, lambda: os.readlink(OWN)) == os.readlink(pod.path) != before
        assert os.readlink(OWN) == before
        assert not same(pod.path, OWN)
    assert same(OWN, OWN)


def test_a_file_that_is_not_a_network_namespace_is_an_error(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        enter(f"{tmp_path}/file", lambda: None)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        enter(f"{tmp_path}/pipe", lambda: None)
    with pytest.raises(FileNotFoundError):
        enter(f"{tmp_path}/none", lambda: None)


@in_own_network
def test_an_error_in_the_namespace_reaches_the_caller() -> None:
    def fail() -> None:
        raise OSError(5, "input/output error")

    with pod_network() as pod, pytest.raises(OSError, match="input/output"):
        enter(pod.path, fail)


def test_pythons_setns_is_used_if_it_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[tuple[bool, int]] = []

    def setns(descriptor: int, kind: int) -> None:
        entered.append((os.path.samestat(os.fstat(descriptor), os.stat(OWN)), kind))

    monkeypatch.setattr(os, "setns", setns, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", None)
    assert enter(OWN, lambda: "done") == "done"
    assert entered == [(True, CLONE_NEWNET)]


def test_without_pythons_setns_the_c_librarys_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[tuple[bool, int]] = []

    class Library:
        """The C library, whose call succeeds."""

        def setns(self, descriptor: int, kind: int) -> int:
            entered.append((os.path.samestat(os.fstat(descriptor), os.stat(OWN)), kind))
            return 0

    monkeypatch.delattr(os, "setns", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_options: Library())
    assert enter(OWN, lambda: "done") == "done"
    assert entered == [(True, CLONE_NEWNET)]


def test_without_pythons_setns_an_error_has_the_kernels_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "setns", raising=False)
    (tmp_path / "file").touch()
    process: list[bool] = []
    with pytest.raises(OSError, match="Invalid argument") as raised:
        enter(f"{tmp_path}/file", lambda: process.append(True))
    assert (raised.value.errno, process) == (errno.EINVAL, [])


@in_own_network
def test_an_unexpected_error_reaches_the_caller() -> None:
    def broken() -> None:
        raise LookupError("no such device")

    with pod_network() as pod, pytest.raises(LookupError, match="no such device"):
        enter(pod.path, broken)
