"""`nri pods` over a CRI socket."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer


@pytest.fixture
def path(tmp_path: Path) -> str:
    server = CriServer()
    server.add_pod("1" * 64, "web", created_at=time.time_ns(), runtime_handler="crun")
    server.add_pod("2" * 64, "db", namespace="kube-system", state=pb.SANDBOX_NOTREADY)
    server.add_container("a" * 64, "1" * 64, "app")
    server.add_container("b" * 64, "1" * 64, "old", state=pb.CONTAINER_EXITED)
    with server.listening(tmp_path / "cri.sock") as path:
        yield path


def test_pods_are_listed_with_how_many_containers_run(nri, path: str) -> None:
    rows = [line.split() for line in nri("pods", "--cri-socket", path).stdout.splitlines()]
    assert rows[1][:3] + rows[1][4:] == ["1" * 13, "web", "default", "ready", "1/2", "0", "crun"]
    assert rows[2] == ["2" * 13, "db", "kube-system", "-", "notready", "0/0", "0", "-"]


def test_pods_of_a_namespace_as_json(nri, path: str) -> None:
    found = json.loads(nri("pods", "--namespace", "kube-system", "-o", "json", "--cri-socket", path).stdout)
    assert [one["id"] for one in found] == ["2" * 64]
