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


def test_arguments_after_the_container_belong_to_the_program(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    result = nri("pod", "exec", "web/app", "sh", "-c", "echo said; echo bad >&2; exit 3", env=env)
    assert (result.returncode, result.stdout, result.stderr) == (3, "said\n", "bad\n")
    assert nri("pod", "exec", "-i", "app", "cat", env=env, stdin="typed").stdout == "typed"


def test_two_dashes_before_the_program_are_accepted(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    assert nri("pod", "exec", "app", "--", "echo", "--", "x", env=env).stdout == "-- x\n"
    nothing = nri("pod", "exec", "app", "--", env=env)
    assert (nothing.returncode, "a program is required after --" in nothing.stderr) == (2, True)


def test_options_can_be_before_or_after_the_container(nri, path: str) -> None:
    for words in (
        ["--cri-socket", path, "app"], ["app", "--cri-socket", path], ["web", f"--cri-socket={path}", "-c", "app"],
        ["-n", "default", "web", "--cri-socket", path, "-capp", "--"],
    ):  # fmt: skip
        result = nri("pod", "exec", *words, "echo", "--cri-socket", "-c", "x")
        assert (result.returncode, result.stdout) == (0, "--cri-socket -c x\n"), result.stderr
    assert nri("pod", "exec", "app", "-i", "--cri-socket", path, "cat", stdin="typed").stdout == "typed"
    no_program = nri("pod", "exec", "--cri-socket", path, "app", "--", "-h")
    assert no_program.returncode != 2 and "No such file" in no_program.stderr
    unknown = nri("pod", "exec", "app", "--no-such-option", "true")
    assert (unknown.returncode, "--no-such-option" in unknown.stderr) == (2, True)


def test_a_namespace_and_a_name_of_a_container_restrict_the_choice(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    other = nri("pod", "exec", "-n", "shop", "web", "-c", "app", "true", env=env)
    assert (other.returncode, other.stderr) == (1, 'error: no pod "web" with -n shop, but there is default/web\n')
    missing = nri("pod", "exec", "web", "-c", "none", "true", env=env)
    assert missing.stderr == 'error: pod default/web has no container "none"; it has app, over\n'


def test_stopped_containers_missing_terminals_and_lost_servers_are_errors(nri, path: str) -> None:
    env = {"NRI_CRI_SOCKET": path}
    assert "container over is not running: it is exited" in nri("pod", "exec", "over", "true", env=env).stderr
    no_terminal = nri("pod", "exec", "-it", "app", "sh", env=env)
    assert no_terminal.returncode == 2 and "-t: requires -i and a terminal" in no_terminal.stderr
    result = nri("pod", "attach", "app", env=env)
    assert result.returncode == 1 and "streaming server 127.0.0.1:1: Connection refused" in result.stderr


def test_without_the_extra_the_error_names_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "h11.py").write_text("raise ImportError('not here', name='h11')\n")
    argv = command("pod", "exec", "app", "true", "--cri-socket", path)
    variables = environment(PYTHONPATH=str(tmp_path))
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert result.stderr == f"error: streams require h11, which is not installed. Install the extra: {INSTALL}\n"


def test_exec_without_a_container_is_a_usage_error(nri) -> None:
    result = nri("pod", "exec")
    assert result.returncode == 2
    assert "CONTAINER" in result.stderr
