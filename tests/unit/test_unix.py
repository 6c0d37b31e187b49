"""Listening unix sockets: modes, replacement and removal."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from nri import unix
from nri.unix import UnixListener, credentials, make_folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


@pytest.fixture
def no_umask():
    """Nothing is taken off a mode by the umask, so that only the code decides."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def leave_dead(path: str, kind: int = socket.SOCK_STREAM) -> None:
    """Leave a socket behind, as a killed process does."""
    with socket.socket(socket.AF_UNIX, kind) as sock:
        sock.bind(path)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
@pytest.mark.parametrize("umask", [0, 0o077])
def test_the_mode_of_the_socket_does_not_depend_on_the_umask(path: str, mode: int, umask: int) -> None:
    before = os.umask(umask)
    try:
        listener = UnixListener(path, mode=mode)
    finally:
        os.umask(before)
    assert mode_of(path) == mode
    listener.close()


def test_the_socket_is_private_until_it_gets_its_mode(
    path: str, no_umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(os, "chmod", lambda path, _: calls.append(mode_of(path)))
    UnixListener(path, mode=0o666).close()
    assert calls == [0o600]


def test_a_new_folder_gets_the_mode_and_an_existing_folder_keeps_its_mode(tmp_path: Path, no_umask: None) -> None:
    path = tmp_path / "a" / "b" / "s.sock"
    make_folder(str(path), 0o711)
    assert mode_of(path.parent) == 0o711
    make_folder(str(path), 0o700)
    assert mode_of(path.parent) == 0o711


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_the_modes_of_folders_do_not_depend_on_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    """With umask 0, `os.makedirs` would create parent folders that every user can write to."""
    path = tmp_path / "a" / "b" / "c" / "s.sock"
    before = os.umask(umask)
    try:
        make_folder(str(path), mode)
    finally:
        os.umask(before)
    assert [mode_of(folder) for folder in (path.parent, *path.parents[1:3])] == [mode, 0o755, 0o755]


def test_a_folder_that_cannot_be_created_is_named_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, mode: int, *, dir_fd: int) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    monkeypatch.setattr(os, "mkdir", refuse)  # root may make any folder
    with pytest.raises(PermissionError) as caught:
        make_folder(str(tmp_path / "nri" / "plugins" / "s.sock"), 0o755)
    assert caught.value.filename == str(tmp_path / "nri")


def test_a_link_instead_of_a_new_folder_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    mkdir = os.mkdir

    def late(name: str, mode: int, *, dir_fd: int) -> None:
        (tmp_path / "a").symlink_to("elsewhere")
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", late)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        make_folder(str(tmp_path / "a" / "s.sock"), 0o711)
    assert mode_of(tmp_path / "elsewhere") == 0o700


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_the_socket_of_a_dead_process_is_replaced(path: str, kind: int) -> None:
    leave_dead(path, kind)
    listener = UnixListener(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        assert client.getpeername() == path
    listener.close()


@pytest.mark.parametrize("full", [False, True])
def test_a_socket_with_a_listening_process_is_kept(path: str, full: bool) -> None:
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.bind(path)
        other.listen(0 if full else 8)
        if full:
            waiting.connect(path)
        before = descriptors()
        with pytest.raises(OSError, match="in use: another process listens there") as caught:
            UnixListener(path)
        assert caught.value.errno == errno.EADDRINUSE
        assert descriptors() == before
        if not full:
            waiting.connect(path)
        other.accept()[0].close()


def test_an_open_datagram_socket_is_kept(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(OSError, match="in use: another process"):
            UnixListener(path)
    assert os.path.exists(path)


def test_a_live_socket_can_be_replaced_and_its_former_owner_does_not_remove_it(path: str) -> None:
    first = UnixListener(path)
    second = UnixListener(path, replace_live=True)
    first.close()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    second.close()
    assert not os.path.exists(path)


def test_a_file_that_is_not_a_socket_is_kept(path: str) -> None:
    Path(path).write_text("precious")
    with pytest.raises(OSError, match="is in use, and is not a socket") as caught:
        UnixListener(path, replace_live=True)
    assert caught.value.errno == errno.EADDRINUSE
    assert Path(path).read_text() == "precious"


def test_a_path_that_is_too_long_is_an_error_with_the_path(tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * 120))
    with pytest.raises(
        OSError, match=f"{path}: AF_UNIX path too long; a socket's path has at most 107 bytes"
    ) as caught:
        UnixListener(path)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_a_missing_folder_is_an_error_and_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        UnixListener(str(tmp_path / "none" / "s.sock"))
    assert descriptors() == before


def test_a_start_that_fails_after_creating_the_socket_removes_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "chmod", fail)
    with pytest.raises(PermissionError):
        UnixListener(path)
    assert not os.path.exists(path)


def test_the_socket_is_removed_after_its_mode_was_changed(path: str) -> None:
    listener = UnixListener(path)
    os.chmod(path, 0o666)
    listener.close()
    assert not os.path.exists(path)


def test_closing_twice_does_not_remove_a_later_socket(path: str) -> None:
    listener = UnixListener(path)
    listener.close()
    leave_dead(path)
    listener.close()
    assert os.path.exists(path)


def test_closing_a_removed_socket_is_not_an_error(path: str) -> None:
    listener = UnixListener(path)
    os.unlink(path)
    before = descriptors()
    listener.close()
    assert descriptors() < before, "its descriptor is given back"


def test_of_many_concurrent_starts_on_a_dead_socket_exactly_one_listens(path: str) -> None:
    leave_dead(path)
    created: list[UnixListener] = []
    refused: list[OSError] = []
    start = threading.Barrier(8)

    def listen() -> None:
        start.wait()
        try:
            created.append(UnixListener(path))
        except OSError as error:
            refused.append(error)

    threads = [threading.Thread(target=listen) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(created), len(refused)) == (1, 7)
    created[0].close()


def test_a_locked_folder_delays_a_start_without_failing_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix, "LOCK_S", 0.02)
    stream = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX)
        listener = UnixListener(path)
        assert os.path.exists(path)
        listener.close()
    finally:
        os.close(stream)


def test_a_paused_machine_does_not_shorten_the_wait_for_the_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix, "LOCK_S", 0.02)
    stream = os.open(os.path.dirname(path), os.O_RDONLY)
    fcntl.flock(stream, fcntl.LOCK_EX)
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            time.sleep(0.1)
        if len(looks) == 3:
            os.close(stream)

    monkeypatch.setattr(unix, "sleep", sleep)
    UnixListener(path).close()
    assert len(looks) == 3, "it did not wait for the lock"


def test_the_process_of_the_peer_is_known() -> None:
    local, remote = socket.socketpair()
    with local, remote:
        assert credentials(local) == (os.getpid(), os.geteuid(), os.getegid())
