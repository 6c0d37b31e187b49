"""`nri pod logs` over a CRI socket and a log file."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.unit.cli.conftest import command, environment

T = "2026-01-02T03:04:05.000000001Z"


@pytest.fixture
def server(tmp_path: Path) -> CriServer:
    server = CriServer()
    server.add_pod("p1", "web")
    server.add_container("a1", "p1", "app")
    server.add_container("b1", "p1", "mute")
    log = tmp_path / "0.log"
    log.write_text(f"{T} stdout P on\n{T} stdout F e\n{T} stderr F bad\n{T} stdout F \x1b[31mtwo\n")
    server.logs["a1"] = str(log)
    return server


def test_streams_are_printed_to_the_same_stream_unchanged(nri, server: CriServer, tmp_path: Path) -> None:
    with server.listening(tmp_path / "cri.sock") as path:
        result = nri("pod", "logs", "app", "--cri-socket", path)
        assert (result.stdout, result.stderr) == ("one\n\x1b[31mtwo\n", "bad\n")
        result = nri("pod", "logs", "--tail", "1", "-t", "web/app", "--cri-socket", path)
        assert result.stdout == f"{T} \x1b[31mtwo\n"
        rows = [
            json.loads(line)
            for line in nri("pod", "logs", "a1", "-o", "json", "--cri-socket", path).stdout.splitlines()
        ]
        assert rows[1] == {"time": T, "stream": "stderr", "log": "bad"}


def test_containers_without_a_log_and_unknown_containers_are_errors(nri, server: CriServer, tmp_path: Path) -> None:
    with server.listening(tmp_path / "cri.sock") as path:
        result = nri("pod", "logs", "mute", "--cri-socket", path)
        assert (result.returncode, "its pod was created without a log directory" in result.stderr) == (1, True)
        assert (
            nri("pod", "logs", "none", "--cri-socket", path).stderr
            == 'error: no container "none". try: nri pod ps -a\n'
        )


def test_following_ends_with_the_container_after_its_last_lines(server: CriServer, tmp_path: Path) -> None:
    with server.listening(tmp_path / "cri.sock") as path:
        argv = command("pod", "logs", "-f", "app", "--cri-socket", path)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment()) as follower:
            assert follower.stdout is not None
            assert [follower.stdout.readline() for _ in range(2)] == ["one\n", "\x1b[31mtwo\n"]
            with open(server.logs["a1"], "a") as file:
                file.write(f"{T} stdout F last words\n")
            server.containers[0].state = pb.CONTAINER_EXITED
            out, _ = follower.communicate(timeout=30)
        assert (follower.returncode, out) == (0, "last words\n")


def test_following_survives_a_restart_and_ends_with_the_removal(server: CriServer, tmp_path: Path) -> None:
    argv = command("pod", "logs", "-f", "app", "--cri-socket", str(tmp_path / "cri.sock"))
    with contextlib.ExitStack() as stack:
        with server.listening(tmp_path / "cri.sock"):
            follower = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment()))
            assert follower.stdout is not None
            assert [follower.stdout.readline() for _ in range(2)] == ["one\n", "\x1b[31mtwo\n"]
        time.sleep(1.2)  # it asks once a second, and no runtime is there
        with open(server.logs["a1"], "a") as file:
            file.write(f"{T} stdout F still here\n")
        assert follower.stdout.readline() == "still here\n"
        server.containers = [container for container in server.containers if container.id != "a1"]
        with server.listening(tmp_path / "cri.sock"):
            follower.communicate(timeout=30)
    assert follower.returncode == 0


def test_a_terminal_gets_no_control_characters(server: CriServer, tmp_path: Path) -> None:
    near_end, far_end = pty.openpty()
    with server.listening(tmp_path / "cri.sock") as path:
        result = subprocess.run(
            command("pod", "logs", "app", "--cri-socket", path),
            stdout=far_end,
            timeout=60,
            check=False,
            env=environment(),
        )
    os.close(far_end)
    shown = os.read(near_end, 10_000).decode()
    os.close(near_end)
    assert (result.returncode, "\x1b" in shown, "[31mtwo" in shown) == (0, False, True)
