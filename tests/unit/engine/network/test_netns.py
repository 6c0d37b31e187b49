"""Pinned network namespaces, without root. tests/engine has real namespaces."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from nri.engine.network import netns
from nri.engine.network.netns import NetworkNamespaces
from nri.engine.support.errors import EngineError, InvalidRequest

SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_a_failed_creation_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "unshare", refuse)
    network_namespaces = NetworkNamespaces(tmp_path / "netns")
    with pytest.raises(EngineError, match=r"cannot create the network namespace .*/p1: .*not permitted"):
        network_namespaces.create("p1")
    assert network_namespaces.names() == []


def test_a_namespace_is_created_by_a_thread_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(netns, "unshare", lambda _: threads.append(threading.current_thread()))
    requests: list[tuple[int, bytes]] = []

    def ioctl(_: object, code: int, row: bytes) -> bytes:
        requests.append((code, row))
        return row

    monkeypatch.setattr(netns.fcntl, "ioctl", ioctl)
    monkeypatch.setattr(netns, "mount", lambda *_, **__: None)
    network_namespaces = NetworkNamespaces(tmp_path / "netns")
    assert network_namespaces.create("p1") == tmp_path / "netns/p1"
    (thread,) = threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()
    with pytest.raises(EngineError, match=r"the network namespace .* already exists"):
        network_namespaces.create("p1")
    assert network_namespaces.names() == ["p1"]
    assert not network_namespaces.exists("p1"), "its file alone is not a namespace"
    lo = b"lo".ljust(16, b"\0")
    assert requests == [(SIOCGIFFLAGS, lo + bytes(16)), (SIOCSIFFLAGS, lo + b"\1\0" + bytes(14))], "its loopback is up"


def test_removing_a_missing_namespace_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "unmount", lambda *_, **__: False)
    network_namespaces = NetworkNamespaces(tmp_path / "netns")
    network_namespaces.remove("p1")
    (network_namespaces.root / "p2").touch()
    network_namespaces.remove("p2")
    assert network_namespaces.names() == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "x" * 200])
def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    network_namespaces = NetworkNamespaces(tmp_path / "netns")
    for call in (network_namespaces.create, network_namespaces.remove, network_namespaces.exists):
        with pytest.raises(InvalidRequest):
            call(name)
