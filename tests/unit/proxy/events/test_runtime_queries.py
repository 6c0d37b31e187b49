"""Replies of runtimes about pods and containers, complete and incomplete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError, RpcError, RuntimeUnavailable
from nri.proxy.events.runtime_queries import RuntimeQueries
from nri.proxy.events.views import RUNTIME_ID, created_container, pod_shown, requested_container
from nri.proxy.passing import Backend
from nri.proxy.state import ContainerRecord
from tests.support.raw_grpc import RawServer

SERVICE = "/runtime.v1.RuntimeService/"
POD = pb.PodSandboxStatus(
    id="p1",
    metadata=pb.PodSandboxMetadata(name="web", namespace="shop", uid="u"),
    labels={"l": "1"},
    runtime_handler="k",
)
CONTAINER = pb.ContainerStatus(
    id="r1",
    metadata=pb.ContainerMetadata(name="main"),
    state=pb.CONTAINER_RUNNING,
    annotations={"a": "1"},
    mounts=[pb.Mount(container_path="/data", host_path="/src")],
    resources=pb.ContainerResources(linux=pb.LinuxContainerResources(cpu_shares=7)),
)


class Runtime:
    """Answers with these infos."""

    def __init__(self, folder: Path) -> None:
        self.server, self.info = RawServer(), dict[str, str]()
        self.server.unary[SERVICE + "PodSandboxStatus"] = lambda *_: pb.PodSandboxStatusResponse(
            status=POD, info=self.info
        ).SerializeToString()
        self.server.unary[SERVICE + "ContainerStatus"] = lambda *_: pb.ContainerStatusResponse(
            status=CONTAINER, info=self.info
        ).SerializeToString()
        self.backend = Backend(str(folder / "r.sock"))
        self.queries = RuntimeQueries(self.backend)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    runtime = Runtime(tmp_path)
    with runtime.server.listening(tmp_path / "r.sock"):
        yield runtime
    runtime.backend.stop()


def rich(**more: Any) -> dict[str, str]:
    return {"info": json.dumps(more)}


def test_containerds_reply_has_configuration_and_spec(runtime: Runtime) -> None:
    spec = {"linux": {"cgroupsPath": "/a/p1", "namespaces": [{"type": "network", "path": "/proc/1/ns/net"}]}}
    config = {"metadata": {"name": "web"}, "linux": {"cgroup_parent": "/a"}, "a_new_field": 5}
    runtime.info = rich(pid=17, config=config, runtimeSpec=spec)
    facts = runtime.queries.pod("p1")
    assert (facts.pid, facts.config.linux.cgroup_parent, facts.spec) == (17, "/a", spec)
    shown = pod_shown(facts, facts.config)
    assert (shown.linux.cgroups_path, shown.linux.namespaces[0].type, shown.runtime_handler) == (
        "/a/p1",
        "network",
        "k",
    )
    runtime.info = rich(sandboxID="p1", pid=18, config={"metadata": {"name": "main"}, "envs": []}, runtimeSpec=spec)
    actual = runtime.queries.container("r1")
    assert (actual.pid, actual.pod_id, actual.spec, actual.config.metadata.name) == (18, "p1", spec, "main")


def test_our_engines_reply_has_cgroup_and_namespaces(runtime: Runtime) -> None:
    runtime.info = rich(cgroupPath="/a/pod", namespaces={"network": "/run/netns/x"})
    facts = runtime.queries.pod("p1")
    assert facts.config.linux.cgroup_parent == "/a/pod"
    assert facts.spec["linux"] == {"cgroupsPath": "/a/pod", "namespaces": [{"type": "network", "path": "/run/netns/x"}]}


def test_cri_os_reply_has_separate_keys(runtime: Runtime) -> None:
    runtime.info = {"pid": "12", "runtimeSpec": json.dumps({"process": {"args": ["x"]}}), "other": "no json"}
    facts = runtime.queries.container("r1")
    assert (facts.pid, facts.spec) == (12, {"process": {"args": ["x"]}})


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"info": ""},
        {"info": "no json"},
        {"info": "[" * 100_000},
        {"info": "[1]"},
        rich(config=5, runtimeSpec=[], pid="x"),
        rich(config={"metadata": 5}, runtimeSpec=None, pid=-1),
        rich(config={"metadata": {"name": 5}}, pid=1 << 40),
        rich(config=[], runtimeSpec=7, pid=True),
    ],
)
def test_an_incomplete_or_invalid_reply_leaves_the_status(runtime: Runtime, info: dict[str, str]) -> None:
    runtime.info = info
    pod, container = runtime.queries.pod("p1"), runtime.queries.container("r1")
    assert (pod.config.metadata.name, pod.config.labels["l"], pod.spec, pod.pid) == ("web", "1", {}, 0)
    assert (container.config.metadata.name, container.config.annotations["a"], container.spec) == ("main", "1", {})
    assert (container.config.mounts[0].host_path, container.config.linux.resources.cpu_shares) == ("/src", 7)
    assert pod_shown(pod, pod.config).name == "web"


def record() -> ContainerRecord:
    container_record = ContainerRecord(id="proxy1", runtime_id="r1", pod_id="p1")
    container_record.config.metadata.name = "main"
    container_record.config.command.append("run")
    container_record.config.linux.resources.memory_limit_in_bytes = 5
    container_record.resources.memory_limit_in_bytes = 9
    container_record.resources.cpuset_cpus = "0"
    container_record.resources.unified["a.b"] = "c"
    return container_record


@pytest.mark.parametrize("spec", [{}, {"mounts": 5}, {"process": {"rlimits": [{}]}}, {"mounts": [{}]}])
def test_a_container_with_an_invalid_spec_is_shown_by_its_request(runtime: Runtime, spec: Any) -> None:
    runtime.info = rich(config={"metadata": {"name": "main"}}, runtimeSpec=spec)
    shown = created_container(record(), runtime.queries.container("r1"))
    assert (list(shown.args), shown.id, shown.annotations[RUNTIME_ID]) == (["run"], "proxy1", "r1")
    assert (shown.linux.resources.memory.limit.value, shown.linux.resources.cpu.cpus) == (9, "0")
    assert shown.linux.resources.unified["a.b"] == "c"


def test_a_pod_with_an_invalid_spec_is_shown_by_its_configuration(runtime: Runtime) -> None:
    runtime.info = rich(config={"metadata": {"name": "web"}}, runtimeSpec={"linux": {"namespaces": [{}]}})
    facts = runtime.queries.pod("p1")
    assert pod_shown(facts, facts.config).name == "web"


def test_a_container_without_a_status_is_shown_by_its_request() -> None:
    shown = created_container(record(), None)
    assert (shown.state, list(shown.args)) == (m.ContainerState.CONTAINER_CREATED, ["run"])


def test_only_the_proxy_sets_the_runtimes_id() -> None:
    row = record()
    row.config.annotations[RUNTIME_ID] = "another's"
    assert RUNTIME_ID not in requested_container(row).annotations
    assert created_container(row, None).annotations[RUNTIME_ID] == "r1"
    row.runtime_id = row.id
    assert RUNTIME_ID not in created_container(row, None).annotations


def test_a_negative_value_is_an_error_of_the_request(runtime: Runtime) -> None:
    row = record()
    row.resources.cpu_shares = -5
    runtime.info = {}
    with pytest.raises(RequestError, match="cpu_shares"):
        created_container(row, runtime.queries.container("r1"))


def test_errors_of_the_runtime_become_rpc_errors(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(RpcError) as caught:
        runtime.queries.lists()
    assert caught.value.code == 12
    nowhere = Backend(str(tmp_path / "none.sock"))
    with pytest.raises(RuntimeUnavailable):
        RuntimeQueries(nowhere).lists()
    nowhere.stop()
