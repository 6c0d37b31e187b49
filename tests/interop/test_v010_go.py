"""A real Go program of protocol 0.1.0 on the reference's skeleton, under our adapter, next to a Python one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.errors import PluginError
from nri.plugins.v010_adapter.chain import ProgramChain
from nri.plugins.v010_adapter.plugin import V010Adapter
from nri.plugins.v010_adapter.request import CREATE, of_container
from nri.testing import FakeRuntime, make_container, make_pod
from tests.peers.build import peer
from tests.support.programs import write_program
from tests.support.v010 import Node

GO = "v010plugin"
LOCAL_PROGRAM = """#!{python}
from nri.plugins.v010_adapter.skeleton import run

run(lambda request: {{"before": ",".join(result.plugin for result in request.results), "resources": "second"}})
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    shutil.copy2(peer(GO), node.programs / GO)
    write_program(node.programs, "second", LOCAL_PROGRAM.format(python=sys.executable))
    return node


@pytest.fixture
def runtime(node: Node) -> Iterator[FakeRuntime]:
    node.name()
    with FakeRuntime(request_timeout_s=5.0) as runtime:
        yield runtime.add(V010Adapter(), config=node.config)


def test_the_go_program_and_our_program_work_in_one_chain(node: Node) -> None:
    node.name(GO, "second", GO)
    container = m.Container(id="c7", pid=4712)
    container.linux.cgroups_path = "/kubepods/c7"
    container.linux.resources.cpu.quota.value = 50000
    chain = ProgramChain(str(node.conf), str(node.programs), timeout_s=20.0, max_bytes=1 << 20, tell=print)
    first, local, last = chain.pass_through(of_container(m.PodSandbox(id="p7"), container, CREATE), None)
    messages = first["metadata"]
    assert json.loads(messages.pop("resources")) == {"memory": {}, "cpu": {"quota": 50000}}
    assert messages == {
        "state": "create", "id": "c7", "sandbox": "false", "pid": "4712", "cgroup": "/kubepods/c7", "before": "0",
    }  # fmt: skip
    assert local == {
        "plugin": "second", "version": "0.1", "error": "", "metadata": {"before": GO, "resources": "second"},
    }  # fmt: skip
    assert (last["metadata"]["before"], last["metadata"]["second.resources"], last["metadata"][f"{GO}.id"]) == (
        "2", "second", "c7",
    )  # fmt: skip


def test_an_error_of_the_program_refuses_the_container_with_its_name(node: Node, runtime: FakeRuntime) -> None:
    node.name((GO, {"refuse": "no room"}))
    with pytest.raises(PluginError, match="plugin: v010plugin: no room"):
        runtime.start_container(make_pod(), make_container())


def test_a_panic_of_the_program_is_reported_with_its_exit_code(node: Node, runtime: FakeRuntime) -> None:
    node.name((GO, {"panic": True}))
    with pytest.raises(PluginError, match=r"failed to unmarshal plugin output output: <empty> exit code: 2"):
        runtime.run_pod_sandbox(make_pod())


def test_a_sleeping_program_ends_at_the_runtimes_timeout(node: Node, runtime: FakeRuntime) -> None:
    node.name((GO, {"sleep": "10m"}))
    with pytest.raises(PluginError, match=r"plugin: v010plugin: the program did not end within [1-4]\.\d+ s"):
        runtime.start_container(make_pod(), make_container())
