"""The agent as a hook server of Koordinator's proxy: socket, registration and errors."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.agent.hooks import Outcome
from nri.agent.koordinator import batch_resource, cpu_normalization, cpuset, hook_server
from nri.agent.koordinator import names as n
from nri.agent.koordinator.hook_calls import HookCalls
from nri.agent.koordinator.hook_server import HooksTransport
from nri.agent.koordinator.node import Node
from nri.agent.model import Pod
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import HooksSettings
from nri.errors import NriError
from nri.proxy.hook_servers.registrations import Registrations
from tests.support.agents import POD, TOPOLOGY, UID, parts, text
from tests.support.hook_peers import ask
from tests.support.host_trees import TOP, v1, write_files

META = {"name": "p", "namespace": "ns", "uid": UID}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path


def make_transport(place: Path, node: Node | None = None, **settings: Any) -> HooksTransport:
    options = {"socket": str(place / "run/hooks.sock"), "registration_folder": place / "hookserver.d", **settings}
    return HooksTransport(AgentSettings(hooks=HooksSettings(**options)), parts(v1(place / "root", POD), node=node))


@pytest.fixture
def started() -> Iterator[list[HooksTransport]]:
    transports: list[HooksTransport] = []
    yield transports
    for transport in transports:
        transport.stop()


def test_the_server_answers_and_is_registered_in_the_proxys_format(place: Path, started: list[HooksTransport]) -> None:
    transport = make_transport(place)
    started.append(transport)
    assert transport.health() == (False, "not started")
    transport.start()
    transport.start()
    assert transport.health()[0]
    (server,) = Registrations(place / "hookserver.d").servers()
    assert server.endpoint == str(place / "run/hooks.sock")
    assert server.failure_policy == "Ignore"
    assert "PreCreateContainer" in server.stages
    assert (place / "run/hooks.sock").stat().st_mode & 0o777 == 0o600
    assert ask(Path(server.endpoint), "PreRunPodSandbox", pod_meta=META, labels={"a": "1"}) == {"labels": {"a": "1"}}
    transport.stop()
    transport.stop()
    assert [*(place / "hookserver.d").iterdir()] == []
    assert not (place / "run/hooks.sock").exists()


@pytest.mark.parametrize(("runtime", "prefix"), [("containerd", "cri-containerd-"), ("cri-o", "crio-")])
def test_later_writes_use_the_cgroup_names_of_the_configured_runtime(
    place: Path, started: list[HooksTransport], runtime: str, prefix: str
) -> None:
    """Under systemd's driver the name of the runtime is part of the cgroup's name."""
    slices = f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
    scope = f"{slices}/{prefix}{'c' * 64}.scope"
    root = v1(place / "root", slices, scope)
    write_files(Path(root.path), {f"{TOP}/cpuset/{slices}/cpuset.cpus": "1-2\n"})
    options = HooksSettings(
        socket=str(place / "run/hooks.sock"), registration_folder=place / "hookserver.d", runtime=runtime
    )
    transport = HooksTransport(AgentSettings(hooks=options), parts(root, rules={"NodeResourceTopology": TOPOLOGY}))
    started.append(transport)
    transport.start()
    request = {
        "pod_meta": META, "pod_labels": {n.LABEL_QOS: n.BE}, "pod_cgroup_parent": f"/{slices}",
        "container_meta": {"name": "app", "id": "c" * 64}, "container_resources": {"cpuset_cpus": "1"},
    }  # fmt: skip
    ask(place / "run/hooks.sock", "PreUpdateContainerResources", **request)
    assert text(root, "cpuset", scope, "cpuset.cpus") == "1-2"


def test_under_the_policy_fail_the_registration_survives_the_agent(place: Path, started: list[HooksTransport]) -> None:
    transport = make_transport(place, failure_policy="Fail", endpoint="unix:///host/hooks.sock")
    started.append(transport)
    transport.start()
    transport.stop()
    document = json.loads((place / "hookserver.d" / hook_server.FILE_NAME).read_text())
    assert document["failure-policy"] == "Fail"
    assert document["remote-endpoint"] == "/host/hooks.sock"


def test_a_registration_of_another_agent_is_kept(place: Path, started: list[HooksTransport]) -> None:
    transport = make_transport(place)
    started.append(transport)
    transport.start()
    file = place / "hookserver.d" / hook_server.FILE_NAME
    other = file.read_text().replace("hooks.sock", "other.sock")
    file.write_text(other)
    transport.stop()
    assert file.read_text() == other


def test_a_removed_registration_is_written_again(
    place: Path, started: list[HooksTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_server, "CHECK_INTERVAL_S", 0.01)
    transport = make_transport(place)
    started.append(transport)
    transport.start()
    file = place / "hookserver.d" / hook_server.FILE_NAME
    for spoil in (file.unlink, lambda: file.write_text("{}")):
        spoil()
        back = threading.Event()
        for _ in range(500):
            if back.wait(0.02) or (file.exists() and "PreRunPodSandbox" in file.read_text()):
                break
        assert "PreRunPodSandbox" in file.read_text()


def test_an_agent_without_hooks_is_not_registered(place: Path, started: list[HooksTransport]) -> None:
    (place / "hookserver.d").mkdir()
    (place / "hookserver.d" / hook_server.FILE_NAME).write_text("of another life")
    transport = make_transport(place, Node(gates=frozenset()))
    started.append(transport)
    transport.start()
    assert [*(place / "hookserver.d").iterdir()] == []


def test_an_unwritable_registration_folder_is_reported_and_the_server_works(
    place: Path, started: list[HooksTransport], caplog: pytest.LogCaptureFixture
) -> None:
    (place / "hookserver.d").write_text("a file is not a folder")
    transport = make_transport(place)
    started.append(transport)
    transport.start()
    ready, line = transport.health()
    assert not ready
    assert "hookserver.d" in line
    assert line in caplog.text
    assert ask(place / "run/hooks.sock", "PreRunPodSandbox", pod_meta=META) == {}


def test_an_occupied_socket_is_not_replaced(place: Path, started: list[HooksTransport]) -> None:
    first, second = make_transport(place), make_transport(place)
    started += [first, second]
    first.start()
    with pytest.raises(NriError, match="cannot listen at"):
        second.start()
    second.stop()
    assert ask(place / "run/hooks.sock", "PreRunPodSandbox", pod_meta=META) == {}


def test_a_failed_hook_refuses_the_request_with_another_status_than_an_internal_error(
    place: Path, started: list[HooksTransport], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transport = make_transport(place, Node(fail=True))
    started.append(transport)
    transport.start()
    bad = {"annotations": {cpuset.ANNOTATION_STATUS: "{"}}
    with pytest.raises(grpc.RpcError) as caught:
        ask(place / "run/hooks.sock", "PreRunPodSandbox", pod_meta=META, **bad)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert "CPUSetAllocator" in caught.value.details()

    def fail(*_: object) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(HookCalls, "answer", fail)
    caplog.set_level(logging.ERROR)
    with pytest.raises(grpc.RpcError) as caught:
        ask(place / "run/hooks.sock", "PreRunPodSandbox", pod_meta=META)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "a fault" in caplog.text


def test_a_pod_with_an_error_blocks_neither_other_pods_nor_the_next_rule(
    place: Path, started: list[HooksTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = parts(v1(place / "root", POD))
    options = HooksSettings(socket=str(place / "run/hooks.sock"), registration_folder=place / "hookserver.d")
    transport = HooksTransport(AgentSettings(hooks=options), shared)
    started.append(transport)
    transport.start()
    for number in ("1", "2"):
        ask(place / "run/hooks.sock", "PreRunPodSandbox", pod_meta={**META, "uid": number}, cgroup_parent=f"/{POD}")
    decided: list[str] = []
    twice = threading.Event()

    def decide(_: object, stage: str, context: Pod, transport: str) -> Outcome:
        decided.append(context.uid)
        if len(decided) == 4:
            twice.set()
        if context.uid == "1":
            raise RuntimeError("a defect")
        return Outcome()

    monkeypatch.setattr(type(shared.decisions), "decide", decide)
    transport.rules_changed(frozenset({"Node"}))
    for _ in range(500):
        if twice.wait(0.02):
            break
        if len(decided) == 2:
            transport.rules_changed(frozenset({"Node"}))
    assert decided[:4] == ["1", "2", "1", "2"]


def test_a_changed_rule_is_applied_to_running_containers(place: Path, started: list[HooksTransport]) -> None:
    root = v1(place / "root", POD)
    shared = parts(root)
    options = HooksSettings(socket=str(place / "run/hooks.sock"), registration_folder=place / "hookserver.d")
    transport = HooksTransport(AgentSettings(hooks=options), shared)
    started.append(transport)
    shared.store.subscribe(transport.rules_changed)
    transport.start()
    resources = {n.BATCH_CPU: "500"}
    annotation = json.dumps({"containers": {"c": {"limits": resources, "requests": resources}}})
    batch = {"labels": {n.LABEL_QOS: n.BE}, "annotations": {batch_resource.ANNOTATION_EXTENDED: annotation}}
    ask(place / "run/hooks.sock", "PreRunPodSandbox", pod_meta=META, cgroup_parent=f"/{POD}", **batch)
    assert text(root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "50000"
    shared.store.put("Node", {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "2"}}}, "a test")
    notified = threading.Event()
    for _ in range(500):
        if notified.wait(0.02) or text(root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "25000":
            break
    assert text(root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "25000"


def test_an_error_while_applying_rules_stops_neither_the_next_one_nor_the_registration(
    place: Path, started: list[HooksTransport], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transport = make_transport(place)
    started.append(transport)
    tries, second = list[int](), threading.Event()

    def breaks(_: HookCalls) -> int:
        tries.append(1)
        if len(tries) > 1:
            second.set()
            return 0
        raise LookupError("a defect")

    monkeypatch.setattr(HookCalls, "apply_again", breaks)
    transport.start()
    transport.rules_changed(frozenset({"NodeSLO"}))
    end = time.monotonic() + 20
    while not tries and time.monotonic() < end:
        time.sleep(0.01)
    transport.rules_changed(frozenset({"NodeSLO"}))
    assert second.wait(20)
    assert "cannot apply changed rules to all pods" in caplog.text
