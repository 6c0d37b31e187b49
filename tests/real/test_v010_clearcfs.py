"""Programs of protocol 0.1.0 in Python and Go change a real cgroup."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.plugins.v010_adapter.plugin import V010Adapter
from nri.testing import FakeRuntime, make_container, make_pod
from tests.peers.build import peer
from tests.support.needs import need_machine, need_root
from tests.support.v010 import Node

ROOT = Path(__file__).parents[2]
CGROUPS = Path("/sys/fs/cgroup")


class Quota:
    """The CPU quota of a cgroup of our own."""

    def __init__(self, name: str) -> None:
        self.path = f"/{name}"
        v1 = CGROUPS / "cpu"
        self.folder = (v1 if v1.is_dir() else CGROUPS) / name
        self.file = self.folder / ("cpu.cfs_quota_us" if v1.is_dir() else "cpu.max")
        self.none = "-1" if v1.is_dir() else "max"

    def read(self) -> str:
        return self.file.read_text().split()[0]


@pytest.fixture
def quota() -> Iterator[Quota]:
    need_root()
    quota = Quota(f"nri-test-v010-{os.getpid()}")
    try:
        quota.folder.mkdir()
    except OSError:
        need_machine(False, "cgroup of the CPU that may be made")
    try:
        need_machine(quota.file.exists(), "CPU quota in new cgroups")
        quota.file.write_text("50000")
        yield quota
    finally:
        quota.folder.rmdir()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    example = (ROOT / "examples/v010/clearcfs").read_text()
    program = node.programs / "clearcfs"
    program.write_text(example.replace("#!/usr/bin/env python3", f"#!{sys.executable}"))
    program.chmod(0o755)
    return node


def start(node: Node, quota: Quota, qos: str) -> None:
    container = make_container(annotations={"qos.class": qos})
    container.linux.cgroups_path = quota.path
    with FakeRuntime(request_timeout_s=10.0) as runtime:
        runtime.add(V010Adapter(), config=node.config)
        runtime.start_container(make_pod(), container)


def test_the_example_clears_the_quota_of_latency_sensitive_containers_only(node: Node, quota: Quota) -> None:
    node.name("clearcfs")
    start(node, quota, "be")
    assert quota.read() == "50000"
    start(node, quota, "ls")
    assert quota.read() == quota.none


def test_a_go_program_writes_to_the_cgroup_in_its_request(node: Node, quota: Quota) -> None:
    shutil.copy2(peer("v010plugin"), node.programs / "v010plugin")
    node.name(("v010plugin", {"write": f"{quota.folder.parent}CGROUP/{quota.file.name}", "text": "70000"}))
    start(node, quota, "ls")
    assert quota.read() == "70000"
