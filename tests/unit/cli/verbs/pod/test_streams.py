"""`nri pod exec` and `attach`: a CRI server that gives out the address of a streaming server with real programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.client import INSTALL
from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.support.stream_world import World
from tests.unit.cli.conftest import command, environment


class Entered(CriServer):
    """Its containers are this machine."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._server = world.server

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        if method == "Exec":
            flags = {name: getattr(request, name) for name in ("tty", "stdin", "stdout", "stderr")}
            return pb.ExecResponse(url=self._server.exec_url(request.container_id, [*request.cmd], **flags))
        if method == "Attach":
            return pb.AttachResponse(url="http://127.0.0.1:1/attach/x")
        return super().answer(method, request, context)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    world = World(tmp_path)
    server = Entered(world)
    server.add_pod("p1", "web")
    server.add_container("a" * 64, "p1", "app")
    server.add_container("b" * 64, "p1", "over", state=pb.CONTAINER_EXITED)
    with server.listening(tmp_path / "cri.sock") as path:
        yield path
    world.close()


def test_what_follows_the_container_is_the_programs(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    result = nri("pod", "exec", "web/app", "sh", "-c", "echo said; echo bad >&2; exit 3", env=env)
    assert (result.returncode, result.stdout, result.stderr) == (3, "said\n", "bad\n")
    assert nri("pod", "exec", "-i", "app", "cat", env=env, stdin="typed").stdout == "typed"


def test_two_dashes_may_stand_before_the_program(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    assert nri("pod", "exec", "app", "--", "echo", "--", "x", env=env).stdout == "-- x\n"
    nothing = nri("pod", "exec", "app", "--", env=env)
    assert (nothing.returncode, "a program is required after --" in nothing.stderr) == (2, True)


def test_an_option_behind_the_container_is_refused_and_one_behind_the_program_is_the_programs(nri, path: str) -> None:
    for words in (["--cri-socket", path, "echo"], ["-it", "sh"], ["-h"]):
        result = nri("pod", "exec", "app", *words)
        assert (result.returncode, result.stdout) == (2, "")
        assert (
            f"{words[0]}: options must be before the container: put it before app; if it is the name of a program"
            in result.stderr
        )
    behind = nri("pod", "exec", "--cri-socket", path, "app", "echo", "--cri-socket", "x")
    assert behind.stdout == "--cri-socket x\n"
    no_program = nri("pod", "exec", "--cri-socket", path, "app", "--", "-h")
    assert no_program.returncode != 2 and "No such file" in no_program.stderr


def test_a_container_that_is_over_a_missing_terminal_and_a_server_that_is_gone(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    assert "container over is not running: it is exited" in nri("pod", "exec", "over", "true", env=env).stderr
    no_terminal = nri("pod", "exec", "-it", "app", "sh", env=env)
    assert no_terminal.returncode == 2 and "-t: requires -i and a terminal" in no_terminal.stderr
    result = nri("pod", "attach", "app", env=env)
    assert result.returncode == 1 and "streaming server 127.0.0.1:1: Connection refused" in result.stderr


def test_without_the_extra_it_says_which_to_install(path: str, tmp_path: Path) -> None:
    (tmp_path / "h11.py").write_text("raise ImportError('not here', name='h11')\n")
    argv = command("pod", "exec", "app", "true", "--cri-socket", path)
    variables = environment(PYTHONPATH=str(tmp_path))
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert result.stderr == f"error: streams require h11, which is not installed. Install the extra: {INSTALL}\n"
