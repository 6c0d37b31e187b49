"""Pods from the CRI, with a scripted server. Real runtimes: tests/agent and tests/kubernetes."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.agent.pods import manifest
from nri.agent.pods.cri import CriPods
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings, ProxySettings
from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.support.pod_folders import pod_folder

UID = "3b241101-e2bb-4255-8caf-4136c566a962"


class Runtime(CriServer):
    """A runtime with verbose answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.pod_info: dict[str, Any] = {}
        self.container_info: dict[str, Any] = {}

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.asked[method] += 1
        if method == "Version":
            return pb.VersionResponse(runtime_name="containerd")
        if method == "PodSandboxStatus":
            answer = pb.PodSandboxStatusResponse()
            answer.info["info"] = json.dumps(self.pod_info.get(request.pod_sandbox_id))
            return answer
        if method == "ContainerStatus" and request.container_id in self.container_info:
            status = pb.ContainerStatusResponse()
            status.info["info"] = json.dumps(self.container_info[request.container_id])
            return status
        return super().answer(method, request, context)

    def pod(self, pod_id: str, uid: str = UID, **more: Any) -> None:
        self.add_pod(pod_id, "web", **more)
        self.pods[-1].metadata.uid = uid
        self.pod_info[pod_id] = {"config": {"linux": {"cgroup_parent": f"/kubepods/burstable/pod{uid}"}}}


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    runtime = Runtime()
    with runtime.listening(tmp_path / "cri.sock"):
        yield runtime


@pytest.fixture
def source(tmp_path: Path) -> Iterator[CriPods]:
    cri_pods = CriPods(AgentSettings(pods=PodSettings(cri=str(tmp_path / "cri.sock"), interval=0.01)))
    yield cri_pods
    cri_pods.stop()


def test_a_pod_is_composed_in_the_format_of_the_api(runtime: Runtime, source: CriPods) -> None:
    labels = {"app": "web", "io.kubernetes.pod.uid": UID, "io.kubernetes.pod.name": "web"}
    runtime.pod("p1", labels=labels, annotations={"a": "b"}, runtime_handler="kata", created_at=1)
    runtime.add_container("c1", "p1", "main", attempt=2)
    runtime.add_container("c0", "p1", "main", attempt=1)
    runtime.add_container("c2", "p1", "side", state=pb.CONTAINER_CREATED)
    runtime.add_container("c3", "p1", "done", state=pb.CONTAINER_EXITED)
    resources = {"cpu_shares": 512, "cpu_quota": 50000, "cpu_period": 100000}
    runtime.container_info["c1"] = {"config": {"linux": {"resources": resources}}}
    source.ask()
    (pod,) = source.pods()
    assert pod == {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": UID,
            "labels": {"app": "web"},
            "annotations": {"a": "b"},
        },
        "spec": {
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}},
                {"name": "side"},
            ],
            "hostNetwork": False,
            "runtimeClassName": "kata",
        },
        "status": {
            "phase": "Running",
            "startTime": "1970-01-01T00:00:00+00:00",
            "qosClass": "Burstable",
            "containerStatuses": [
                {"name": "main", "containerID": "containerd://c1", "restartCount": 2, "state": {"running": {}}},
                {"name": "side", "containerID": "containerd://c2", "restartCount": 0, "state": {"waiting": {}}},
            ],
        },
        "cgroupParent": f"/kubepods/burstable/pod{UID}",
    }


def test_in_proxy_mode_pods_come_from_the_runtime_behind_the_proxy(runtime: Runtime, tmp_path: Path) -> None:
    runtime.pod("p1")
    behind = ProxySettings(runtime_endpoint=f"unix://{tmp_path}/cri.sock")
    pods = CriPods(AgentSettings(modes=("proxy", "standalone"), proxy=behind))
    pods.ask()
    assert ([pod["metadata"]["uid"] for pod in pods.pods()], pods.problem) == ([UID], "")
    pods.stop()


def test_a_pod_from_the_cri_is_read_like_a_pod_of_the_api(runtime: Runtime, source: CriPods) -> None:
    runtime.pod("p1")
    runtime.add_container("c1", "p1", "main")
    runtime.container_info["c1"] = {"config": {"linux": {"resources": {"cpu_shares": 512, "cpu_quota": 50000}}}}
    source.ask()
    (pod,) = source.pods()
    assert manifest.active(pod)
    folder = pod_folder(pod, "cgroupfs")
    assert folder == f"kubepods/burstable/pod{UID}"
    (context,) = manifest.listed_pod(pod, folder, "", "cgroupfs").containers
    assert context.folder == f"{folder}/c1"
    assert context.resources is not None
    assert (context.resources.cpu_shares, context.resources.cfs_quota) == (512, 50000)


def test_unready_sandboxes_are_left_out_and_the_newest_of_a_pod_counts(runtime: Runtime, source: CriPods) -> None:
    runtime.pod("gone", uid="1", state=pb.SANDBOX_NOTREADY, created_at=9)
    runtime.pod("old", uid="2", created_at=1)
    runtime.pod("young", uid="2", created_at=2)
    runtime.pod("older", uid="2", created_at=1)
    runtime.add_container("c1", "old", "main")
    runtime.add_container("c2", "young", "main")
    source.ask()
    (pod,) = source.pods()
    assert [container_status["containerID"] for container_status in pod["status"]["containerStatuses"]] == [
        "containerd://c2"
    ]


def test_unchanged_pods_and_containers_are_queried_once(runtime: Runtime, source: CriPods) -> None:
    runtime.pod("p1")
    runtime.add_container("c1", "p1", "main")
    runtime.container_info["c1"] = {}
    for _ in range(3):
        source.ask()
    assert runtime.asked == {
        "Version": 1,
        "ListPodSandbox": 3,
        "ListContainers": 3,
        "PodSandboxStatus": 1,
        "ContainerStatus": 1,
    }
    runtime.containers.clear()
    source.ask()
    runtime.add_container("c1", "p1", "main")
    source.ask()
    assert runtime.asked["ContainerStatus"] == 2, "what has gone is forgotten"


def test_without_verbose_responses_the_class_follows_from_the_oom_score(runtime: Runtime, source: CriPods) -> None:
    collected = []
    for score in (-997, 1000, 900):
        runtime.pods.clear()
        runtime.containers.clear()
        runtime.pod(f"p{score}")
        runtime.pod_info.clear()
        runtime.add_container(f"c{score}", f"p{score}", "main")
        runtime.container_info[f"c{score}"] = {"config": {"linux": {"resources": {"oom_score_adj": score}}}}
        source.ask()
        collected.append(source.pods()[0]["status"]["qosClass"])
        assert "cgroupParent" not in source.pods()[0]
    assert collected == ["Guaranteed", "BestEffort", "Burstable"]


def test_a_missing_runtime_is_a_problem_until_it_starts(tmp_path: Path, source: CriPods) -> None:
    source.start()
    deadline = time.monotonic() + 30
    while not source.problem and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "cri.sock" in source.problem
    assert not source.synced
    runtime = Runtime()
    runtime.pod("p1")
    with runtime.listening(tmp_path / "cri.sock"):
        while not source.pods() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (len(source.pods()), source.problem) == (1, "")
    # Calls in progress when the runtime ends are cancelled; the error of the next attempt names the socket.
    while "cri.sock" not in source.problem and time.monotonic() < deadline:
        time.sleep(0.01)
    source.stop()
    assert "cri.sock" in source.problem
    assert len(source.pods()) == 1


def test_a_container_that_ends_during_its_query_is_known_without_resources(runtime: Runtime, source: CriPods) -> None:
    runtime.pod("p1")
    runtime.add_container("c1", "p1", "main")
    runtime.containers[0].state = pb.CONTAINER_RUNNING
    original = runtime.answer

    def answer(method: str, request: Any, context: grpc.ServicerContext) -> Any:
        if method == "ContainerStatus":
            context.abort(grpc.StatusCode.NOT_FOUND, "gone")
        return original(method, request, context)

    runtime.answer = answer  # type: ignore[method-assign]
    source.ask()
    assert source.pods()[0]["spec"]["containers"] == [{"name": "main"}]
    assert source.problem == ""
