"""`nri pod stats` over a CRI socket."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.unit.cli.conftest import command, environment


class Using(CriServer):
    """Has a container that has used a quarter of a core between any two looks, and one that nothing is known of."""

    looks = 0

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        if method != "ListContainerStats":
            return super().answer(method, request, context)
        self.looks += 1
        busy = pb.ContainerStats(
            attributes=pb.ContainerAttributes(id="a" * 64, metadata=pb.ContainerMetadata(name="app")),
            cpu=pb.CpuUsage(
                timestamp=self.looks * 10**9, usage_core_nano_seconds=pb.UInt64Value(value=self.looks * 250 * 10**6)
            ),
            memory=pb.MemoryUsage(working_set_bytes=pb.UInt64Value(value=3 << 19)),
            writable_layer=pb.FilesystemUsage(used_bytes=pb.UInt64Value(value=200 << 10)),
        )
        fresh = pb.ContainerStats(
            attributes=pb.ContainerAttributes(id="b" * 64, metadata=pb.ContainerMetadata(name="new")),
            cpu=pb.CpuUsage(usage_nano_cores=pb.UInt64Value(value=10**9)),
        )
        idle = pb.ContainerStats(
            attributes=pb.ContainerAttributes(id="c" * 64, metadata=pb.ContainerMetadata(name="quiet"))
        )
        return pb.ListContainerStatsResponse(stats=[busy, fresh, idle])


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    server = Using()
    server.add_pod("p" * 64, "web")
    server.add_container("a" * 64, "p" * 64, "app")
    server.add_container("b" * 64, "p" * 64, "new")
    server.add_container("c" * 64, "p" * 64, "quiet")
    with server.listening(tmp_path / "cri.sock") as path:
        yield path


def test_cpu_is_measured_between_two_readings_and_sizes_are_short(nri, path: str) -> None:
    result = nri("pod", "stats", "web", "--interval", "0.01", "--cri-socket", path)
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["default/web", "app", "25.00", "1.5MiB", "-", "200KiB", "a" * 13],
        ["default/web", "new", "100.00", "-", "-", "-", "b" * 13],
        ["default/web", "quiet", "-", "-", "-", "-", "c" * 13],
    ]


def test_ids_and_complete_json_can_be_printed(nri, path: str) -> None:
    assert nri("pod", "stats", "-q", "--cri-socket", path).stdout.split() == ["a" * 64, "b" * 64, "c" * 64]
    document = json.loads(nri("pod", "stats", "-o", "json", "--cri-socket", path).stdout)
    assert document[0]["memory"]["workingSetBytes"]["value"] == str(3 << 19)
    assert document[0]["pod"] == "default/web"


def test_watching_prints_a_list_per_interval_until_it_is_interrupted(path: str) -> None:
    argv = command("pod", "stats", "--watch", "--interval", "0.05", "-o", "json", "--cri-socket", path)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment()) as watcher:
        assert watcher.stdout is not None
        samples = [json.loads(watcher.stdout.readline()) for _ in range(3)]
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(30) == 130
    cpu = [sample[0]["cpu"]["usageCoreNanoSeconds"]["value"] for sample in samples]
    assert len(set(cpu)) == 3
