"""`nri logs` over a CRI socket and a log file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.unit.cli.conftest import command, environment

T = "2026-01-02T03:04:05.000000001Z"


@pytest.fixture
def server(tmp_path: Path) -> CriServer:
    made = CriServer()
    made.add_pod("p1", "web")
    made.add_container("a1", "p1", "app")
    made.add_container("b1", "p1", "mute")
    log = tmp_path / "0.log"
    log.write_text(f"{T} stdout P on\n{T} stdout F e\n{T} stderr F bad\n{T} stdout F \x1b[31mtwo\n")
    made.logs["a1"] = str(log)
    return made


def test_streams_go_where_they_came_from_byte_for_byte(nri, server: CriServer, tmp_path: Path) -> None:
    with server.listening(tmp_path / "cri.sock") as path:
        done = nri("logs", "app", "--cri-socket", path)
        assert (done.stdout, done.stderr) == ("one\n\x1b[31mtwo\n", "bad\n")
        done = nri("logs", "--tail", "1", "-t", "web/app", "--cri-socket", path)
        assert done.stdout == f"{T} \x1b[31mtwo\n"
        rows = [json.loads(line) for line in nri("logs", "a1", "-o", "json", "--cri-socket", path).stdout.splitlines()]
        assert rows[1] == {"time": T, "stream": "stderr", "log": "bad"}


def test_a_container_without_a_log_and_one_that_is_not_there_are_errors(nri, server: CriServer, tmp_path: Path) -> None:
    with server.listening(tmp_path / "cri.sock") as path:
        done = nri("logs", "mute", "--cri-socket", path)
        assert (done.returncode, "its pod was made without a log directory" in done.stderr) == (1, True)
        assert nri("logs", "none", "--cri-socket", path).stderr == 'error: no container "none". try: nri ps -a\n'


def test_following_ends_with_the_container_and_shows_its_last_words(server: CriServer, tmp_path: Path) -> None:
    with server.listening(tmp_path / "cri.sock") as path:
        argv = command("logs", "-f", "app", "--cri-socket", path)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment()) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "one\n"
            with open(server.logs["a1"], "a") as file:
                file.write(f"{T} stdout F last words\n")
            server.containers[0].state = pb.CONTAINER_EXITED
            out, _ = follower.communicate(timeout=30)
        assert (follower.returncode, out) == (0, "\x1b[31mtwo\nlast words\n")
