"""`nri top`: slow and failing plugins of a real runtime."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

import nri as package
from nri.adaptation.admin import SERVICE
from nri.cli.settings import Settings
from nri.cli.verbs import top
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Method, Server, Service
from tests.support.made_plugins import plugin
from tests.support.needs import need_tool
from tests.support.waiting import wait_for


@pytest.fixture
def busy() -> Iterator[str]:
    """The admin socket of a runtime whose containers are created one after the other, and a plugin fails each."""
    over = threading.Event()

    def fail(*_: object) -> None:
        raise package.Reject("not\x1b[31m today")

    def work() -> None:
        while not over.is_set():
            try:
                runtime.create_container(make_pod(), make_container())
            except package.NriError:
                over.wait(0.005)

    with tempfile.TemporaryDirectory(prefix="nri-top-", dir="/tmp") as folder:
        path = f"{folder}/admin.sock"
        with FakeRuntime(admin_socket=path) as runtime:
            runtime.add(plugin("first", create_container=lambda *_: None), "10")
            runtime.add(plugin("last", create_container=fail), "20")
            thread = threading.Thread(target=work)
            thread.start()
            yield path
            over.set()
            thread.join()


def test_once_prints_a_table_with_a_row_per_plugin(nri, busy):
    result = nri("top", "--once", "--interval", "0.3", "--admin-socket", busy)
    assert result.returncode == 0, result.stderr
    line, heading, *rows = result.stdout.splitlines()
    assert "events/s" in line and "2 plugins, 0 late or skipped" in line
    assert heading.split()[:3] == ["PLUGIN", "STATE", "CALLS/S"]
    assert sorted(row.split()[0] for row in rows) == ["10-first", "20-last"]


def test_on_a_narrow_terminal_calls_per_second_are_dropped_first(busy, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    words = ["--admin-socket", busy, "--color", "never", "--once", "--interval", "0.1"]
    top.command.main(words, standalone_mode=False, obj=Settings())
    heading = capsys.readouterr().out.splitlines()[1]
    assert heading.split() == ["PLUGIN", "STATE", "P50", "MS", "P99", "MS", "MISSES", "ERRORS", "REFUSED"]


def test_json_has_the_same_values(nri, busy):
    result = nri("top", "--once", "--interval", "0.3", "-o", "json", "--admin-socket", busy)
    summary = json.loads(result.stdout)
    failing = next(row for row in summary["plugins"] if row["plugin"] == "20-last")
    assert failing["errors"] == failing["calls"] > 0
    assert summary["failed"] == summary["events"] > 0


def test_quiet_prints_only_names(nri, busy):
    result = nri("top", "--once", "--interval", "0.1", "-q", "--admin-socket", busy)
    assert sorted(result.stdout.split()) == ["10-first", "20-last"]


def test_without_a_runtime_the_exit_code_is_3_at_once(nri):
    result = nri("top", "--admin-socket", "/nonexistent/admin.sock")
    assert result.returncode == 3
    assert "cannot connect to /nonexistent/admin.sock" in result.stderr


class _Enough(Exception):
    """Ends an endless loop."""


def test_on_a_terminal_the_screen_is_redrawn_and_fits(busy, monkeypatch, capsys):
    waits = iter([None, None])

    def wait(_: float) -> None:
        if next(waits, _Enough) is _Enough:
            raise _Enough

    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=wait))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "8")
    with pytest.raises(_Enough):
        top.command.main(["--admin-socket", busy, "--color", "never"], standalone_mode=False, obj=Settings())
    pictures = capsys.readouterr().out.split("\x1b[H\x1b[J")
    assert len(pictures) == 3
    assert "\x1b" not in "".join(pictures)


def test_the_screen_fits_the_current_size_of_the_terminal(monkeypatch, capsys):
    sizes = [(80, 24), (60, 10), (200, 50), (80, 5)]
    shown = iter(sizes)

    def wait(_: float) -> None:
        try:
            columns, lines = next(shown)
        except StopIteration:
            raise _Enough from None
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(lines))

    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=wait))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with (
        tempfile.TemporaryDirectory(prefix="nri-top-", dir="/tmp") as folder,
        FakeRuntime(admin_socket=f"{folder}/admin.sock") as runtime,
    ):
        for number in range(30):
            runtime.add(plugin(f"plugin-with-a-long-name-{number}", create_container=lambda *_: None), f"{number:02}")
        words = ["--admin-socket", f"{folder}/admin.sock", "--color", "never"]
        with pytest.raises(_Enough):
            top.command.main(words, standalone_mode=False, obj=Settings())
    pictures = capsys.readouterr().out.split("\x1b[H\x1b[J")[1:]
    for (columns, lines), picture in zip(sizes, pictures, strict=True):
        rows = picture.splitlines()
        used = sum(-(-len(row) // columns) for row in rows)
        assert used + 2 <= lines, f"and a note, and the line of the cursor, at {columns} x {lines}:\n{picture}"
        assert len(rows) >= 3, "a plugin"
    assert "CALLS/S" in pictures[2] and "CALLS/S" not in pictures[1]


def stranger(act: Callable[[socket.socket], None]) -> contextlib.AbstractContextManager[str]:
    """A socket of another program, which does this with each connection."""

    @contextlib.contextmanager
    def listening() -> Iterator[str]:
        with (
            tempfile.TemporaryDirectory(prefix="nri-top-", dir="/tmp") as folder,
            socket.socket(socket.AF_UNIX) as server,
        ):
            server.bind(path := f"{folder}/other.sock")
            server.listen()
            sockets: list[socket.socket] = []

            def serve() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        sockets.append(server.accept()[0])
                        with contextlib.suppress(OSError):
                            act(sockets[-1])

            thread = threading.Thread(target=serve)
            thread.start()
            yield path
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for entry in sockets:
                entry.close()

    return listening()


STRANGERS: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "silent": (lambda _: None, "did not answer"),
    "closes at once": (lambda connection: connection.shutdown(socket.SHUT_RDWR), "the server closed the connection"),
    "HTTP": (lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "admin socket"),
    "greets": (lambda connection: connection.sendall(b"220 mail.example.com ESMTP\r\n"), "admin socket"),
    "zeros": (lambda connection: connection.sendall(bytes(4096)), "admin socket"),
    "garbage": (lambda connection: connection.sendall(os.urandom(64)), "admin socket"),
}


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("words", [("top", "--once"), ("inspect", "--export", "page.html")], ids=lambda words: words[0])
def test_a_socket_of_another_program_is_an_error_of_one_line(nri, words, who):
    act, text = STRANGERS[who]
    with stranger(act) as path:
        result = nri(*words, "--admin-socket", path, "--timeout", "0.5")
    assert result.returncode == 3, result.stderr
    assert text in result.stderr
    assert path in result.stderr
    assert "--admin-socket" in result.stderr, "the next step"
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("row", [1, {"steps": [], "time_ms": 1e300, "duration_ms": 10**400, "error": ""}, {"steps": 1}])
def test_invalid_rows_are_an_error_of_one_line(nri, row):
    over = threading.Event()

    def events(_: bytes) -> Iterator[bytes]:
        yield json.dumps({"run": "r", "next": 1, "missed": 0, "rows": [row], "more": False}).encode()
        over.wait(60)

    methods = {"Events": Method(events, streaming="server"), "Plugins": Method(lambda _: b'{"plugins": []}')}
    with tempfile.TemporaryDirectory(prefix="nri-top-", dir="/tmp") as folder:
        with Server(f"{folder}/admin.sock", [Service(SERVICE, methods)], streams=1):
            result = nri("top", "--once", "--interval", "0.1", "--admin-socket", f"{folder}/admin.sock")
            over.set()
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (3, "", 1), result.stderr
    assert "admin.sock is not an admin socket: " in result.stderr


@pytest.mark.parametrize("interval", ["nan", "inf", "0", "0.05", "61", "x", "-1", ""])
@pytest.mark.parametrize("verb", ["top", "drift"])
def test_an_invalid_interval_is_refused(nri, verb, interval):
    result = nri(verb, "--interval", interval if verb == "top" else interval.replace("61", "3601"))
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1), result.stderr
    assert "'--interval'" in result.stderr


def test_the_plugin_socket_of_a_runtime_is_an_error_of_one_line(nri):
    with tempfile.TemporaryDirectory(prefix="nri-top-", dir="/tmp") as folder:
        with FakeRuntime(socket_path=f"{folder}/nri.sock") as runtime:
            result = nri("top", "--once", "--admin-socket", runtime.socket_path, "--timeout", "2")
    assert (result.returncode, len(result.stderr.splitlines())) == (3, 1), result.stderr


@pytest.mark.parametrize(("end", "code"), [(b"q", 0), (b"Q", 0), (b"\x03", 130), (15, 143), (1, 129)])
def test_a_key_or_a_signal_ends_top_and_restores_the_terminal(busy, end, code):
    near_end, its = pty.openpty()
    before = termios.tcgetattr(its)
    argv = [need_tool("setsid"), "--ctty", sys.executable, "-m", "nri", "top", "--admin-socket", busy]
    process = subprocess.Popen([*argv, "--interval", "0.2"], stdin=its, stdout=its, stderr=its)
    shown = b""
    while b"PLUGIN" not in shown:
        shown += os.read(near_end, 4096)
    os.write(near_end, b"x")
    if isinstance(end, bytes):
        os.write(near_end, end)
    else:
        process.send_signal(end)
    assert process.wait(20) == code
    assert termios.tcgetattr(its) == before
    os.close(near_end)
    os.close(its)


def test_a_closed_terminal_ends_top_silently(busy):
    near_end, its = pty.openpty()
    argv = [need_tool("setsid"), "--ctty", sys.executable, "-m", "nri", "top", "--admin-socket", busy]
    with subprocess.Popen([*argv, "--interval", "60"], stdin=its, stdout=its, stderr=subprocess.PIPE) as process:
        wait_for(lambda: not termios.tcgetattr(its)[3] & termios.ICANON, "its keys are read")
        os.close(its)
        os.close(near_end)
        assert process.stderr.read() == b""
    assert process.returncode in (0, 129), "by what it sees of it first, the end of the keys or the signal"


def test_a_terminal_of_another_session_is_not_changed(busy):
    near_end, its = pty.openpty()
    argv = [sys.executable, "-m", "nri", "top", "--admin-socket", busy, "--interval", "0.2"]
    process = subprocess.Popen(argv, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert b"events/s" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    os.close(near_end)
    os.close(its)
