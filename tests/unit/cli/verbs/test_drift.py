"""`nri drift` against a runtime for tests, a tree of cgroups, and an agent's answers that the test makes up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri as package
from nri.api.messages import ContainerState
from nri.cri.client import CriClient
from nri.service.http import Server, json_answer
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin
from tests.support.ports import HeldPort
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import command, environment
from tests.unit.cli.dry_engine import TIMEOUT_S, engine, pod_with_container

CGROUP = "kubepods/podx/c1"
LIMIT = 64 << 20


class Node:
    """A runtime with one container, whose cgroup is a folder."""

    def __init__(self, folder: Path) -> None:
        self.root, self.socket = folder / "root", str(folder / "nri.sock")
        self.admin = str(folder / "admin.sock")
        more = {"socket_path": self.socket, "disable_connections": False, "admin_socket": self.admin}
        self.runtime = FakeRuntime(**more)  # type: ignore[arg-type]
        self.runtime.add(plugin("sets", create_container=lambda *_: package.Adjustment().set_memory_limit(LIMIT)), "10")
        pod = make_pod(name="web", namespace="shop")
        container = make_container(id="c1", name="app", pod=pod)
        container.linux.cgroups_path = f"/{CGROUP}"
        self.runtime.create_container(pod, container)
        mounts = self.root / "proc/self"
        mounts.mkdir(parents=True)
        (mounts / "mountinfo").write_text(
            "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "31 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        )
        self.limit(LIMIT)

    def limit(self, number: int) -> None:
        path = self.root / "sys/fs/cgroup/memory" / CGROUP / "memory.limit_in_bytes"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")

    @property
    def words(self) -> list[str]:
        return ["drift", "--socket-path", self.socket, "--admin-socket", self.admin, "--root", str(self.root)]


@pytest.fixture
def node(folder: Path) -> Iterator[Node]:
    node = Node(folder)
    try:
        yield node
    finally:
        node.runtime.close()


def test_without_overwritten_values_the_exit_code_is_0(nri, node: Node) -> None:
    result = nri(*node.words)
    assert (result.returncode, result.stdout) == (0, "") and "no value was overwritten" in result.stderr


def test_unreadable_values_next_to_others_are_reported(nri, node: Node) -> None:
    pod = make_pod(name="odd", namespace="shop")
    container = make_container(id="c2", name="odd", pod=pod)
    container.linux.cgroups_path = "/gone"
    node.runtime.create_container(pod, container)
    result = nri(*node.words)
    assert (result.returncode, "no value was overwritten" in result.stderr) == (0, True)
    assert "not compared: 1 value, whose cgroup or file does not exist" in result.stderr


@pytest.mark.timeout(30)
def test_a_pipe_instead_of_a_value_does_not_block(nri, node: Node) -> None:
    path = node.root / "sys/fs/cgroup/memory" / CGROUP / "memory.limit_in_bytes"
    path.unlink()
    os.mkfifo(path)
    result = nri(*node.words)
    assert (result.returncode, result.stdout) == (1, "")
    assert "1 value applied, but none can be read below" in result.stderr


def test_an_overwritten_value_is_named_with_the_plugin_that_set_it(nri, node: Node) -> None:
    node.limit(70 << 20)
    result = nri(*node.words, "-o", "json")
    (row,) = json.loads(result.stdout)
    assert result.returncode == 5, result.stderr
    assert (row["subject"], row["knob"], row["set_by"], row["by"]) == (
        "shop/web/app",
        "memory.limit",
        "10-sets",
        "not known",
    )
    assert (row["wanted"], row["found"]) == (LIMIT, 70 << 20)
    assert "10-sets" in nri(*node.words).stdout


def test_values_of_an_agent_are_compared(nri, node: Node, folder: Path) -> None:
    node.limit(70 << 20)
    write = {
        "target": CGROUP,
        "name": "memory.limit",
        "wanted": str(70 << 20),
        "outcome": "applied",
        "container": "app",
    }
    odd = {**write, "name": "oom_score"}
    pods = [{"key": "u1", "namespace": "shop", "name": "web", "ended": False}, {"key": "u2", "ended": True}]

    def explain(argument):
        return json_answer({"writes": [write, odd, {**write, "outcome": "refused"}]} if argument else {"pods": pods})

    server = Server({"/explain": explain}, path=str(folder / "agent.sock"))
    try:
        (row,) = json.loads(nri(*node.words, "-o", "json", "--agent-socket", str(folder / "agent.sock")).stdout)
        assert (row["wanted_by"], row["by"]) == ("runtime", "agent")
        alone = ["drift", "--agent-socket", str(folder / "agent.sock"), "--root", str(node.root)]
        assert nri(*alone, env={"NRI_ADMIN_SOCKET": node.admin}).returncode == 0, "no runtime, and the agent's is there"
    finally:
        server.close()


def test_watching_reports_overwritten_and_restored_values_and_counts(node: Node) -> None:
    reserved = HeldPort()
    port = reserved.number
    words = [*node.words, "--watch", "--interval", "0.1", "--metrics", f"127.0.0.1:{port}"]
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            wait_for(lambda: "nri_drift_values 0" in scraped(port), "the first look")
            node.limit(70 << 20)
            wait_for(lambda: "nri_drift_values 1" in scraped(port), "the change")
            assert "nri_drift_compared 1\n" in scraped(port) and "nri_drift_not_compared 0\n" in scraped(port)
            node.limit(LIMIT)
            wait_for(lambda: "nri_drift_changes_total 2" in scraped(port), "the end of it")
            limit_file = node.root / "sys/fs/cgroup/memory" / CGROUP / "memory.limit_in_bytes"
            limit_file.unlink()
            wait_for(lambda: "nri_drift_not_compared 1" in scraped(port), "no value can be read")
            assert "nri_drift_compared 0\n" in scraped(port)
            node.runtime.disconnect()
            node.runtime.close()
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
            reserved.close()
    assert process.returncode == 1, "the runtime has gone"
    first, second = output.splitlines()
    assert f"shop/web/app memory.limit overwritten outside NRI: {70 << 20}, was {LIMIT}" in first
    assert f"restored: {LIMIT}" in second


def scraped(port: int) -> str:
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.05)
    return ""


def test_without_a_runtime_or_an_agent_the_exit_code_is_3(nri, folder: Path) -> None:
    result = nri("drift", "--socket-path", str(folder / "none.sock"), "--root", str(folder))
    assert result.returncode == 3 and "--socket-path" in result.stderr
    assert nri("drift", "--metrics", "127.0.0.1:1").returncode == 2


def test_unreadable_values_are_not_reported_as_unchanged(nri, node: Node, folder: Path) -> None:
    result = nri(*node.words[:-1], str(folder / "elsewhere"))
    assert result.returncode == 1 and "no value was overwritten" not in result.stderr
    assert "1 value applied, but none can be read" in result.stderr and "--root" in result.stderr
    words = [*node.words[:-1], str(folder / "elsewhere"), "--watch"]
    with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stderr is not None
            assert "none can be read" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()


def test_a_watch_in_json_has_a_line_for_each_change(node: Node) -> None:
    node.limit(70 << 20)
    words = [*node.words, "--watch", "-o", "json"]
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            row = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
    assert (row["knob"], row["found"], row["wanted"]) == ("memory.limit", 70 << 20, LIMIT)


def test_a_stopped_container_is_not_reported(nri, folder: Path) -> None:
    pod = make_pod(name="web", namespace="shop")
    ended = make_container(name="app", pod=pod, memory_limit=LIMIT, state=ContainerState.CONTAINER_STOPPED)
    ended.linux.cgroups_path = f"/{CGROUP}"
    path = str(folder / "nri.sock")
    with FakeRuntime(pods=[pod], containers=[ended], socket_path=path, disable_connections=False):
        result = nri("drift", "--socket-path", path, "--root", str(folder))
    assert (result.returncode, "no value was overwritten" in result.stderr) == (0, False)
    assert "nothing was compared: no value was applied to a running container" in result.stderr


def test_a_socket_of_another_program_is_an_error(nri, node: Node, folder: Path) -> None:
    server = Server({}, path=str(folder / "other.sock"))
    try:
        result = nri(*node.words, "--agent-socket", str(folder / "other.sock"))
    finally:
        server.close()
    assert (
        result.returncode == 1
        and "other.sock is not an agent's socket (status 404)" in result.stderr
        and "--agent-socket" in result.stderr
    )


#: A value of an agent, written to no text.
ODD = {
    "pods": [{"ended": False, "key": "a/b", "namespace": "a", "name": "b"}],
    "writes": [{"outcome": "applied", "name": "cpu.shares", "wanted": "2", "container": "c", "target": ["x"]}],
}


@pytest.mark.parametrize("answer", [[1], {}, {"pods": 5}, {"pods": [{}]}, {"pods": [7]}, ODD], ids=str)
def test_an_invalid_reply_of_an_agent_is_an_error(nri, node: Node, folder: Path, answer: object) -> None:
    server = Server({"/explain": lambda _: json_answer(answer)}, path=str(folder / "other.sock"))
    try:
        result = nri(*node.words, "--agent-socket", str(folder / "other.sock"))
    finally:
        server.close()
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (1, "", 1), result.stderr
    assert "other.sock is not an agent's socket" in result.stderr and "--agent-socket" in result.stderr


def test_a_dry_engine_is_reported(nri, folder: Path) -> None:
    with engine(folder), CriClient(str(folder / "cri.sock"), timeout_s=TIMEOUT_S) as cri:
        pod_with_container(cri, folder)
        result = nri("drift", "--socket-path", str(folder / "nri.sock"))
    assert result.returncode == 1, result.stderr
    assert f"the engine at {folder}/nri.sock runs with --dry" in result.stderr
