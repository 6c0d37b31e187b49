"""`nri ps` over a CRI socket."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from nri.cri.client import INSTALL
from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.unit.cli.conftest import command, environment


@pytest.fixture
def path(tmp_path: Path) -> str:
    server = CriServer()
    server.add_pod("p1", "web")
    server.add_pod("p2", "db", namespace="kube-system")
    image = pb.ImageSpec(image="sha256:1", user_specified_image="busybox:1")
    now = time.time_ns()
    server.add_container("a" * 64, "p1", "app", image=image, created_at=now - 90 * 10**9)
    server.add_container("b" * 64, "p2", "store", created_at=now)
    server.add_container("c" * 64, "p2", "old", state=pb.CONTAINER_EXITED, attempt=2)
    with server.listening(tmp_path / "cri.sock") as path:
        yield path


def test_what_runs_is_listed_newest_first_with_pod_and_age(nri, path: str) -> None:
    rows = [line.split() for line in nri("ps", "--cri-socket", path).stdout.splitlines()]
    assert rows[1][0] == "b" * 13, "the newest first"
    assert rows[2] == ["a" * 13, "busybox:1", "1m", "running", "app", "0", "web", "default"]
    assert len(rows) == 3


def test_all_of_a_pod_as_ids_and_as_json(nri, path: str) -> None:
    done = nri("ps", "-a", "--pod", "db", "-q", env={"CONTAINER_RUNTIME_ENDPOINT": f"unix://{path}"})
    assert done.stdout.split() == ["b" * 64, "c" * 64]
    found = json.loads(nri("ps", "-a", "--pod", "p2", "-o", "json", "--cri-socket", path).stdout)
    assert [one["metadata"]["name"] for one in found] == ["store", "old"]
    assert found[1]["state"] == "CONTAINER_EXITED"
    assert {name: found[1]["pod"][name] for name in ("name", "namespace")} == {"name": "db", "namespace": "kube-system"}


def test_no_runtime_is_3_and_names_the_option(nri, tmp_path: Path) -> None:
    done = nri("ps", "--cri-socket", str(tmp_path / "none"))
    assert done.returncode == 3
    assert "no such file or directory. Name the runtime's CRI socket with --cri-socket" in done.stderr


def test_without_the_extra_it_says_which_to_install(path: str, tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError('not here')\n")
    argv = command("ps", "--cri-socket", path)
    variables = environment(PYTHONPATH=str(tmp_path))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert done.returncode == 1
    assert done.stderr == (f"error: the CRI needs grpcio, which is not installed. Install the extra: {INSTALL}\n")
