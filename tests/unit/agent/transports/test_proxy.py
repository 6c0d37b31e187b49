"""The agent's proxy: its clients, its health, and the effects of failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation import Adaptation
from nri.agent.koordinator import cpu_normalization, cpuset
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.agent.transports import proxy as proxy_module
from nri.agent.transports.proxy import ProxyTransport, proxy_settings
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy import Proxy
from nri.stub.session.session import Session
from tests.support import agents
from tests.support.host_trees import v1
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for
from tests.unit.agent.transports.test_proxy_modes import agent_settings

LABELS = {n.LABEL_QOS: n.LS}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Proxied]:
    proxied = Proxied(tmp_path)
    yield proxied
    proxied.close()


def make_transport(world: Proxied) -> ProxyTransport:
    root = v1(world.folder / "machine", "kubepods/pod")
    rules = {"NodeResourceTopology": agents.TOPOLOGY}
    return ProxyTransport(agent_settings(world), agents.parts(root, rules=rules))


@pytest.fixture
def transport(world: Proxied) -> Iterator[ProxyTransport]:
    """A transport before a runtime that runs."""
    world.start_runtime()
    entry = make_transport(world)
    entry.start()
    yield entry
    entry.stop()


def cpus(world: Proxied, container: str) -> str | None:
    actual: str | None = world.spec(container)["linux"]["resources"].get("cpu", {}).get("cpus")
    return actual


def quota(world: Proxied, container: str) -> int:
    return int(world.spec(container)["linux"]["resources"]["cpu"]["quota"])


def test_the_kubelets_first_container_is_under_policy(world: Proxied, transport: ProxyTransport) -> None:
    container = world.create(world.run_pod(world.pod_config(labels=LABELS)))
    assert cpus(world, container) == "0-3"


def test_running_containers_are_updated_when_the_agent_starts(world: Proxied) -> None:
    world.start_runtime()
    pod = world.run_pod(world.pod_config(labels=LABELS), world.direct)
    container = world.create(pod, cri=world.direct)
    world.direct.call("StartContainer", container_id=container)
    transport = make_transport(world)
    transport.start()
    try:
        wait_for(lambda: cpus(world, container) == "0-3", "the update")
    finally:
        transport.stop()


def test_health_names_what_the_proxy_waits_for(world: Proxied) -> None:
    transport = make_transport(world)
    assert transport.health() == (False, "not started")
    transport.start()
    try:
        where = f"{world.settings.listen} in front of {world.settings.runtime_endpoint}"
        wait_for(
            lambda: transport.health()[1] == f"serving {where}, which does not respond", "that the runtime is missed"
        )
        world.start_runtime()
        wait_for(lambda: transport.health() == (True, f"serving {where}"), "that it is there")
    finally:
        transport.stop()
    assert transport.health() == (False, "not started")


def test_after_a_stop_the_values_are_kept_and_the_agent_can_start_again(
    world: Proxied, transport: ProxyTransport
) -> None:
    container = world.run(world.run_pod(world.pod_config(labels=LABELS)))
    transport.stop()
    transport.stop()
    assert not Path(world.settings.listen).exists()
    assert cpus(world, container) == "0-3"
    transport.start()
    world.cri.call("UpdateContainerResources", container_id=container, linux=pb.LinuxContainerResources(cpu_shares=9))
    assert cpus(world, container) == "0-3"


def test_a_second_agent_is_refused_with_a_reason(world: Proxied, transport: ProxyTransport) -> None:
    second = make_transport(world)
    with pytest.raises(NriError, match=r"mode proxy: .*another proxy uses this folder"):
        second.start()
    assert second.health() == (False, "not started")
    assert world.cri.call("Version").version, "the first one continues"


def test_a_plugin_connection_that_ends_is_restored(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Session] = []

    def noted(*args: Any, **more: Any) -> Session:
        sessions.append(Session(*args, **more))
        return sessions[-1]

    monkeypatch.setattr(proxy_module, "Session", noted)
    world.start_runtime()
    transport = make_transport(world)
    transport.start()
    try:
        sessions[0].stop()
        wait_for(lambda: len(sessions) > 1 and transport.health()[0], "the connection")
        assert cpus(world, world.create(world.run_pod(world.pod_config(labels=LABELS)))) == "0-3"
    finally:
        transport.stop()


def test_one_bad_pod_loses_its_own_values_only(world: Proxied, transport: ProxyTransport) -> None:
    bad = world.pod_config("bad", labels=LABELS, annotations={cpuset.ANNOTATION_STATUS: "{"})
    assert cpus(world, world.create(world.run_pod(bad))) is None
    assert cpus(world, world.create(world.run_pod(world.pod_config("good", labels=LABELS)))) == "0-3"


def test_other_plugins_may_connect_only_if_a_socket_is_configured(world: Proxied) -> None:
    settings = agent_settings(world)
    assert proxy_settings(settings).nri.disable_connections
    other = replace(settings, proxy=replace(settings.proxy, socket_path="/run/x.sock", skip_label="a=b"))
    made_of_it = proxy_settings(other)
    assert (made_of_it.nri.disable_connections, made_of_it.nri.socket_path) == (False, "/run/x.sock")
    assert (made_of_it.skip_label_key, made_of_it.skip_label_value) == ("a", "b")


def test_the_kubelets_last_request_is_known_after_a_restart_and_not_scaled_twice(world: Proxied) -> None:
    world.start_runtime()
    root = v1(world.folder / "machine", "kubepods/pod")
    settings = agent_settings(world)
    twice = {"Node": {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "2"}}}}
    gated = agents.parts(root, node=Node(gates=frozenset({"CPUNormalization"})), rules=twice)
    first = ProxyTransport(settings, gated)
    first.start()
    resources = pb.LinuxContainerResources(cpu_quota=100_000, cpu_period=100_000)
    container = world.run(
        world.run_pod(world.pod_config(labels=LABELS)), linux=pb.LinuxContainerConfig(resources=resources)
    )
    resources.cpu_quota = 300_000
    world.cri.call("UpdateContainerResources", container_id=container, linux=resources)
    assert quota(world, container) == 150_000
    first.stop()
    second = ProxyTransport(settings, gated)
    second.start()
    try:
        gated.store.put("Node", {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "3"}}}, "a test")
        second.rules_changed(frozenset({"Node"}))
        wait_for(lambda: quota(world, container) == 100_000, "a third of the last requested quota")
    finally:
        second.stop()


def test_a_second_start_has_no_effect_and_a_failed_start_can_be_repeated(world: Proxied) -> None:
    world.start_runtime()
    transport = make_transport(world)
    Path(world.settings.listen).parent.mkdir()
    Path(world.settings.listen).write_text("no socket")
    with pytest.raises(NriError, match=r"mode proxy: .*is not a socket"):
        transport.start()
    assert transport.health() == (False, "not started")
    Path(world.settings.listen).unlink()
    transport.start()
    try:
        proxy = transport.proxy
        transport.start()
        assert transport.proxy is proxy
    finally:
        transport.stop()


def test_an_unreadable_policy_is_an_error_at_the_start(world: Proxied) -> None:
    settings = agent_settings(world)
    policy = world.folder / "policy.toml"
    policy.write_text("=")
    wrong = replace(settings, proxy=replace(settings.proxy, policy_path=str(policy)))
    transport = ProxyTransport(wrong, agents.parts(v1(world.folder / "machine")))
    with pytest.raises(NriError, match=r"policy\.toml"):
        transport.start()
    assert transport.health() == (False, "not started")


def test_a_container_created_around_the_proxy_is_decided_at_its_start(
    world: Proxied, transport: ProxyTransport
) -> None:
    pod = world.run_pod(world.pod_config(labels=LABELS), world.direct)
    container = world.create(pod, cri=world.direct)
    world.cri.call("StartContainer", container_id=container)
    stored = dict(transport.plugin.held.containers())
    assert stored[container].changes is not None and stored[container].changes.knobs.get("cpuset.cpus") == "0-3"


def test_the_kubelet_may_connect_even_if_the_agents_plugin_is_refused(
    world: Proxied, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator's policy can hide events from the agent. The node's pods run nevertheless."""
    settings = agent_settings(world)
    policy = world.folder / "policy.toml"
    policy.write_text('["00-nri-agent"]\nshadow = true\n')
    policy.chmod(0o600)
    world.start_runtime()
    shadowed = replace(settings, proxy=replace(settings.proxy, policy_path=str(policy)))
    root = v1(world.folder / "machine", "kubepods/pod")
    transport = ProxyTransport(shadowed, agents.parts(root, rules={"NodeResourceTopology": agents.TOPOLOGY}))
    transport.start()
    try:
        assert cpus(world, world.create(world.run_pod(world.pod_config(labels=LABELS)))) is None
    finally:
        transport.stop()


def test_the_folder_of_a_systemd_container_has_the_runtimes_name(world: Proxied, transport: ProxyTransport) -> None:
    pod = m.PodSandbox(id="p")
    pod.linux.cgroup_parent = "kubepods-pod1.slice"
    transport.plugin.start_container(pod, m.Container(id="c"))
    known_entry = transport.plugin.held.container("c")
    assert known_entry is not None
    assert known_entry.context.folder == "kubepods.slice/kubepods-pod1.slice/nri-c.scope"


def test_a_proxy_that_cannot_start_leaves_no_state(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Proxy) -> None:
        raise NriError("no such policy")

    monkeypatch.setattr(Proxy, "start", refuse)
    transport = make_transport(world)
    with pytest.raises(NriError, match="no such policy"):
        transport.start()
    assert transport.health() == (False, "not started")


def test_an_agent_that_its_own_proxy_refuses_reports_the_reason(
    world: Proxied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no more threads")

    monkeypatch.setattr(Adaptation, "connect", refuse)
    monkeypatch.setattr(proxy_module, "ADMIT_S", 0.2)
    world.start_runtime()
    transport = make_transport(world)
    transport.start()
    try:
        wait_for(lambda: transport.health() == (False, "RuntimeError: no more threads"), "the reason in its health")
    finally:
        transport.stop()
    assert "mode proxy: the agent is not connected to its proxy: RuntimeError: no more threads" in caplog.text
