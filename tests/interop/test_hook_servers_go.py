"""Go hook servers of Koordinator's protocol, on Koordinator's released API, behind our proxy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as cri
from nri.proxy import Subject
from nri.proxy.hook_servers import HookServersFailed, RegisteredServers
from nri.proxy.hook_servers.messages import fields_of
from nri.proxy.state import ContainerRecord, PodRecord
from tests.peers.build import peer
from tests.peers.drivers import LineProcess

POD = {
    "metadata": {"name": "p", "uid": "u", "namespace": "ns"},
    "labels": {"l": "1"},
    "annotations": {"a": "1"},
    "linux": {"cgroup_parent": "/kubepods/podu"},
}
RESOURCES = {
    "cpu_period": 100_000,
    "cpu_quota": 50_000,
    "cpu_shares": 512,
    "memory_limit_in_bytes": 1 << 30,
    "oom_score_adj": 900,
    "cpuset_cpus": "0-1",
    "cpuset_mems": "0",
    "hugepage_limits": [{"page_size": "2MB", "limit": 1 << 21}],
    "unified": {"memory.high": "1"},
    "memory_swap_limit_in_bytes": 1 << 31,
}
Serve = Callable[..., LineProcess]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a hook server that registers itself; answers by stage."""
    with ExitStack() as stack:

        def start(name: str = "koordlet", policy: str = "Ignore", **answers: Any) -> LineProcess:
            path = tmp_path / f"{name}.answers"
            path.write_text(json.dumps(answers))
            process = LineProcess(
                [
                    *(peer("hookserver"), "-socket", tmp_path / f"{name}.sock", "-policy", policy),
                    *("-register", tmp_path / f"{name}.json", "-answers", path),
                ]
            )
            stack.enter_context(process)
            process.wait_for(lambda line: line.get("stage") == "ready", what="its start")
            return process

        yield start


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[RegisteredServers]:
    servers = RegisteredServers(tmp_path, 10.0)
    yield servers
    servers.stop()


def subject() -> Subject:
    config = {"metadata": {"name": "c", "attempt": 3}, "annotations": {"ca": "1"}, "linux": {"resources": RESOURCES}}
    pod = PodRecord("pod1", cri.PodSandboxConfig(**POD), "runc")
    return Subject(pod, ContainerRecord("proxy1", "runtime1", "pod1", cri.ContainerConfig(**config)))


def create_request() -> cri.CreateContainerRequest:
    env = [{"key": "A", "value": b"1"}]
    config = {"metadata": {"name": "c"}, "envs": env, "annotations": {"ca": "1"}, "linux": {"resources": RESOURCES}}
    return cri.CreateContainerRequest(pod_sandbox_id="pod1", config=config, sandbox_config=POD)


def received_calls(server: LineProcess, count: int = 1) -> list[tuple[str, Any]]:
    """The calls that a server received; wait until there are at least `count`."""
    calls = itertools.count(1)
    server.wait_for(lambda line: line["stage"] != "ready" and next(calls) >= count, what=f"{count} calls")
    return [(line["stage"], line.get("request")) for line in server.lines if line["stage"] != "ready"]


def test_a_server_receives_every_field_and_an_unchanged_reply_changes_nothing(
    serve: Serve, proxy: RegisteredServers
) -> None:
    server, request = serve(), create_request()
    before = request.SerializeToString(deterministic=True)
    proxy.before("CreateContainer", request, Subject(subject().pod), None)
    assert request.SerializeToString(deterministic=True) == before
    ((stage, messages),) = received_calls(server)
    assert stage == "PreCreateContainer"
    numbers = ("cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "oom_score_adj")
    as_json = RESOURCES | {name: str(RESOURCES[name]) for name in (*numbers, "memory_swap_limit_in_bytes")}
    assert messages == {
        "pod_meta": POD["metadata"],
        "pod_labels": {"l": "1"},
        "pod_annotations": {"a": "1"},
        "pod_cgroup_parent": "/kubepods/podu",
        "container_meta": {"name": "c"},
        "container_annotations": {"ca": "1"},
        "container_envs": {"A": "1"},
        "container_resources": as_json | {"hugepage_limits": [{"page_size": "2MB", "limit": str(1 << 21)}]},
    }


def test_a_server_changes_annotations_labels_environment_and_resources(serve: Serve, proxy: RegisteredServers) -> None:
    serve(
        PreRunPodSandbox={"response": {"labels": {"l": "2"}, "annotations": {"b": "2"}, "cgroup_parent": "/other"}},
        PreCreateContainer={
            "response": {
                "container_envs": {"B": "2"},
                "container_annotations": {"cb": "2"},
                "container_resources": {"cpu_quota": "-1", "cpuset_cpus": "1", "oom_score_adj": "5"},
            }
        },
        PreUpdateContainerResources={"response": {"container_resources": {"cpu_shares": "7"}}},
    )
    run = cri.RunPodSandboxRequest(config=POD)
    proxy.before("RunPodSandbox", run, Subject(), None)
    assert dict(run.config.labels) == {"l": "2"}
    assert dict(run.config.annotations) == {"a": "1", "b": "2"}
    assert run.config.linux.cgroup_parent == "/other"
    create = create_request()
    proxy.before("CreateContainer", create, Subject(subject().pod), None)
    changed = {"cpu_quota": -1, "cpuset_cpus": "1", "oom_score_adj": 5}
    assert fields_of(create.config.linux.resources) == RESOURCES | changed
    assert [(env.key, env.value) for env in create.config.envs] == [("A", b"1"), ("B", b"2")]
    assert dict(create.config.annotations) == {"ca": "1", "cb": "2"}
    update = cri.UpdateContainerResourcesRequest(container_id="runtime1", linux={"cpuset_cpus": "0"})
    proxy.before("UpdateContainerResources", update, subject(), None)
    without_pages = {name: value for name, value in RESOURCES.items() if name != "hugepage_limits"}
    assert fields_of(update.linux) == without_pages | {"cpuset_cpus": "0", "cpu_shares": 7}


def test_a_reply_without_cpus_clears_the_cpus(serve: Serve, proxy: RegisteredServers) -> None:
    serve(PreCreateContainer={"whole": True, "response": {"container_resources": {"cpu_shares": "7"}}})
    create = create_request()
    proxy.before("CreateContainer", create, Subject(subject().pod), None)
    resources = create.config.linux.resources
    assert (resources.cpuset_cpus, resources.cpuset_mems, resources.cpu_shares) == ("", "", 7)
    assert resources.memory_limit_in_bytes == 1 << 30


def test_every_stage_is_requested_at_its_call(serve: Serve, proxy: RegisteredServers) -> None:
    server = serve()
    for call, request, response in (
        ("StartContainer", cri.StartContainerRequest(), cri.StartContainerResponse()),
        ("StopContainer", cri.StopContainerRequest(), cri.StopContainerResponse()),
        ("StopPodSandbox", cri.StopPodSandboxRequest(), cri.StopPodSandboxResponse()),
    ):
        proxy.before(call, request, subject(), None)
        proxy.after(call, request, response, subject(), None)
    assert [stage for stage, _ in received_calls(server, 4)] == [
        *("PreStartContainer", "PostStartContainer", "PostStopContainer", "PostStopPodSandbox"),
    ]
    assert received_calls(server)[0][1]["container_meta"] == {"name": "c", "attempt": 3, "id": "runtime1"}


@pytest.mark.parametrize("trouble", ["error", "killed", "silent"])
@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_the_failure_policy_decides_about_a_server_without_a_reply(
    serve: Serve, tmp_path: Path, policy: str, trouble: str
) -> None:
    answers = {"error": {"error": "no such class"}, "silent": {"delay": "9s"}, "killed": {}}
    server = serve(policy=policy, PreRunPodSandbox=answers[trouble])
    proxy = RegisteredServers(tmp_path, 0.2 if trouble == "silent" else 10.0)
    if trouble == "killed":
        proxy.before("RunPodSandbox", cri.RunPodSandboxRequest(config=POD), Subject(), None)
        server.kill()
    request = cri.RunPodSandboxRequest(config=POD)
    try:
        if policy == "Fail":
            with pytest.raises(HookServersFailed, match=r"hook server err: .*koordlet\.sock"):
                proxy.before("RunPodSandbox", request, Subject(), None)
        else:
            proxy.before("RunPodSandbox", request, Subject(), None)
        assert request == cri.RunPodSandboxRequest(config=POD)
    finally:
        proxy.stop()


def test_a_killed_server_is_called_again_after_its_return(serve: Serve, proxy: RegisteredServers) -> None:
    first = serve()
    proxy.before("RunPodSandbox", cri.RunPodSandboxRequest(config=POD), Subject(), None)
    first.kill()
    proxy.before("RunPodSandbox", cri.RunPodSandboxRequest(config=POD), Subject(), None)
    (Path(first.argv[2])).unlink()
    second = serve()
    proxy.before("RunPodSandbox", cri.RunPodSandboxRequest(config=POD), Subject(), None)
    assert [len(received_calls(entry)) for entry in (first, second)] == [1, 1]
