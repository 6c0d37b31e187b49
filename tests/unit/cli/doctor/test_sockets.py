"""Checks of the socket itself."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nri.cli.doctor import Finding, sockets
from tests.support.needs import need_root
from tests.unit.cli.conftest import lines


def probe(root: Path | str, path: str = "/nri.sock") -> list[str]:
    findings: list[Finding] = []
    sockets.check(str(root), path, findings)
    return lines(findings)


def this_process() -> str:
    return f"{Path('/proc/self/comm').read_text().strip()} (process {os.getpid()})"


def test_the_listening_process_is_named_without_a_connection(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        listener.settimeout(0.2)
        (folder / "nri.sock").chmod(0o600)
        assert probe(folder) == [f"ok: /nri.sock: {this_process()} listens"]
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_socket_open_to_all_users_is_a_problem(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        (folder / "nri.sock").chmod(0o666)
        assert any("any user may connect (mode 0666)" in line for line in probe(folder))


def test_a_stale_socket_is_a_problem(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
    (folder / "nri.sock").chmod(0o600)
    assert probe(folder) == ["problem: /nri.sock: no process listens: connection refused"]


def test_a_missing_socket_and_a_regular_file_in_its_place_are_problems(folder: Path) -> None:
    assert probe(folder) == ["problem: /nri.sock: the socket does not exist"]
    (folder / "nri.sock").touch()
    assert probe(folder) == ["problem: /nri.sock: not a socket"]
    findings: list[Finding] = []
    sockets.check(str(folder), "/nri.sock", findings)
    assert findings[0].next.startswith("specify the runtime's socket with --socket-path"), "the path may be a mistake"


def test_a_socket_without_access_is_reported_to_other_users(folder: Path) -> None:
    """In a child process, because only a process can change its user."""
    need_root()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        (folder / "nri.sock").chmod(0o600)
        folder.chmod(0o755)
        child = os.fork()
        if not child:
            os.setuid(65534)
            os._exit(0 if "problem: /nri.sock: this user may not connect: permission denied" in probe(folder) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def listening(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "nri.sock"))
    listener.listen()
    (folder / "nri.sock").chmod(0o600)
    return listener


def test_a_socket_of_another_network_namespace_is_checked_by_connecting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(folder) as listener:
        monkeypatch.setattr(sockets, "listening_inode", lambda path: "")
        assert probe(folder) == [f"ok: /nri.sock: {this_process()} listens"]
        listener.settimeout(5)
        listener.accept()[0].close()


def test_without_the_kernels_list_of_sockets_no_inode_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError

    with listening(folder):
        assert sockets.listening_inode(str(folder / "nri.sock"))
        monkeypatch.setattr("builtins.open", closed)
        assert not sockets.listening_inode(str(folder / "nri.sock"))


def test_a_hidden_process_is_not_called_a_runtime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets.process, "has_socket", lambda *_: False)
    with listening(folder):
        assert probe(folder) == ["ok: /nri.sock: a process outside this namespace listens"]


def test_of_several_listeners_with_one_path_the_reachable_one_is_named(folder: Path) -> None:
    with listening(folder) as first:
        os.unlink(folder / "nri.sock")
        with listening(folder) as second:
            assert not sockets.listening_inode(str(folder / "nri.sock"))
            assert probe(folder) == [f"ok: /nri.sock: {this_process()} listens"]
            second.settimeout(5)
            second.accept()[0].close()
            first.settimeout(0)
            with pytest.raises(BlockingIOError):
                first.accept()


def test_a_group_that_can_connect_is_a_warning(folder: Path) -> None:
    need_root()
    with listening(folder):
        os.chown(folder / "nri.sock", 0, 4711)
        (folder / "nri.sock").chmod(0o660)
        assert any("group 4711 may connect (mode 0660)" in line for line in probe(folder))


@pytest.mark.parametrize("allowed", [True, False])
def test_a_socket_without_access_is_a_problem(folder: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    with listening(folder):
        monkeypatch.setattr(os, "access", lambda path, mode: allowed)
        assert any("this user may not connect" in line for line in probe(folder)) is not allowed


def test_a_folder_without_access_is_a_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str) -> os.stat_result:
        raise PermissionError

    monkeypatch.setattr(sockets.os, "stat", closed)
    findings: list[Finding] = []
    sockets.check("/", "/nri.sock", findings)
    monkeypatch.undo()
    assert [row.what for row in findings] == ["permission denied on the socket's folder"]
