"""The agent's parts: the order of their start, their health and their end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.agent import agent as module
from nri.agent.agent import Agent, Agents
from nri.agent.model import Container, Pod, Subject
from nri.agent.other_agents import ForeignAgentError
from nri.agent.ownership import KnobConflict
from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import HttpSettings, PodSettings, RuleSettings, StandaloneSettings
from nri.errors import NriError
from tests.support.agents import TOPOLOGY, UID, Pods
from tests.support.host_trees import v1, write_files
from tests.support.ports import HeldPort
from tests.support.scrape import scrape
from tests.support.signals import signal_in_a_wait

STEPS: list[str] = []
RECORDED: list[Recorded] = []


class Recorded:
    """A transport, or the loops, that notes what is done with it."""

    def __init__(self, settings: AgentSettings, parts: Parts, name: str = "", source: tuple[object, ...] = ()) -> None:
        self.name, self.parts, self.given = name, parts, source
        self.values = self if name == "NriTransport" else None
        self.state: tuple[bool, str] = (True, "connected")
        self.kinds: list[frozenset[str]] = []
        if type(self) is Recorded:
            RECORDED.append(self)

    def start(self) -> None:
        STEPS.append(f"start {self.name}")

    def stop(self) -> None:
        STEPS.append(f"stop {self.name}")

    def rules_changed(self, kinds: frozenset[str]) -> None:
        self.kinds.append(kinds)

    def pods_changed(self) -> None:
        STEPS.append("pods changed")

    def schedule(self) -> list[dict[str, Any]]:
        return [{"strategy": self.name}]

    def unchanged(self, uid: str) -> list[dict[str, str]]:
        return [{"container": "app", "strategy": self.name, "reason": f"nothing changes for {uid}"}]

    def health(self) -> tuple[bool, str]:
        return self.state


class Breaks(Recorded):
    def start(self) -> None:
        raise NriError("no socket")

    def stop(self) -> None:
        raise RuntimeError("not even that")

    def rules_changed(self, kinds: frozenset[str]) -> None:
        raise RuntimeError("no")

    def health(self) -> tuple[bool, str]:
        raise RuntimeError("no")


class Rules:
    def __init__(self, settings: AgentSettings, store: object) -> None:
        pass

    def start(self) -> None:
        STEPS.append("start rules")

    def stop(self) -> None:
        STEPS.append("stop rules")

    def health(self) -> tuple[bool, str]:
        return True, "rules of a test"


def classes(name: str) -> Any:
    last = name.rpartition(":")[2]
    known_entry: dict[str, Any] = {"FileRules": Rules, "ProxyTransport": Breaks}
    created: Callable[..., Any] = lambda settings, parts, *source: Recorded(settings, parts, last, source)  # noqa: E731
    return known_entry.get(last, created)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Agent]:
    monkeypatch.setattr(module, "load", classes)
    STEPS.clear()
    RECORDED.clear()

    def make_agent(**source: Any) -> Agent:
        root = v1(tmp_path / "root", "kubepods")
        pods = Pods()
        pods.replace([])
        source = {"socket": str(tmp_path / "run/agent.sock"), "modes": ("nri",), **source}
        return Agent(AgentSettings(**source), root=root, pods=pods, tell=STEPS.append)

    return make_agent


def ask(path: str, target: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("agent", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", target)
    response = connection.getresponse()
    try:
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_parts_are_started_in_order_and_stopped_in_reverse(make: Callable[..., Agent]) -> None:
    agent = make()
    agent.start()
    assert STEPS == ["start rules", "start NriTransport", "start Loops", "READY=1"]
    agent.stop()
    agent.stop()
    assert STEPS[4:] == ["STOPPING=1", "stop Loops", "stop NriTransport", "stop rules"]
    assert agent.wait(0)


@pytest.fixture
def make_two(tmp_path: Path) -> Callable[..., Agents]:
    """Agents of both profiles on a machine of files; rubik's agent has these services."""
    STEPS.clear()
    v1(tmp_path / "root", "kubepods")

    def make_agents(*services: str, modes: tuple[str, ...] = ("standalone",), **koordinator: Any) -> Agents:
        pods, rules = PodSettings(source="files", path=tmp_path / "pods"), RuleSettings(path=tmp_path / "rules")
        common: Any = {"root": tmp_path / "root", "modes": modes, "pods": pods, "rules": rules}
        one = AgentSettings(socket=str(tmp_path / "a.sock"), **common, **koordinator)
        gates: Any = dict.fromkeys(services, True)
        two = AgentSettings(profile="rubik", gates=gates, socket=str(tmp_path / "b.sock"), **common)
        return Agents([one, two], tell=STEPS.append)

    return make_agents


def test_two_profiles_run_in_one_process_with_their_own_socket_and_history(
    make_two: Callable[..., Agents], tmp_path: Path
) -> None:
    agents = make_two("psi", "cpuevict")
    agents.start()
    try:
        assert STEPS == ["READY=1"]
        assert {row.part.partition(":")[0] for row in agents.health().rows} == {"koordinator", "rubik"}
        one, two = (agent.parts for agent in agents.agents)
        two.history.decided(Subject("u", "shop", "web"), "loop", "loops", [("cpu.cfs_quota", 1, "quotaTurbo", "")])
        assert [ask(str(tmp_path / name), "/explain?pod=shop/web")[0] for name in ("a.sock", "b.sock")] == [404, 200]
        assert one.history is not two.history
    finally:
        agents.stop()
    assert STEPS == ["READY=1", "STOPPING=1"] and not (tmp_path / "b.sock").exists()


def test_two_profiles_with_the_same_knob_are_refused_with_both_names_and_keys(make_two: Callable[..., Agents]) -> None:
    with pytest.raises(KnobConflict) as caught:
        make_two("quotaTurbo")
    assert "BatchResource and quotaTurbo both set cpu.cfs_quota" in str(caught.value)
    assert 'gates.BatchResource = false or "quotaTurbo" out of agent.enabledFeatures' in str(caught.value)


def test_two_profiles_cannot_use_the_proxy(make_two: Callable[..., Agents]) -> None:
    with pytest.raises(NriError, match="modes nri and standalone"):
        make_two("psi", modes=("nri", "proxy"))


def test_if_one_of_two_profiles_cannot_start_neither_runs(make_two: Callable[..., Agents], tmp_path: Path) -> None:
    agents = make_two("psi")
    (tmp_path / "b.sock").mkdir()
    with pytest.raises(NriError, match=r"b\.sock"):
        agents.start()
    assert "READY=1" not in STEPS and not (tmp_path / "a.sock").exists()


def test_a_part_that_cannot_start_stops_the_started_parts(make: Callable[..., Agent]) -> None:
    agent = make(modes=("nri", "proxy"))
    with pytest.raises(NriError, match="no socket"):
        agent.start()
    assert STEPS == ["start rules", "start NriTransport", "STOPPING=1", "stop NriTransport", "stop rules"]
    assert not os.path.exists(agent.settings.socket)


def test_the_agent_does_not_start_beside_a_koordlet_unless_allowed(make: Callable[..., Agent]) -> None:
    agent = make()
    write_files(Path(agent.parts.root.path), {"proc/77/comm": "koordlet\n"})
    with pytest.raises(ForeignAgentError, match="pid 77"):
        agent.start()
    assert STEPS == []
    message = make(beside_koordlet=True)
    message.start()
    message.stop()


def test_a_changed_rule_is_reported_to_every_transport(make: Callable[..., Agent]) -> None:
    agent = make(modes=("proxy", "nri", "standalone"))
    agent.parts.store.put("NodeResourceTopology", TOPOLOGY, "a test")
    assert {entry.name for entry in RECORDED} == {"NriTransport", "Standalone", "Loops"}
    assert [entry.kinds for entry in RECORDED] == [[frozenset({"NodeResourceTopology"})]] * 3


def test_health_combines_all_parts(make: Callable[..., Agent]) -> None:
    agent = make()
    assert agent.health().ready
    (transport,) = agent.transports
    assert isinstance(transport, Recorded)
    transport.state = (False, "waiting for the socket")
    health = agent.health()
    assert not health.ready
    assert "not ready  NriTransport: waiting for the socket\n" in str(health)
    assert not make(modes=("proxy",)).health().ready


def test_an_invalid_rule_is_reported_and_the_last_valid_rule_applies(make: Callable[..., Agent]) -> None:
    agent = make()
    agent.parts.store.put("NodeResourceTopology", TOPOLOGY, "a test")
    agent.parts.store.put("NodeResourceTopology", {"metadata": {"annotations": 7}}, "a test")
    health = agent.health()
    assert health.ready
    assert "NodeResourceTopology of a test: " in str(health)
    assert 'nri_agent_rule_problems{kind="NodeResourceTopology"} 1.0' in scrape(agent.parts.observer)
    agent.parts.store.put("NodeSLO", {"spec": {"cpuBurstStrategy": {"polcy": "auto"}}}, "a test")
    metric = 'nri_agent_rule_keys_unread{key="NodeSLO: cpuBurstStrategy.polcy"} 1.0'
    assert metric in scrape(agent.parts.observer)
    agent.parts.store.remark("a.yaml", ["a.yaml:1: kind: NodeSLOO: nothing reads it; did you mean NodeSLO?"])
    assert 'key="a.yaml:1: kind: NodeSLOO: nothing reads it' in scrape(agent.parts.observer)


def test_unread_keys_of_running_pods_are_a_metric_with_their_names(make: Callable[..., Agent]) -> None:
    agent = make()
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosclass": "LS"})
    agent.parts.decisions.decide("PreRunPodSandbox", pod, "nri")
    metric = 'nri_agent_pod_keys_unread{key="shop/web: koordinator.sh/qosclass: nothing reads it; did you mean '
    assert metric in scrape(agent.parts.observer)
    agent.parts.decisions.removed(pod)
    assert metric not in scrape(agent.parts.observer)


def test_the_agent_responds_on_its_socket(make: Callable[..., Agent]) -> None:
    agent = make()
    agent.parts.store.put("NodeResourceTopology", TOPOLOGY, "a test")
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "LS"})
    agent.parts.decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    agent.start()
    try:
        path = agent.settings.socket
        assert ask(path, "/healthz") == (200, "ok\n")
        assert ask(path, "/readyz")[0] == 200
        status, text = ask(path, "/metrics")
        assert status == 200
        assert 'nri_agent_ready{part="pods"} 1.0' in text
        assert (
            'nri_agent_hook_changes_total{hook="CPUSetAllocator",stage="PreCreateContainer",transport="nri"} 1.0'
            in text
        )
        assert json.loads(ask(path, "/explain")[1])["pods"][0]["name"] == "web"
        document = json.loads(ask(path, "/explain?pod=shop/web")[1])
        assert document["rules"] == {"NodeSLO": "", "NodeResourceTopology": "a test", "Node": "", "ConfigMap": ""}
        (value,) = document["values"]
        assert (value["field"], value["value"], value["hook"]) == ("cpuset.cpus", "0-3", "CPUSetAllocator")
        assert document["rule_problems"] == []
        agent.parts.store.put("NodeSLO", {"spec": 5}, "a.yaml")
        (problem,) = json.loads(ask(path, "/explain?pod=shop/web")[1])["rule_problems"]
        assert (problem["kind"], problem["source"]) == ("NodeSLO", "a.yaml")
        status, text = ask(path, "/explain?pod=nobody")
        assert (status, "is unknown" in text) == (404, True)
        idle = {"metadata": {"namespace": "shop", "name": "idle", "uid": "an-idle-uid"}}
        assert isinstance(agent.parts.pods, Pods)
        agent.parts.pods.replace([{"metadata": "of no form"}, idle])
        for name in ("idle", "shop/idle", "an-idle-uid"):
            status, text = ask(path, f"/explain?pod={name}")
            account = json.loads(text)
            assert (status, account["key"], account["name"], account["values"]) == (200, "an-idle-uid", "idle", [])
            assert account["strategies"] and account["unchanged"][0]["reason"] == "nothing changes for an-idle-uid"
        assert "is unknown" in ask(path, "/explain?pod=bank/idle")[1]
        other = Pod("other", "web", "another-uid", {"koordinator.sh/qosClass": "LS"})
        agent.parts.decisions.decide("PreCreateContainer", Container(other, name="app"), "nri")
        status, text = ask(path, "/explain?pod=web")
        assert (status, json.loads(text)["error"]) == (404, "pod 'web' is one of other/web, shop/web")
        rows = json.loads(ask(path, "/capabilities")[1])
        assert {"cpu.bvt", "cpuset.cpus"} <= {row["what"] for row in rows}
    finally:
        agent.stop()


def test_a_transport_that_fails_to_stop_does_not_keep_others_running(
    make: Callable[..., Agent], monkeypatch: Any
) -> None:
    monkeypatch.setattr(Breaks, "start", lambda self: None)
    agent = make(modes=("nri", "proxy"))
    agent.start()
    agent.stop()
    assert STEPS[-2:] == ["stop NriTransport", "stop rules"]


def test_the_cgroup_driver_in_the_settings_overrides_the_detected_one(make: Callable[..., Agent]) -> None:
    assert make().parts.driver == "cgroupfs"
    assert make(standalone=StandaloneSettings(cgroup_driver="systemd")).parts.driver == "systemd"


@pytest.mark.parametrize("modes", [("nri",), ("standalone", "nri"), ("standalone",)])
def test_strategies_use_the_transport_that_can_set_values(make: Callable[..., Agent], modes: tuple[str, ...]) -> None:
    agent = make(modes=modes)
    (loops,) = (entry for entry in RECORDED if entry.name == "Loops")
    assert loops.given == (
        next((transport for transport in agent.transports if transport.name == "NriTransport"), None),
    )


def test_without_strategies_no_loops_are_started(make: Callable[..., Agent]) -> None:
    agent = make(gates={"BECPUSuppress": False, "CPUBurst": False, "RdtResctrl": False})
    agent.start()
    agent.stop()
    assert "start Loops" not in STEPS


def test_stop_ends_the_wait_of_another_thread(make: Callable[..., Agent]) -> None:
    agent = make()
    agent.start()
    waiting = threading.Thread(target=agent.wait)
    waiting.start()
    assert not agent.wait(0)
    agent.stop()
    waiting.join(10)
    assert not waiting.is_alive()


PROGRAM = """
import logging
import sys
from tests.support.agents import Pods
from tests.unit.agent import test_agent
from nri.agent import agent
from nri.agent.settings import AgentSettings
from nri.host import Root
agent.load = test_agent.classes
pods = Pods()
made = agent.Agent(AgentSettings(modes=("nri",), socket=sys.argv[2]), root=Root(sys.argv[1]), pods=pods)
logging.basicConfig(level="INFO")
print("made", flush=True)
sys.exit(made.run())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_the_agent_cleanly_and_systemd_is_notified(number: int, code: int, tmp_path: Path) -> None:
    v1(tmp_path / "root", "kubepods")
    path = str(tmp_path / "a.sock")
    message = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    message.bind(str(tmp_path / "notify"))
    message.settimeout(60)
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "root"), path],
        env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert message.recv(100) == b"READY=1"
        assert ask(path, "/healthz")[0] == 200
        program.send_signal(number)
        assert message.recv(100) == b"STOPPING=1"
        output = program.communicate(timeout=60)[1]
        assert program.returncode == code
        assert f"stopping after {signal.Signals(number).name}; applied values stay" in output
        assert not os.path.exists(path)
    finally:
        program.kill()
        program.wait()
        message.close()


def test_a_signal_right_before_the_wait_is_not_lost(make: Callable[..., Agent]) -> None:
    with signal_in_a_wait(signal.SIGTERM):
        assert make().run() == 0


@pytest.fixture
def port() -> Iterator[int]:
    held_port = HeldPort()
    yield held_port.number
    held_port.close()


def test_over_tcp_only_the_readiness_of_parts_is_shown_without_details(make: Callable[..., Agent], port: int) -> None:
    agent = make(http=HttpSettings(f"127.0.0.1:{port}"))
    agent.parts.store.put("NodeResourceTopology", {"metadata": {"annotations": "SECRET" * 9}}, "a test")
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "SECRET"})
    agent.parts.decisions.decide("PreRunPodSandbox", pod, "nri")
    agent.parts.store.put("NodeSLO", {"spec": {"cpuBurstStrategy": {"SECRET": "auto"}}}, "shop.yaml")
    agent.parts.store.remark("shop.yaml", ["shop.yaml: no rules"])

    def get(path: str) -> str:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            return answer.read().decode()

    agent.start()
    try:
        text = get("/readyz")
        assert "ready  rules: see the agent's socket\n" in text
        assert "a test" not in text
        assert "a test" in ask(agent.settings.socket, "/readyz")[1]
        counted = 'nri_agent_pod_slips_total{transport="nri"} 1.0'
        for shown in (text := get("/metrics"), ask(agent.settings.socket, "/metrics")[1]):
            assert counted in shown
        assert "SECRET" not in text and "shop" not in text
        assert "nri_agent_rule_keys_unread 2.0\n" in text and "nri_agent_pod_keys_unread 1.0\n" in text
        text = ask(agent.settings.socket, "/metrics")[1]
        for words in ("shop/web: koordinator.sh/qosClass", "NodeSLO: cpuBurstStrategy.SECRET", "shop.yaml: no rules"):
            assert f'_keys_unread{{key="{words}' in text
    finally:
        agent.stop()
