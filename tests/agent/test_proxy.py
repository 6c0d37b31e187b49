"""Mode proxy in front of containerd 2.4 and our engine without NRI: values at the first instruction, and kills.

What a process finds in force it writes down itself, as the first thing that it does. The kubelet's calls go to the
agent's proxy; what is looked at is read from the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from tests.agent.files import of_process
from tests.agent.node import WAIT_S, AgentProgram, Node, machine
from tests.agent.pods import COMMAND, SCORED, SENSITIVE, need_controllers
from tests.agent.test_nri import ALL_CPUS, FAIL, GATES, ratio, restart_killed, ruled, running, topology
from tests.support.needs import need, need_root
from tests.support.waiting import wait_for
from tools.runtimes import Containerd, MissingError, install
from tools.runtimes.config import DaemonSettings
from tools.runtimes.cri import Cri, Pod
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.leftovers import sweep
from tools.runtimes.machine import ensure_packages


@pytest.fixture(scope="module", params=["containerd", "engine"])
def quiet(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A runtime that serves no NRI."""
    need_root()
    need_controllers()
    try:
        ensure_packages(print, PACKAGES if request.param == "engine" else ())
        sweep()
        engine: Any = (
            Engine(nri=False)
            if request.param == "engine"
            else Containerd(install("2.4", print), DaemonSettings(nri={"disable": True}))
        )
    except MissingError as error:
        need(False, str(error))
        raise
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


@pytest.fixture
def place(quiet: Any, tmp_path: Path) -> Iterator[Node]:
    """A node of either runtime without pods, under rules: one share pool, CPUs that are twice as fast."""
    running(quiet)
    with machine(quiet.run_dir / "host", quiet.run_dir.name) as root:
        yield ruled(Node(quiet, root, tmp_path / "agent"))
        running(quiet)
        quiet.cri.remove_all()


class Behind(AgentProgram):
    """The agent in mode proxy, and a client of its proxy."""

    def __init__(self, node: Node, first: str = "") -> None:
        more = f"""
{GATES}
[proxy]
listen = "{node.folder}/proxy.sock"
runtime_endpoint = "{node.daemon.cri_socket}"
state = "{node.folder}/kept"
policy_path = ""
"""
        super().__init__(node, "proxy", more)
        file = node.folder / "agent.toml"
        file.write_text(first + file.read_text())
        self.cri: Cri

    def start(self) -> None:
        """Start it, and connect anew: a client that was refused would wait longer and longer."""
        super().start()
        self.cri = Cri(self.node.folder / "proxy.sock", self.node.cgroup)
        self.cri._log_dir = self.node.daemon.run_dir / "logs"

    def __exit__(self, *arguments: Any) -> None:  # noqa: PYI036  as the other's
        self.cri.close()
        super().__exit__(*arguments)

    def pod(self, name: str, kube_class: str, **words: Any) -> Pod:
        return self.node.run_pod(name, kube_class, self.cri, **words)

    def batch(self, name: str = "batch") -> Pod:
        return self.pod(name, "BestEffort", **SCORED)

    def web(self, name: str = "web") -> Pod:
        return self.pod(name, "Burstable", **SENSITIVE)

    def recorded(self, pod: Pod) -> list[str]:
        """What the container's process found at its first instruction: shares, quota, memory, OOM score, CPUs."""
        return self.node.recorded(pod, self.story)


def test_values_hold_at_the_first_instruction(place: Node) -> None:
    with Behind(place) as agent:
        batch = agent.batch()
        agent.cri.run(batch, "app", COMMAND, cpuset_cpus="0", cpu_shares=2)
        web = agent.web()
        agent.cri.run(web, "app", COMMAND, cpu_quota=100_000, cpu_period=100_000, cpu_shares=1024)
        assert agent.recorded(batch) == ["512", "25000", str(64 << 20), "555", ALL_CPUS]
        shares, quota, _, _, cpus = agent.recorded(web)
        assert (shares, quota, cpus) == ("1024", "50000", "1")
        assert place.value(batch, "cpu.shares") == "512"
        assert place.value(batch, "memory.limit_in_bytes") == str(64 << 20)
        message = {row["name"]: row["outcome"] for row in agent.explain("batch")["writes"] if row["container"] == "app"}
        assert message["cpu.cfs_quota"] == message["memory.limit"] == "applied", message


def test_the_kubelets_updates_are_scaled_and_cleared_cpus_stay_cleared(place: Node) -> None:
    with Behind(place) as agent:
        app = agent.cri.run(agent.batch(), "app", COMMAND)
        served = agent.cri.run(agent.web(), "app", COMMAND, cpu_quota=100_000, cpu_period=100_000)
        agent.cri.update(served, cpu_quota=300_000, cpu_period=100_000)
        assert place.of(served, "cpu.cfs_quota_us") == "150000"
        assert place.of(served, "cpuset.cpus") == "1"
        agent.cri.update(app, cpuset_cpus="0", memory_limit_in_bytes=32 << 20)
        assert place.of(app, "cpuset.cpus") == ALL_CPUS
        assert place.of(app, "memory.limit_in_bytes") == str(64 << 20)


def test_a_changed_rule_reaches_running_containers_also_after_a_restart_of_the_agent(place: Node) -> None:
    with Behind(place) as agent:
        served = agent.cri.run(agent.web(), "app", COMMAND, cpu_quota=100_000, cpu_period=100_000)
        assert place.of(served, "cpu.cfs_quota_us") == "50000"
        ratio(place, "4")
        wait_for(lambda: place.of(served, "cpu.cfs_quota_us") == "25000", agent.story)
        ratio(place, "2")
        wait_for(lambda: place.of(served, "cpu.cfs_quota_us") == "50000", agent.story)
        assert agent.stop() == 0
        topology(place, "0")
        agent.start()
        wait_for(lambda: place.of(served, "cpuset.cpus") == "0", agent.story)
        assert place.of(served, "cpu.cfs_quota_us") == "50000", "it is not scaled twice"
        ratio(place, "4")
        wait_for(lambda: place.of(served, "cpu.cfs_quota_us") == "25000", agent.story)


class Creation(threading.Thread):
    """A container's creation, begun while the agent is stopped by a signal, so that it waits at the proxy."""

    def __init__(self, agent: Behind, pod: Pod) -> None:
        super().__init__(daemon=True)
        self.agent, self.pod, self.container = agent, pod, ""
        self.error: grpc.RpcError | None = None
        agent.pause()
        self.start()
        agent.wait_asked(f"{agent.node.folder}/.")  # gRPC made the socket there before it had its name
        assert self.is_alive(), "it waits for the agent"

    def run(self) -> None:
        try:
            self.container = self.agent.cri.create(self.pod, "app", COMMAND)
        except grpc.RpcError as error:
            self.error = error


@pytest.mark.parametrize("first", ["", FAIL], ids=["Ignore", "Fail"])
def test_a_creation_fails_if_the_agent_is_killed_so_no_container_lacks_its_policy(place: Node, first: str) -> None:
    """In this mode every request needs the agent, whatever the failure policy is; the kubelet retries."""
    with Behind(place, first) as agent:
        web = agent.web()
        creation = Creation(agent, web)
        agent.kill()
        creation.join(WAIT_S)
        assert creation.container == "" and creation.error is not None
        assert creation.error.code() is grpc.StatusCode.UNAVAILABLE
        containers = place.daemon.cri.call("ListContainers", pb.ListContainersRequest()).containers
        assert [container.id for container in containers if container.pod_sandbox_id == web.id] == []
        agent.start()
        agent.cri.run(web, "app", COMMAND)
        assert agent.recorded(web)[4] == "1"


def test_running_containers_keep_their_values_while_the_agent_is_down_and_are_known_after_its_restart(
    place: Node,
) -> None:
    with Behind(place) as agent:
        batch = agent.batch()
        app = agent.cri.run(batch, "app", COMMAND)
        agent.kill()
        assert place.of(app, "cpu.cfs_quota_us") == "25000"
        # What is made at the runtime's own socket meanwhile has no policy until the agent is back.
        around = place.run_pod("around", "BestEffort", **SCORED)
        unseen = place.daemon.cri.run(around, "app", COMMAND)
        assert place.of(unseen, "cpu.cfs_quota_us") == "-1"
        agent.start()
        wait_for(lambda: place.of(unseen, "cpu.cfs_quota_us") == "25000", agent.story)
        assert place.of(app, "cpu.cfs_quota_us") == "25000"
        agent.cri.remove_pod(batch.id)
        agent.cri.remove_pod(around.id)
        agent.wait_held("proxy containers", 0)


def test_a_killed_runtime_is_unavailable_to_the_kubelet_until_it_restarts(place: Node) -> None:
    with Behind(place) as agent:
        batch = agent.batch()
        app = agent.cri.run(batch, "app", COMMAND)
        pid = place.pid(app)
        place.daemon.kill()
        with pytest.raises(grpc.RpcError) as caught:
            agent.cri.create(batch, "other")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert of_process(pid, "cpu.cfs_quota_us") == "25000"
        wait_for(lambda: "which does not respond" in agent.story(), agent.story)
        restart_killed(place.daemon)
        agent.wait_ready()
        web = agent.web()
        agent.cri.run(web, "app", COMMAND)
        assert agent.recorded(web)[4] == "1"


def test_a_malformed_annotation_affects_only_its_own_pod(place: Node) -> None:
    with Behind(place) as agent:
        broken = agent.pod(
            "broken", "Burstable", annotations={"scheduling.koordinator.sh/resource-status": "{"}, **SENSITIVE
        )
        agent.cri.run(broken, "app", COMMAND)
        web = agent.web()
        agent.cri.run(web, "app", COMMAND)
        assert agent.recorded(broken)[4] == ALL_CPUS
        assert agent.recorded(web)[4] == "1"
        assert agent.explain("broken")["errors"]
