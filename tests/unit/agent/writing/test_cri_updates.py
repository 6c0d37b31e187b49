"""Values are sent to the runtime once, as CRI calls; a missing runtime has no other effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.agent.agent import Agent
from nri.agent.executor import Executor
from nri.agent.model import Write
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings, RuleSettings, StandaloneSettings
from nri.agent.writing.cri_updates import CriUpdates
from nri.cri.pb import api_pb2 as pb
from nri.host import Outcome
from tests.support.clock import Clock
from tests.support.cri_server import CriServer
from tests.support.host_trees import v1

NUMBER = "0123456789abcdef" * 4
POD = "kubepods/podu"
FOLDER = f"{POD}/{NUMBER}"


class Runtime(CriServer):
    """A runtime that keeps the requests that it receives, and can refuse them."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Any] = []
        self.refuses = False
        self.path = ""

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        assert method == "UpdateContainerResources"
        self.requests.append(request)
        if self.refuses:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        return pb.UpdateContainerResourcesResponse()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    runtime = Runtime()
    with runtime.listening(tmp_path / "cri.sock") as runtime.path:
        yield runtime


def write(knob: str, value: str, folder: str = FOLDER) -> Write:
    return Write(folder, knob, value, "a test")


def sent_updates(runtime: Runtime) -> list[tuple[str, pb.LinuxContainerResources]]:
    return [(entry.container_id, entry.linux) for entry in runtime.requests]


def test_values_of_a_container_are_sent_once_in_one_call(runtime: Runtime) -> None:
    updates = CriUpdates(runtime.path)
    rows = [
        write("cpu.cfs_quota", "-1"),
        write("cpuset.cpus", "0-1"),
        write("cpu.cfs_burst", "5"),
        write("cpu.shares", "2"),
    ]
    updates.tell([*rows, write("cpu.shares", "9", POD)])
    updates.tell(rows)
    resources = pb.LinuxContainerResources(cpu_quota=-1, cpuset_cpus="0-1", cpu_shares=2)
    assert sent_updates(runtime) == [(NUMBER, resources)]
    updates.tell([write("cpu.shares", "3", f"a.slice/cri-containerd-{NUMBER}.scope")])
    assert sent_updates(runtime)[1:] == [(NUMBER, pb.LinuxContainerResources(cpu_shares=3))]
    updates.forget(POD)
    assert len(updates) == 3
    updates.forget(FOLDER)
    assert len(updates) == 0


def test_values_that_a_later_agent_reads_from_the_runtime_are_not_sent(runtime: Runtime) -> None:
    updates = CriUpdates(runtime.path, runtime_alone=True)
    updates.tell([write("cpu.cfs_quota", "5000"), write("memory.limit", "9"), write("cpu.shares", "2")])
    assert not runtime.requests
    updates.tell([write("cpuset.mems", "0")])
    assert sent_updates(runtime) == [(NUMBER, pb.LinuxContainerResources(cpuset_mems="0"))]


def test_a_refusal_is_logged_and_the_call_not_repeated(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    runtime.refuses = True
    updates = CriUpdates(runtime.path)
    with caplog.at_level(logging.WARNING):
        updates.tell([write("cpu.shares", "2")])
        updates.tell([write("cpu.shares", "2")])
    assert len(runtime.requests) == 1 and "no such container" in caplog.text


def test_a_missing_runtime_is_not_called_for_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    updates = CriUpdates(str(tmp_path / "none.sock"), now=clock)
    for seconds in (0, 59, 1):
        clock.now += seconds
        updates.tell([write("cpu.shares", "2")])
    assert caplog.text.count("the runtime could not be notified") == 2 and len(updates) == 0


def test_the_executor_sends_lasting_values_that_are_in_force(runtime: Runtime, tmp_path: Path) -> None:
    executor = Executor(v1(tmp_path, POD, FOLDER), runtime=CriUpdates(runtime.path))
    results = executor.write([write("cpu.shares", "77"), write("memory.limit", "nonsense")])
    assert [result.outcome for result in results] == [Outcome.APPLIED, Outcome.REFUSED]
    executor.write([write("cpu.cfs_quota", "5000")], lasting=False)
    assert sent_updates(runtime) == [(NUMBER, pb.LinuxContainerResources(cpu_shares=77))]
    executor.forget(FOLDER)
    executor.write([write("cpu.shares", "77")], force=True)
    assert len(runtime.requests) == 2


def test_a_value_changed_by_another_program_is_sent_again(runtime: Runtime, tmp_path: Path) -> None:
    executor = Executor(v1(tmp_path, POD, FOLDER), runtime=CriUpdates(runtime.path))
    executor.write([write("cpu.shares", "77")])
    executor.write([write("cpu.shares", "77")], force=True)
    assert len(runtime.requests) == 1
    (file,) = tmp_path.rglob(f"{FOLDER}/cpu.shares")
    file.write_text("1024")
    executor.write([write("cpu.shares", "77")], force=True)
    assert sent_updates(runtime) == [(NUMBER, pb.LinuxContainerResources(cpu_shares=77))] * 2


@pytest.mark.parametrize("apply", ["cgroups", "cri"])
def test_the_settings_decide_whether_values_are_sent_to_the_runtime(
    runtime: Runtime, tmp_path: Path, apply: Any
) -> None:
    root = v1(tmp_path / "root", POD, FOLDER)
    settings = AgentSettings(
        root=Path(root.path),
        socket=str(tmp_path / "agent.sock"),
        modes=("standalone",),
        standalone=StandaloneSettings(apply=apply),
        rules=RuleSettings(path=tmp_path),
        pods=PodSettings(source="files", path=tmp_path, cri=runtime.path),
    )
    Agent(settings).parts.executor.write([write("cpu.shares", "77")])
    assert len(runtime.requests) == (apply == "cri")
