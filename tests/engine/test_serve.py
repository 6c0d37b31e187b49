"""`nri engine serve` with real containers, and the commands pod ps, pod logs and why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from tests.support.waiting import wait_for
from tools.runtimes.cri import Pod
from tools.runtimes.engine import Engine

TIMEOUT_S = 20.0
NRI = [sys.executable, "-m", "nri"]
TALK = (
    "printf 'half '; sleep 0.1; echo line; echo bad >&2; i=0; while true; do i=$((i+1)); echo tick $i; sleep 0.1; done"
)


@pytest.fixture(scope="module")
def pod(engine: Engine) -> Pod:
    return engine.cri.run_pod("serve")


@pytest.fixture(scope="module")
def talker(engine: Engine, pod: Pod) -> str:
    """A container that prints half a line, the rest of it, an error, and then a line every tenth of a second."""
    return engine.cri.run(pod, "talker", ["/bin/sh", "-c", TALK])


def nri(*arguments: object, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NRI, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s, check=False)


def log_of(engine: Engine, container: str) -> Path:
    reply = engine.cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container))
    return Path(reply.status.log_path)


def test_pod_ps_lists_pods_and_containers(engine: Engine, pod: Pod, talker: str) -> None:
    rows = nri("pod", "ps", "--cri-socket", engine.cri_socket).stdout.splitlines()
    assert rows[1].split()[:4] == ["default/serve", "ready", "talker", "running"]
    assert rows[1].split()[5] == talker[:13]
    assert running(engine) == [talker]


def running(engine: Engine) -> list[str]:
    """The containers that run, by what people ask."""
    pods = json.loads(nri("pod", "ps", "-o", "json", "--cri-socket", engine.cri_socket).stdout)
    return [one["id"] for entry in pods for one in entry["containers"] if one["state"] == "CONTAINER_RUNNING"]


def test_pod_logs_joins_partial_lines_and_separates_the_streams(engine: Engine, talker: str) -> None:
    wait_for(lambda: "tick 2" in log_of(engine, talker).read_text())
    process = nri("pod", "logs", "talker", "--cri-socket", engine.cri_socket)
    assert process.stdout.splitlines()[:3] == ["half line", "tick 1", "tick 2"]
    assert process.stderr == "bad\n"
    last = nri("pod", "logs", "--tail", "1", "-t", "serve/talker", "--cri-socket", engine.cri_socket).stdout
    assert last.count("\n") == 1
    assert " tick " in last


def test_pod_logs_follows_a_rotated_log_until_the_container_exits(engine: Engine, pod: Pod, tmp_path: Path) -> None:
    container = engine.cri.run(pod, "rotated", ["/bin/sh", "-c", TALK])
    log = log_of(engine, container)
    wait_for(lambda: log.exists() and "tick 1" in log.read_text())
    marker = tmp_path / "seen"
    command = [*NRI, "pod", "logs", "-f", "--cri-socket", str(engine.cri_socket), container]
    with marker.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL) as follower:
        wait_for(lambda: "half line" in marker.read_text())
        os.rename(log, log.with_suffix(".old"))
        engine.cri.call("ReopenContainerLog", pb.ReopenContainerLogRequest(container_id=container))
        wait_for(lambda: "tick" in log.read_text())
        engine.cri.stop(container)
        assert follower.wait(TIMEOUT_S) == 0
    ticks = [int(line.split()[1]) for line in marker.read_text().splitlines()[1:]]
    assert ticks == list(range(1, len(ticks) + 1)), "a line is missing, or twice"
    assert f"tick {ticks[-1]}" in log.read_text()


def test_containers_survive_a_kill_of_the_engine(engine: Engine, talker: str) -> None:
    pid = engine.cri.info(talker)["pid"]
    engine.kill()
    size = log_of_file(engine).stat().st_size
    engine.restart()
    assert talker in running(engine)
    assert engine.cri.info(talker)["pid"] == pid
    assert engine.cri.exec(talker, "/bin/echo", "alive") == "alive\n"
    wait_for(lambda: log_of_file(engine).stat().st_size > size)


def log_of_file(engine: Engine) -> Path:
    """The log's path without asking the engine."""
    return next(path for path in (engine.run_dir / "logs").iterdir() if path.name.endswith("talker.log"))


def test_sigterm_stops_the_engine_in_order_and_is_logged(engine: Engine, talker: str) -> None:
    assert engine.stop() == 0
    assert engine.log_lines("stopping after SIGTERM; containers keep running")
    assert not engine.cri_socket.exists()
    engine.restart()
    assert talker in running(engine)


def test_the_engine_stops_in_bounded_time_while_a_container_stop_is_slow(engine: Engine, pod: Pod) -> None:
    container = engine.cri.run(pod, "stubborn", ["/bin/sh", "-c", "trap '' TERM; while true; do sleep 1; done"])
    request = pb.StopContainerRequest(container_id=container, timeout=300)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(engine.cri.call, "StopContainer", request)
        wait_for(lambda: engine.cri.info(container)["pid"])
        began = time.monotonic()
        assert engine.stop() == 0
        assert time.monotonic() - began < 15
        assert call.exception() is not None
    engine.restart()
    assert container in running(engine)
