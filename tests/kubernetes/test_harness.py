"""The test harness: built programs, and a complete cleanup of nodes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.deploy.kubernetes import KUBERNETES
from tests.kubernetes import build
from tests.kubernetes.conftest import started
from tests.kubernetes.kubelet import ELSEWHERE
from tests.kubernetes.node import Node
from tests.kubernetes.pods import container, pod
from tools.runtimes import MissingError
from tools.runtimes.leftovers import cgroup_dirs


def test_the_running_kubelet_has_the_release_of_the_schemas(node: Node) -> None:
    assert build.version() == KUBERNETES
    assert f'git_version="{KUBERNETES}"' in node.kubelet.client.get("/metrics")


def test_a_missing_program_is_an_error_with_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NRI_CACHE", str(tmp_path))
    with pytest.raises(MissingError, match=f"a kubelet {build.version()}: build it with: python -m tests.kubernetes"):
        build.program("kubelet")


@pytest.mark.parametrize("orderly", [True, False], ids=["orderly", "in the middle"])
def test_a_stopped_node_leaves_nothing(runtime_name: str, kubelet_program: Path, orderly: bool) -> None:
    existing = {path: Path(path).exists() for path in ELSEWHERE}
    volumes = [{"name": "fast", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "fast", "mountPath": "/fast"}]
    with started(runtime_name, kubelet_program) as node:
        static = node.run(pod("passing", container(volumeMounts=mounts), volumes=volumes))
        static.wait_ready()
        if orderly:
            static.remove()
            static.wait_gone()
    name = node.runtime.run_dir.name
    assert not cgroup_dirs(name)
    assert not [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line]
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and names(pid, name)]
    assert not node.runtime.run_dir.exists()
    assert not Path("/sys/class/net", name).exists()
    assert not [path for path, was in existing.items() if Path(path).exists() and not was]


def names(pid: str, name: str) -> bool:
    """Whether the command line of a process has that name."""
    try:
        return name.encode() in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False
