"""Mode nri on containerd 2.4 and our engine: values at the first instruction, and kills during a creation.

What a process finds in force it writes down itself, as the first thing that it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

import nri
from nri.agent.agent import Agent
from nri.agent.hooks import MAKE_ROOM, Hook
from nri.agent.koordinator.profile import PROFILE
from nri.agent.model import NO_CHANGES, Changes, Container, Decision
from nri.agent.profile import PROFILES
from nri.agent.settings import AgentSettings
from nri.agent.settings.tables import NriSettings, PodSettings, RuleSettings
from nri.stub.session.session import Session
from tests.agent.files import of_process
from tests.agent.node import REQUEST_S, WAIT_S, AgentProgram, Node, machine
from tests.agent.pods import COMMAND, SCORED, SENSITIVE
from tests.support.waiting import wait_for
from tools.runtimes import Containerd
from tools.runtimes.cri import Pod
from tools.runtimes.engine import Engine

GATES = """
[gates]
OOMScoreAdj = true
CPUNormalization = true
BECPUSuppress = false
CPUBurst = false
"""
FAIL = 'failure_policy = "Fail"\n'
ALL_CPUS = "0-1"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(request_timeout_s=REQUEST_S)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


@pytest.fixture(params=["containerd", "engine"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """A node of either runtime without pods, under rules: one share pool, CPUs that are twice as fast."""
    if request.param == "containerd":
        daemon: Any = request.getfixturevalue("daemon")
        running(daemon)
        node = Node(daemon, request.getfixturevalue("root"), tmp_path / "agent")
        yield ruled(node)
        running(daemon)
        daemon.cri.remove_all()
        return
    own_part = request.getfixturevalue("engine")
    running(own_part)
    with machine(own_part.run_dir / "host", own_part.run_dir.name) as root:
        yield ruled(Node(own_part, root, tmp_path / "agent"))
        running(own_part)
        own_part.cri.remove_all()


def ruled(node: Node) -> Node:
    topology(node, "1")
    ratio(node, "2")
    return node


def topology(node: Node, cpus: str) -> None:
    pools = json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])
    node.rule("NodeResourceTopology", {"metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": pools}}})


def ratio(node: Node, text: str) -> None:
    node.rule("Node", {"metadata": {"annotations": {"node.koordinator.sh/cpu-normalization-ratio": text}}})


def failing(node: Node) -> AgentProgram:
    """An agent with the failure policy Fail."""
    agent_program = AgentProgram(node, "nri", GATES)
    file = node.folder / "agent.toml"
    file.write_text(FAIL + file.read_text())
    return agent_program


def test_with_pods_from_nri_values_are_repaired_in_the_pods_folders_until_the_pod_is_removed(place: Node) -> None:
    with AgentProgram(place, "nri,standalone", GATES, pods="nri") as agent:
        pod = place.run_pod("batch", "BestEffort", **SCORED)
        container = place.daemon.cri.run(pod, "app", COMMAND)
        wait_for(lambda: place.value(pod, "cpu.shares") == "512", agent.story)
        place.overwrite(pod, "cpu.shares", "10")
        wait_for(lambda: place.value(pod, "cpu.shares") == "512", agent.story)
        agent.kill()
        agent.start()
        pid = place.pid(container)
        wait_for(lambda: of_process(pid, "cpu.shares") == "512", agent.story)
        place.overwrite(pod, "cpu.shares", "10")
        wait_for(lambda: place.value(pod, "cpu.shares") == "512", agent.story)
        place.remove_pod(pod)
        wait_for(lambda: "pods: 0 pods" in agent.story(), agent.story)


def running(daemon: Containerd | Engine) -> None:
    """Start a runtime that a failed test has left dead."""
    try:
        _ = daemon.pid
    except RuntimeError:
        restart_killed(daemon)


def restart_killed(daemon: Containerd | Engine) -> None:
    """Restart a runtime that was killed."""
    if isinstance(daemon, Engine):
        daemon.restart()
    else:
        daemon.start()


class Creation(threading.Thread):
    """A container's creation, which waits for the agent, because that is stopped by a signal until it is killed."""

    def __init__(self, node: Node, pod: Pod, agent: AgentProgram) -> None:
        super().__init__(daemon=True)
        self.node, self.pod = node, pod
        self.container = ""
        self.error: Exception | None = None
        agent.pause()
        self.start()
        agent.wait_asked(str(node.daemon.nri_socket))
        assert self.is_alive(), "the runtime waits for the agent's answer"

    def run(self) -> None:
        try:
            self.container = self.node.daemon.cri.create(self.pod, "app", COMMAND)
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
            self.error = error

    def over(self) -> Creation:
        self.join(WAIT_S)
        assert not self.is_alive()
        return self


def test_values_hold_at_the_first_instruction(place: Node) -> None:
    with AgentProgram(place, "nri", GATES) as agent:
        batch = place.run_pod("batch", "BestEffort", **SCORED)
        place.daemon.cri.run(batch, "app", COMMAND, cpuset_cpus="0", cpu_shares=2)
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        place.daemon.cri.run(web, "app", COMMAND, cpu_quota=100_000, cpu_period=100_000, cpu_shares=1024)
        assert place.recorded(batch, agent.story) == ["512", "25000", str(64 << 20), "555", ALL_CPUS]
        shares, quota, _, _, cpus = place.recorded(web, agent.story)
        assert (shares, quota, cpus) == ("1024", "50000", "1")
        assert place.value(batch, "cpu.shares") == "512"
        assert place.value(batch, "memory.limit_in_bytes") == str(64 << 20)
        message = {row["name"]: row["outcome"] for row in agent.explain("batch")["writes"] if row["container"] == "app"}
        assert message["cpu.cfs_quota"] == message["memory.limit"] == "applied", message
        assert message["cpuset.cpus"] in ("applied", "unchanged"), message


def test_a_container_with_the_smallest_quota_starts_on_faster_cpus(place: Node) -> None:
    """10m is a quota of 1 ms, and the kernel does not accept half of it."""
    with AgentProgram(place, "nri", GATES) as agent:
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        place.daemon.cri.run(web, "app", COMMAND, cpu_quota=1000, cpu_period=100_000)
        assert place.recorded(web, agent.story)[1] == "1000"


def test_a_container_gets_its_share_of_a_gpu(place: Node, tmp_path: Path) -> None:
    library = tmp_path / "vgpu/libvgpu.so"
    library.parent.mkdir()
    library.write_text("a library")
    more = f'[gpu]\nlibrary = "{library}"\n'
    share = {"koordinator.sh/gpu-memory": "8Gi", "koordinator.sh/gpu-memory-ratio": "50"}
    annotations = {
        "scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": [{"minor": 3, "resources": share}]})
    }
    locks = Path("/tmp/vgpulock")
    were_there = locks.exists()
    locks.mkdir(exist_ok=True)  # the root that the agent has here is not the one that the runtime mounts from
    try:
        with AgentProgram(place, "nri", GATES + "GPUEnvInject = true\n" + more) as agent:
            labels = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
            pod = place.run_pod("gpu", "Burstable", labels=labels, annotations=annotations)
            words = f"echo $NVIDIA_VISIBLE_DEVICES $CUDA_DEVICE_MEMORY_LIMIT; cat {library}; echo; sleep 1000"
            place.daemon.cri.run(pod, "app", ("sh", "-c", words), env={"NVIDIA_VISIBLE_DEVICES": "all"})
            wait_for(lambda: len(place.container_output(pod, "app").splitlines()) >= 2, agent.story)
            assert place.container_output(pod, "app").splitlines()[:2] == [f"3 {8 << 30}", "a library"]
    finally:
        if not were_there:
            locks.rmdir()


def test_the_kubelets_updates_are_scaled_and_cleared_cpus_stay_cleared(place: Node) -> None:
    cri = place.daemon.cri
    with AgentProgram(place, "nri", GATES):
        batch = place.run_pod("batch", "BestEffort", **SCORED)
        app = cri.run(batch, "app", COMMAND)
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        served = cri.run(web, "app", COMMAND, cpu_quota=100_000, cpu_period=100_000)
        cri.update(served, cpu_quota=300_000, cpu_period=100_000)
        assert place.of(served, "cpu.cfs_quota_us") == "150000"
        assert place.of(served, "cpuset.cpus") == "1"
        cri.update(app, cpuset_cpus="0", memory_limit_in_bytes=32 << 20)
        assert place.of(app, "cpuset.cpus") == ALL_CPUS
        assert place.of(app, "memory.limit_in_bytes") == str(64 << 20)


def test_a_changed_ratio_scales_the_requested_quota_also_after_a_restart_of_the_agent(place: Node) -> None:
    with AgentProgram(place, "nri", GATES) as agent:
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        served = place.daemon.cri.run(web, "app", COMMAND, cpu_quota=100_000, cpu_period=100_000)
        assert place.of(served, "cpu.cfs_quota_us") == "50000"
        ratio(place, "4")
        wait_for(lambda: place.of(served, "cpu.cfs_quota_us") == "25000", agent.story)
        ratio(place, "2")
        wait_for(lambda: place.of(served, "cpu.cfs_quota_us") == "50000", agent.story)
        assert agent.stop() == 0
        agent.start()
        assert place.of(served, "cpu.cfs_quota_us") == "50000", "it is not scaled twice"
        ratio(place, "4")
        wait_for(lambda: place.of(served, "cpu.cfs_quota_us") == "25000", agent.story)


def test_values_are_missing_between_a_kill_of_the_agent_during_creation_and_its_restart(place: Node) -> None:
    """Under failure policy Ignore the runtime continues without the agent, which applies its values on its return."""
    with AgentProgram(place, "nri", GATES) as agent:
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        creation = Creation(place, web, agent)
        agent.kill()
        created = creation.over().container
        assert created, creation.error
        agent.start()
        place.daemon.cri.start(created)
        assert place.recorded(web, agent.story)[4] == "1"


def test_an_agent_that_restarts_after_the_start_applies_the_values_to_the_running_container(place: Node) -> None:
    with AgentProgram(place, "nri", GATES) as agent:
        batch = place.run_pod("batch", "BestEffort", **SCORED)
        creation = Creation(place, batch, agent)
        agent.kill()
        created = creation.over().container
        place.daemon.cri.start(created)
        assert place.recorded(batch, agent.story)[1] == "-1", "without the agent nothing is in force"
        assert place.value(batch, "cpu.cfs_quota_us") == "25000", "what it had written of the pod stays"
        agent.start()
        wait_for(lambda: place.of(created, "cpu.cfs_quota_us") == "25000", agent.story)
        wait_for(lambda: place.of(created, "memory.limit_in_bytes") == str(64 << 20), agent.story)
        score = Path(f"/proc/{place.pid(created)}/oom_score_adj")
        wait_for(lambda: score.read_text().strip() == "555", agent.story)


def test_after_a_late_answer_values_still_hold_before_the_first_instruction(place: Node) -> None:
    with AgentProgram(place, "nri", GATES) as agent:
        batch = place.run_pod("batch", "BestEffort", **SCORED)
        creation = Creation(place, batch, agent)
        created = creation.over().container
        assert created, creation.error
        os.kill(agent.pid, signal.SIGCONT)
        place.daemon.cri.start(created)
        assert place.recorded(batch, agent.story)[:4] == ["512", "25000", str(64 << 20), "555"]
        agent.wait_ready()
        if os.environ.get("NRI_CONTAINERD", "2.4") == "2.4":  # older ones hang up
            assert agent.metric("nri_agent_events_total", transport="nri", event="connected") == 1, "it did not stay"


def test_with_failure_policy_fail_a_creation_fails_if_its_agent_is_killed(place: Node) -> None:
    with AgentProgram(place, "nri", GATES) as agent:
        agent.stop()
    with failing(place) as agent:
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        creation = Creation(place, web, agent)
        agent.kill()
        assert creation.over().container == ""
        assert isinstance(creation.error, grpc.RpcError)
        assert "nri-agent" in str(creation.error)
        agent.start()
        place.daemon.cri.run(web, "app", COMMAND)
        assert place.recorded(web, agent.story)[4] == "1"


def test_with_failure_policy_fail_a_malformed_annotation_is_an_error_that_names_the_hook(place: Node) -> None:
    with failing(place) as agent:
        annotations = {"scheduling.koordinator.sh/resource-status": "{"}
        with pytest.raises(grpc.RpcError, match="CPUSetAllocator: annotation scheduling"):
            place.run_pod("broken", "Burstable", annotations=annotations)
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        place.daemon.cri.run(web, "app", COMMAND)
        assert place.recorded(web, agent.story)[4] == "1"


def test_after_a_kill_of_the_runtime_during_creation_all_values_are_complete(place: Node) -> None:
    daemon = place.daemon
    with AgentProgram(place, "nri", GATES) as agent:
        batch = place.run_pod("batch", "BestEffort", **SCORED)
        first = daemon.cri.run(batch, "app", COMMAND)
        pid = place.pid(first)
        web = place.run_pod("web", "Burstable", **SENSITIVE)
        creation = Creation(place, web, agent)
        daemon.kill()
        os.kill(agent.pid, signal.SIGCONT)
        assert creation.over().container == ""
        assert of_process(pid, "cpu.cfs_quota_us") == "25000", "what runs keeps its values"
        agent.wait_ready(False)
        restart_killed(daemon)
        agent.wait_ready()
        daemon.cri.run(web, "app", COMMAND)
        assert place.recorded(web, agent.story)[4] == "1"
        assert of_process(pid, "cpu.cfs_quota_us") == "25000"
        daemon.cri.remove_all()
        agent.wait_held("nri containers", 0)
        if isinstance(daemon, Engine):  # containerd does not report pods that are older than its restart
            agent.wait_held("nri pods", 0)


def test_a_second_agent_at_a_runtime_names_the_registered_process(place: Node, tmp_path: Path) -> None:
    other = Node(place.daemon, place.root, tmp_path / "other")
    with AgentProgram(place, "nri", GATES) as agent, contextlib.ExitStack() as stack:
        second = AgentProgram(other, "nri", GATES)
        stack.push(second)
        starting = threading.Thread(target=second.start, daemon=True)
        starting.start()
        words = f"process {agent.pid} has already registered"
        wait_for(lambda: second.process is not None and words in second.story(), second.story)
        agent.stop()
        starting.join(WAIT_S)
        second.wait_ready()
        assert second.stop() == 0


def test_removed_pods_leave_no_state_in_the_agent(place: Node) -> None:
    """NRI_PODS=200 for the long run; every second pod's container ends by itself, or is refused by the OCI runtime."""
    count = int(os.environ.get("NRI_PODS", "8"))
    cri = place.daemon.cri
    with AgentProgram(place, "nri", GATES) as agent:
        used: dict[str, int] = {}
        for number in range(count):
            pod = place.run_pod(f"pod-{number}", "BestEffort", **SCORED)
            if number % 4 == 1:
                cri.wait_exited(cri.run(pod, "app", ("true",)))
            elif number % 4 == 3:
                with pytest.raises(grpc.RpcError):
                    cri.run(pod, "app", ("/no/such/program",))
            else:
                cri.run(pod, "app", ("sleep", "1000"))
            place.remove_pod(pod)
            if number == count // 2:
                used = footprint(agent.pid)
        agent.wait_held("nri pods", 0)
        agent.wait_held("nri containers", 0)
        maximum = {"fd": used["fd"] + 2, "task": used["task"] + 2, "kB": used["kB"] + 2048 + 20 * count}
        wait_for(
            lambda: all(now <= maximum[what] for what, now in footprint(agent.pid).items()),
            lambda: f"{footprint(agent.pid)}, and {used} in the middle",
        )
        agent.wait_ready()


def footprint(pid: int) -> dict[str, int]:
    """Descriptors, threads and resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {"kB": resident, **{name: len(os.listdir(f"/proc/{pid}/{name}")) for name in ("fd", "task")}}


BURST = """
[gates]
CPUBurst = true
BECPUSuppress = false
CPUSetAllocator = false
"""


class Recorder(nri.Plugin):
    """Another plugin, which only sees what the runtime has."""

    name = "recorder"

    def __init__(self) -> None:
        self.quotas: dict[str, int] = {}

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.quotas = {container.id: container.linux.resources.cpu.quota.value for container in containers}


@contextlib.contextmanager
def taking_part(plugin: nri.Plugin, node: Node) -> Iterator[None]:
    """Have a plugin take part in a runtime, in a thread."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(node.daemon.nri_socket))
    session = Session(plugin, connection, index="95", name="recorder")
    thread = threading.Thread(target=session.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        session.stop()
        thread.join(WAIT_S)


def quota_in_spec(node: Node, container: str) -> int:
    """The quota that the runtime itself holds to be the container's."""
    return int(node.daemon.cri.info(container)["runtimeSpec"]["linux"]["resources"]["cpu"].get("quota") or 0)


def test_a_strategys_quota_reaches_the_runtime_and_the_kernel(place: Node) -> None:
    """A quota that was changed from outside is set back to the container's request."""
    place.rule("NodeSLO", {"spec": {"cpuBurstStrategy": {"policy": "none"}}})
    web = place.run_pod("web", "Burstable", **SENSITIVE)
    app = place.daemon.cri.run(web, "app", COMMAND, cpu_quota=50_000, cpu_period=100_000, cpu_shares=512)
    place.daemon.cri.update(app, cpu_quota=80_000, cpu_period=100_000)
    assert (place.of(app, "cpu.cfs_quota_us"), quota_in_spec(place, app)) == ("80000", 80_000)
    with AgentProgram(place, "nri", BURST) as agent:
        wait_for(lambda: place.of(app, "cpu.cfs_quota_us") == "50000", agent.story)
        wait_for(lambda: quota_in_spec(place, app) == 50_000, agent.story)

        def recorded_updates() -> list[tuple[str, str, str]]:
            rows = agent.explain("web")["writes"]
            return [
                (row["outcome"], row["transport"], row["reason"]) for row in rows
                if (row["container"], row["name"]) == ("app", "cpu.cfs_quota")
            ]  # fmt: skip

        wait_for(
            lambda: recorded_updates() == [("applied", "nri", "")], lambda: f"{recorded_updates()}\n{agent.story()}"
        )
        place.daemon.cri.update(app, cpu_shares=300)
        assert place.of(app, "cpu.shares") == "300"
        assert (place.of(app, "cpu.cfs_quota_us"), quota_in_spec(place, app)) == ("50000", 50_000)
        recorder = Recorder()
        with taking_part(recorder, place):
            wait_for(lambda: recorder.quotas.get(app) == 50_000, lambda: f"{recorder.quotas}\n{agent.story()}")


def shrink(context: Container, _rules: object) -> Decision:
    """Each container has 20 ms left when one called `important` comes."""
    return Decision(Changes({"cpu.cfs_quota": 20_000}) if context.new.name == "important" else NO_CHANGES, "room")


#: A profile that is a hook which makes room, and nothing else.
ROOM = replace(
    PROFILE,
    name="room",
    hooks=(Hook("Room", True, (), (), {MAKE_ROOM: shrink}),),
    strategies=(),
    node=lambda settings, root: replace(PROFILE.node(settings, root), gates=None),
)


def test_a_creation_shrinks_another_container_in_the_same_answer(place: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, str], PROFILES), "room", f"{__name__}:ROOM")
    agent = Agent(
        AgentSettings(
            root=place.root,
            socket=str(place.folder / "agent.sock"),
            profile="room",  # type: ignore[arg-type]
            modes=("nri",),
            nri=NriSettings(socket=str(place.daemon.nri_socket)),
            rules=RuleSettings(source="files", path=place.rules),
            pods=PodSettings(source="cri", cri=str(place.daemon.cri_socket)),
        )
    )
    agent.start()
    try:
        wait_for(lambda: agent.transports[0].health()[0], lambda: str(agent.health()))
        pod = place.run_pod("web", "Burstable")
        batch = place.daemon.cri.run(pod, "batch", COMMAND, cpu_quota=80_000, cpu_period=100_000)
        assert place.of(batch, "cpu.cfs_quota_us") == "80000"
        place.daemon.cri.run(pod, "important", COMMAND)
        assert (place.of(batch, "cpu.cfs_quota_us"), quota_in_spec(place, batch)) == ("20000", 20_000)
        account = agent.parts.history.account("shop/web")
        assert account is not None
        rows = [row for row in account["writes"] if (row["container"], row["name"]) == ("batch", "cpu.cfs_quota")]
        assert [(row["outcome"], row["transport"], row["reason"]) for row in rows] == [("applied", "nri", "")]
    finally:
        agent.stop()
