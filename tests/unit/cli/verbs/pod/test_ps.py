"""`nri pod ps` over a CRI socket."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    server, now = CriServer(), time.time_ns()
    server.add_pod("p1" * 32, "web", created_at=now, runtime_handler="crun")
    server.add_pod("p2" * 32, "db", namespace="kube-system", created_at=now - 1)
    server.add_pod("p3" * 32, "over", state=pb.SANDBOX_NOTREADY)
    image = pb.ImageSpec(image="sha256:1", user_specified_image="busybox:1")
    server.add_container("a" * 64, "p1" * 32, "app", image=image, created_at=now - 90 * 10**9, attempt=1)
    server.add_container("b" * 64, "p1" * 32, "app", state=pb.CONTAINER_EXITED)
    with server.listening(tmp_path / "cri.sock") as path:
        yield path


def test_ready_pods_are_listed_with_their_newest_containers(nri, path: str) -> None:
    rows = [line.split() for line in nri("pod", "ps", "--cri-socket", path).stdout.splitlines()]
    assert rows[1] == [
        "default/web",
        "ready",
        "app",
        "running",
        "1m",
        "a" * 13,
        "busybox:1",
        "1",
        "crun",
        "p1p1p1p1p1p1p",
    ]
    assert rows[2][:6] == ["kube-system/db", "ready", "-", "-", "0s", "-"], "a pod without containers has a row, too"
    assert len(rows) == 3


def test_pods_are_filtered_and_printed_as_ids_and_json(nri, path: str) -> None:
    env = {"CONTAINER_RUNTIME_ENDPOINT": f"unix://{path}"}
    assert nri("pod", "ps", "-aq", env=env).stdout.split() == ["p1" * 32, "p2" * 32, "p3" * 32]
    assert nri("pod", "ps", "-q", "--namespace", "kube-system", env=env).stdout.split() == ["p2" * 32]
    assert nri("pod", "ps", "-q", "default/over", env=env).stdout.split() == ["p3" * 32]
    document = json.loads(nri("pod", "ps", "-a", "web", "-o", "json", env=env).stdout)
    assert [one["state"] for one in document[0]["containers"]] == ["CONTAINER_EXITED", "CONTAINER_RUNNING"]
    missing = nri("pod", "ps", "none", env=env)
    assert missing.returncode == 1 and 'no pod "none". try: nri pod ps -a' in missing.stderr
