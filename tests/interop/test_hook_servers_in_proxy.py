"""A Go hook server on Koordinator's released API, behind the whole proxy and a dry engine without NRI."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.daemon import Daemon
from nri.proxy import HookServerSettings, PluginSettings, Proxy, ProxySettings
from tests.peers.build import peer
from tests.peers.drivers import LineProcess
from tests.support.cri_client import CriClient

IMAGE = "localhost/test:1"
NODE = {"network": pb.NODE}


class Node:
    """An engine, a proxy before it, and a hook server that registers with the proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()
        (folder / "hooks").mkdir()
        config = EngineConfig(
            dry=True,
            socket=folder / "r/cri.sock",
            root=folder / "root",
            state=folder / "state",
            nri=NriConfig(disable=True),
        )
        self.engine = Daemon(replace(config, streaming=replace(config.streaming, address="127.0.0.1")))
        self.engine.start()
        self.stack.callback(self.engine.stop)
        self.settings = ProxySettings(
            listen=str(folder / "p/proxy.sock"),
            runtime_endpoint=str(folder / "r/cri.sock"),
            state=folder / "kept",
            nri=PluginSettings(
                socket_path=str(folder / "nri.sock"),
                plugin_path=str(folder / "plugins"),
                plugin_config_path=str(folder / "conf.d"),
                policy_path="",
                admin_socket="",
            ),
            hook_servers=HookServerSettings(enable=True, folder=folder / "hooks", timeout=10.0),
        )
        self.proxy: Proxy | None = None
        self.stack.callback(self.stop_proxy)
        self.server: LineProcess | None = None

    def start_proxy(self) -> CriClient:
        """A life of the proxy, and a client of it."""
        self.proxy = Proxy(self.settings)
        self.proxy.start()
        return self.stack.enter_context(CriClient(self.folder / "p/proxy.sock"))

    def stop_proxy(self) -> None:
        if self.proxy is not None:
            self.proxy.stop()
            self.proxy = None

    def serve(self, policy: str = "Ignore") -> LineProcess:
        """Start the hook server; `answers` before or after."""
        socket = self.folder / "koordlet.sock"
        socket.unlink(missing_ok=True)
        argv = [
            peer("hookserver"),
            "-socket",
            socket,
            "-policy",
            policy,
            "-register",
            self.folder / "hooks/koordlet.json",
        ]
        self.server = self.stack.enter_context(LineProcess([*argv, "-answers", self.folder / "answers"]))
        self.server.wait_for(lambda line: line.get("stage") == "ready", what="its start")
        return self.server

    def answers(self, **answers: Any) -> None:
        """Answers by stage from now on."""
        (self.folder / "answers").write_text(json.dumps(answers))

    def received_calls(self, count: int) -> list[tuple[str, Any]]:
        """The calls that the hook server reported; wait until there are at least `count`. It reports asynchronously."""
        assert self.server is not None
        calls = itertools.count(1)
        if count:
            self.server.wait_for(lambda line: line["stage"] != "ready" and next(calls) >= count, what=f"{count} calls")
        return [(line["stage"], line["request"]) for line in self.server.lines if line["stage"] != "ready"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.answers()
    with node.stack:
        yield node


def run_pod(cri: CriClient, config: pb.PodSandboxConfig) -> str:
    return str(cri.call("RunPodSandbox", config=config).pod_sandbox_id)


def pod_config(folder: Path, **labels: str) -> pb.PodSandboxConfig:
    config = pb.PodSandboxConfig(
        metadata={"name": "pod", "namespace": "tests", "uid": "u1"}, log_directory=str(folder / "logs"), labels=labels
    )
    config.linux.cgroup_parent = "/kubepods/podu1"
    config.linux.security_context.namespace_options.network = pb.NODE
    return config


def create(cri: CriClient, pod: str, sandbox: pb.PodSandboxConfig, **resources: Any) -> str:
    config = pb.ContainerConfig(
        metadata={"name": "main"},
        image={"image": IMAGE, "user_specified_image": IMAGE},
        command=["/bin/true"],
        envs=[{"key": "A", "value": b"1"}],
        linux={"resources": resources},
    )
    return str(cri.call("CreateContainer", pod_sandbox_id=pod, config=config, sandbox_config=sandbox).container_id)


def spec(cri: CriClient, container: str) -> dict[str, Any]:
    info = cri.call("ContainerStatus", container_id=container, verbose=True).info["info"]
    matches: dict[str, Any] = json.loads(info)["runtimeSpec"]
    return matches


def test_a_hook_server_changes_the_whole_life_of_a_pod(node: Node) -> None:
    node.serve()
    node.answers(
        PreRunPodSandbox={"response": {"annotations": {"by": "koordlet"}, "labels": {"seen": "1"}}},
        PreCreateContainer={
            "response": {
                "container_envs": {"B": "2"},
                "container_annotations": {"cb": "2"},
                "container_resources": {"cpu_quota": "50000", "cpu_shares": "512", "cpuset_cpus": "0"},
            }
        },
        PreUpdateContainerResources={"response": {"container_resources": {"cpu_shares": "256"}}},
    )
    cri, config = node.start_proxy(), pod_config(node.folder)
    pod = run_pod(cri, config)
    listed = cri.call("ListPodSandbox").items[0]
    assert (dict(listed.labels), dict(listed.annotations)) == ({"seen": "1"}, {"by": "koordlet"})
    container = create(cri, pod, config, cpu_period=100_000, cpuset_cpus="0", memory_limit_in_bytes=1 << 26)
    created = spec(cri, container)
    assert {"A=1", "B=2"} <= set(created["process"]["env"])
    assert cri.call("ContainerStatus", container_id=container).status.annotations["cb"] == "2"
    cpu = created["linux"]["resources"]["cpu"]
    assert (cpu["quota"], cpu["shares"], cpu["cpus"]) == (50_000, 512, "0")
    cri.call("StartContainer", container_id=container)
    node.stop_proxy()
    cri = node.start_proxy()
    cri.call("UpdateContainerResources", container_id=container, linux={"memory_limit_in_bytes": 1 << 27})
    stage, messages = node.received_calls(5)[-1]
    assert stage == "PreUpdateContainerResources"
    assert messages["container_envs"] == {"A": "1", "B": "2"}, "known over the proxy's restart"
    assert messages["container_resources"]["cpu_quota"] == "50000"
    assert messages["pod_cgroup_parent"] == "/kubepods/podu1"
    status = cri.call("ContainerStatus", container_id=container).status.resources.linux
    assert (status.cpu_shares, status.cpu_quota, status.memory_limit_in_bytes) == (256, 50_000, 1 << 27)
    cri.call("StopContainer", container_id=container)
    cri.call("StopPodSandbox", pod_sandbox_id=pod)
    cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    assert [stage for stage, _ in node.received_calls(7)] == [
        *("PreRunPodSandbox", "PreCreateContainer", "PreStartContainer", "PostStartContainer"),
        *("PreUpdateContainerResources", "PostStopContainer", "PostStopPodSandbox"),
    ]


def test_under_fail_a_refusal_or_a_dead_server_fails_the_kubelets_call(node: Node) -> None:
    server = node.serve("Fail")
    cri, config = node.start_proxy(), pod_config(node.folder)
    pod = run_pod(cri, config)
    node.answers(PreCreateContainer={"error": "no such class"})
    with pytest.raises(grpc.RpcError) as caught:
        create(cri, pod, config)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert "hook server err: " in caught.value.details()
    assert "no such class" in caught.value.details()
    server.kill()
    server.wait()
    with pytest.raises(grpc.RpcError, match="hook server err"):
        create(cri, pod, config)
    assert list(cri.call("ListContainers").containers) == []
    node.answers()
    node.serve("Fail")
    assert create(cri, pod, config)


def test_under_ignore_pods_run_unchanged_without_their_server(node: Node) -> None:
    server = node.serve("Ignore")
    cri, config = node.start_proxy(), pod_config(node.folder)
    node.answers(PreCreateContainer={"error": "no such class"}, PreRunPodSandbox={"error": "no"})
    pod = run_pod(cri, config)
    assert "A=1" in spec(cri, create(cri, pod, config))["process"]["env"]
    server.kill()
    server.wait()
    config.metadata.name, config.metadata.uid = "second", "u2"
    assert run_pod(cri, config)


def test_a_pod_with_the_skip_label_is_never_sent_to_the_server(node: Node) -> None:
    node.serve("Fail")
    node.answers(PreRunPodSandbox={"error": "no"}, PreCreateContainer={"error": "no"})
    cri = node.start_proxy()
    config = pod_config(node.folder, **{"runtimeproxy.koordinator.sh/skip-hookserver": "true"})
    assert create(cri, run_pod(cri, config), config)
    assert node.received_calls(0) == []
