"""Koordinator's hook protocol on a real containerd without NRI: a server in Go, and the agent, behind our proxy.

With ``NRI_KOORDPROXY=1`` the agent is also put behind Koordinator's own proxy, which takes minutes to build.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.proxy import HookServerSettings, PluginSettings, Proxy, ProxySettings
from tests.agent.files import of_cgroup, record, recorded
from tests.agent.node import AgentProgram, Node, machine
from tests.agent.pods import BATCH, containerd
from tests.peers.build import peer
from tests.peers.drivers import LineProcess
from tests.support.waiting import wait_for
from tools.runtimes import Containerd
from tools.runtimes.config import DaemonSettings
from tools.runtimes.cri import Cri, Pod

SKIP = {"runtimeproxy.koordinator.sh/skip-hookserver": "true"}
#: What holds for the process at its start, and whether a variable is there.
COMMAND = record("echo added=$ADDED")


@pytest.fixture(scope="module")
def quiet() -> Iterator[Containerd]:
    """A containerd that serves no NRI."""
    with containerd(settings=DaemonSettings(nri={"disable": True})) as created:
        assert not created.nri_socket.exists()
        yield created


class Proxied(Node):
    """A node whose pods are made through a proxy, before which hook servers register."""

    def __init__(self, daemon: Containerd, root: Path, folder: Path, stack: ExitStack) -> None:
        super().__init__(daemon, root, folder)
        self.hooks = folder / "hookserver.d"
        self.hooks.mkdir()
        self.stack = stack
        self.settings = ProxySettings(
            listen=str(folder / "p/proxy.sock"),
            runtime_endpoint=str(daemon.cri_socket),
            state=folder / "kept",
            nri=PluginSettings(
                socket_path=str(folder / "nri.sock"),
                plugin_path=str(folder / "plugins"),
                plugin_config_path=str(folder / "conf.d"),
                policy_path="",
                admin_socket="",
            ),
            hook_servers=HookServerSettings(enable=True, folder=self.hooks, timeout=10.0),
        )
        self.proxy: Proxy | None = None
        stack.callback(self.stop_proxy)
        self.start_proxy()
        self.cri = Cri(folder / "p/proxy.sock", self.cgroup)
        stack.callback(self.cri.close)

    def start_proxy(self) -> None:
        """A life of the proxy."""
        self.proxy = Proxy(self.settings)
        self.proxy.start()

    def stop_proxy(self) -> None:
        """The end of it."""
        if self.proxy is not None:
            self.proxy.stop()
            self.proxy = None

    def pod(self, name: str, **words: Any) -> Pod:
        """Run a pod through the proxy."""
        return self.run_pod(name, "BestEffort", self.cri, **words)

    def app(self, pod: Pod, **options: Any) -> str:
        """Run its container through the proxy."""
        return self.cri.run(pod, "app", COMMAND, **options)

    def container_values(self, pod: Pod) -> list[str]:
        """What the container's first process has written down."""
        wait_for(
            lambda: len(self.container_output(pod, "app").splitlines()) >= 4, lambda: self.container_output(pod, "app")
        )
        return recorded(self.container_output(pod, "app").splitlines())

    def serve(self, policy: str, **answers: Any) -> LineProcess:
        """Start the server in Go, with answers by stage."""
        self.answer(**answers)
        socket = self.folder / "go.sock"
        socket.unlink(missing_ok=True)
        argv = [peer("hookserver"), "-socket", socket, "-policy", policy, "-register", self.hooks / "go.json"]
        server = self.stack.enter_context(LineProcess([*argv, "-answers", self.folder / "answers"]))
        server.wait_for(lambda line: line.get("stage") == "ready", what="its start")
        return server

    def answer(self, **answers: Any) -> None:
        """What the server answers from now on."""
        (self.folder / "answers").write_text(json.dumps(answers))


class Koordinated(Proxied):
    """A node whose pods are made through Koordinator's own proxy, which knows one folder for hook servers only."""

    #: In a separate mount namespace, /etc has that folder; it stays unchanged for all other processes.
    SCRIPT = """
        set -e
        mount -t tmpfs tmpfs "$1"
        mkdir "$1/upper" "$1/work"
        mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
        mkdir -p /etc/runtime/hookserver.d
        mount --bind "$2" /etc/runtime/hookserver.d
        exec "$3" --koord-runtimeproxy-endpoint "$4" --remote-runtime-service-endpoint "$5"
    """

    def start_proxy(self) -> None:
        """A life of the proxy."""
        socket, place = self.folder / "p/proxy.sock", self.folder / "etc"
        for folder in (socket.parent, place):
            folder.mkdir(exist_ok=True)
        program = peer("koord-runtime-proxy")
        argv = ["unshare", "--mount", "sh", "-c", self.SCRIPT, "sh", place, self.hooks, program, socket]
        log = self.folder / "proxy.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*argv, self.daemon.cri_socket], stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        wait_for(lambda: socket.exists() or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text()


#: The proxies that the agent is put behind.
KINDS = [Proxied, *([Koordinated] if os.environ.get("NRI_KOORDPROXY") else [])]


@pytest.fixture
def kind() -> type[Proxied]:
    """The proxy: our proxy, unless the test overrides this fixture."""
    return Proxied


@pytest.fixture
def proxied(quiet: Containerd, tmp_path: Path, kind: type[Proxied]) -> Iterator[Proxied]:
    with ExitStack() as stack:
        root = stack.enter_context(machine(quiet.run_dir / "host", quiet.run_dir.name))
        created = kind(quiet, root, tmp_path / "node", stack)
        yield created
        with contextlib.suppress(grpc.RpcError):
            quiet.cri.remove_all()


def test_a_hook_server_in_go_changes_a_pod_and_its_container(proxied: Proxied) -> None:
    server = proxied.serve(
        "Fail",
        PreRunPodSandbox={"response": {"annotations": {"by": "go"}, "labels": {"seen": "1"}}},
        PreCreateContainer={
            "response": {
                "container_envs": {"ADDED": "yes"},
                "container_annotations": {"by": "go"},
                "container_resources": {
                    "cpu_period": "100000",
                    "cpu_quota": "40000",
                    "cpu_shares": "300",
                    "memory_limit_in_bytes": str(48 << 20),
                },
            }
        },
    )
    pod = proxied.pod("web")
    container = proxied.app(pod, memory_limit_in_bytes=96 << 20)
    assert proxied.container_values(pod) == ["300", "40000", str(48 << 20), "added=yes"]
    direct = proxied.daemon.cri
    status = direct.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id)).status
    assert (status.annotations["by"], status.labels["seen"]) == ("go", "1")
    actual = direct.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container)).status
    assert actual.annotations["by"] == "go"
    proxied.answer(PreUpdateContainerResources={"response": {"container_resources": {"cpu_shares": "200"}}})
    proxied.stop_proxy()
    proxied.start_proxy()
    proxied.cri.update(container, memory_limit_in_bytes=64 << 20)
    folder = f"{pod.config.linux.cgroup_parent.strip('/')}/{container}"
    assert of_cgroup(folder, "cpu.shares") == "200"
    assert of_cgroup(folder, "cpu.cfs_quota_us") == "40000"
    assert of_cgroup(folder, "memory.limit_in_bytes") == str(64 << 20)
    proxied.cri.remove_pod(pod.id)
    server.wait_for(lambda line: line.get("stage") == "PostStopPodSandbox", what="the pod's end")
    message = [line for line in server.lines if line["stage"] != "ready"]
    assert [line["stage"] for line in message] == [
        *("PreRunPodSandbox", "PreCreateContainer", "PreStartContainer", "PostStartContainer"),
        *("PreUpdateContainerResources", "PostStopPodSandbox"),
    ]
    assert message[4]["request"]["container_resources"]["cpu_quota"] == "40000", "known over the proxy's restart"


def test_the_failure_policy_decides_about_a_dead_or_refusing_hook_server(proxied: Proxied) -> None:
    refuse = {"PreCreateContainer": {"error": "no such class"}}
    server = proxied.serve("Fail", **refuse)
    pod = proxied.pod("web")
    with pytest.raises(grpc.RpcError, match=r"hook server err.*no such class"):
        proxied.app(pod)
    server.kill()
    server.wait()
    with pytest.raises(grpc.RpcError, match="hook server err"):
        proxied.app(pod)
    assert not proxied.daemon.cri.call("ListContainers", pb.ListContainersRequest()).containers
    skipped = proxied.pod("server", labels=SKIP)
    proxied.app(skipped)
    assert proxied.container_values(skipped)[3] == "added="
    server = proxied.serve("Ignore", **refuse)
    proxied.app(pod)
    assert proxied.container_values(pod)[3] == "added="
    server.kill()
    server.wait()
    other = proxied.pod("other")
    proxied.app(other)
    assert proxied.container_values(other)[3] == "added="


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.lower())
def test_in_mode_hooks_values_hold_before_the_first_instruction(proxied: Proxied) -> None:
    proxied.rule("NodeSLO", {"spec": {}})
    more = f'[hooks]\nsocket = "{proxied.folder}/h/hooks.sock"\nregistration_folder = "{proxied.hooks}"\n'
    with AgentProgram(proxied, "hooks", more) as agent:
        pod = proxied.pod("batch", **BATCH)
        container = proxied.app(pod)
        assert proxied.container_values(pod)[:3] == ["512", "50000", str(64 << 20)]
        assert proxied.value(pod, "cpu.cfs_quota_us") == "50000"
        assert proxied.value(pod, "memory.limit_in_bytes") == str(64 << 20)
        proxied.rule("Node", {"metadata": {"annotations": {"node.koordinator.sh/cpu-normalization-ratio": "2"}}})
        folder = f"{pod.config.linux.cgroup_parent.strip('/')}/{container}"
        wait_for(lambda: of_cgroup(folder, "cpu.cfs_quota_us") == "25000", agent.story)
        wait_for(lambda: proxied.value(pod, "cpu.cfs_quota_us") == "25000", agent.story)
        message = agent.explain("batch")
        assert {row["transport"] for row in message["values"]} == {"hooks"}
        agent.kill()
        other = proxied.pod("later", **BATCH)
        proxied.app(other)
        assert proxied.container_values(other)[0] != "512", "Ignore: it runs, without the agent's values"
        assert of_cgroup(folder, "cpu.cfs_quota_us") == "25000", "what was set stays"
