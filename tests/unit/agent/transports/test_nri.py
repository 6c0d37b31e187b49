"""Mode "nri" as a whole: its connection over a socket, reconnecting, and changed rules."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import NriSettings
from nri.agent.transports import nri as module
from nri.agent.transports import plugin_transport
from nri.agent.transports.nri import NriTransport
from nri.backoff import Backoff
from nri.stub.plugin import Plugin
from nri.testing import FakeRuntime, Replay
from nri.testing.plugin_connection import Attached
from nri.trace.history import Trace
from nri.trace.recorder import Recorder
from tests.support import agents
from tests.support.hook_modes import CASES, CONTAINER_ID
from tests.support.host_trees import v1
from tests.support.scrape import scrape
from tests.support.waiting import PATIENCE_S, wait_for

SHARED = next(case for case in CASES if case.title == "share pools")


def settings(folder: Path, **more: Any) -> AgentSettings:
    nri_settings = NriSettings(socket=str(folder / "run/nri.sock"), name="agent", backoff=0.05, backoff_cap=0.2)
    return AgentSettings(nri=replace(nri_settings, **more))


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    pod = SHARED.pod.folder
    root = v1(tmp_path / "machine", pod, f"{pod}/{CONTAINER_ID}")
    return agents.parts(root, node=SHARED.base(), rules=SHARED.documents)


@pytest.fixture
def transport(tmp_path: Path, parts: Parts) -> Iterator[NriTransport]:
    nri_transport = NriTransport(settings(tmp_path), parts)
    yield nri_transport
    nri_transport.stop()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def ready(transport: NriTransport) -> bool:
    return transport.health()[0]


# -- connecting -------------------------------------------------------------------------------------------------------


def test_the_transport_starts_without_a_runtime_and_reports_the_awaited_socket(
    tmp_path: Path, transport: NriTransport
) -> None:
    assert transport.health() == (False, "not started")
    begin = time.monotonic()
    transport.start()
    transport.start()
    assert time.monotonic() - begin < PATIENCE_S
    assert transport.health() == (False, f"waiting for {tmp_path}/run/nri.sock")
    assert len([entry for entry in threading.enumerate() if entry.name == "nri-agent-plugin"]) == 1


def test_a_folder_and_a_socket_created_later_are_noticed(tmp_path: Path, transport: NriTransport) -> None:
    transport.start()
    time.sleep(0.05)
    (tmp_path / "run").mkdir()
    with FakeRuntime(socket_path=str(tmp_path / "run/nri.sock"), name="later"):
        wait_for(lambda: ready(transport), "the registration")
        assert transport.health() == (True, "registered with later v1.0.0 as 00-agent")
        created = transport.plugin.held
        assert created.counts() == {"nri pods": 0, "nri containers": 0}
        transport.stop()
    assert transport.health() == (False, "not started")


def test_the_transport_reconnects_after_a_restart_of_the_runtime(
    run_dir: Path, transport: NriTransport, parts: Parts
) -> None:
    path = str(run_dir / "nri.sock")
    transport.start()
    with FakeRuntime(socket_path=path):
        wait_for(lambda: ready(transport), "the registration")
    wait_for(lambda: not ready(transport), "the end of the connection, noticed")
    pod, container = SHARED.pod.messages()
    with FakeRuntime(socket_path=path) as runtime:
        wait_for(lambda: ready(transport), "the second registration")
        assert runtime.create_container(pod, container).cpuset_cpus == "0-1,2-3"
        assert 'nri_agent_events_total{event="connected",transport="nri"} 2.0\n' in scrape(parts.observer)
        transport.stop()


def test_requests_and_responses_are_recorded_and_replayed_with_the_same_result(
    run_dir: Path, tmp_path: Path, parts: Parts
) -> None:
    pod, container = SHARED.pod.messages()
    with Recorder(tmp_path / "traces", redact=False, about={"command": "nri agent"}) as recorder:
        transport = NriTransport(settings(tmp_path), replace(parts, reporter=recorder))
        transport.start()
        with FakeRuntime(socket_path=str(run_dir / "nri.sock")) as runtime:
            wait_for(lambda: ready(transport), "the registration")
            runtime.create_container(pod, container)
            transport.stop()
    (created,) = [event for event in Trace(tmp_path / "traces").events() if event.name == "CreateContainer"]
    assert created.whole and created.steps[0].reply
    other = NriTransport(settings(tmp_path), parts)
    with Replay(tmp_path / "traces") as second_round:
        second_round.add(other.plugin, "00")
        assert second_round.differences() == []
    other.stop()


def test_stop_ends_all_threads_and_can_be_called_twice_or_before_start(
    run_dir: Path, tmp_path: Path, parts: Parts
) -> None:
    transport = NriTransport(settings(tmp_path), parts)
    transport.stop()
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")):
        transport.start()
        wait_for(lambda: ready(transport), "the registration")
        transport.stop()
        transport.stop()
        assert not [entry for entry in threading.enumerate() if entry.name.startswith("nri-agent-")]


def test_the_transport_can_be_started_again(run_dir: Path, transport: NriTransport) -> None:
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")):
        for _ in range(2):
            transport.start()
            wait_for(lambda: ready(transport), "the registration")
            transport.stop()


def test_pauses_between_connections_double(
    run_dir: Path, tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original never sleeps between two attempts. The listener that closes connections is retried ever later."""
    monkeypatch.setattr(plugin_transport, "Backoff", partial(Backoff, uniform=lambda: 0.999))
    transport = NriTransport(settings(tmp_path, backoff=0.1, backoff_cap=0.4), parts)
    met: list[float] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(run_dir / "nri.sock"))
    listener.listen()
    try:
        transport.start()
        for _ in range(5):
            listener.accept()[0].close()
            met.append(time.monotonic())
    finally:
        transport.stop()
        listener.close()
    gaps = [later - earlier for earlier, later in pairwise(met)]
    assert all(gap >= pause * 0.9 for gap, pause in zip(gaps, (0.1, 0.2, 0.4, 0.4), strict=True)), gaps


# -- refused ----------------------------------------------------------------------------------------------------------


class Other(Plugin):
    """Somebody else's plugin."""

    name = "agent"

    def run_pod_sandbox(self, pod: Any) -> None:
        pass


def test_a_second_agent_in_the_same_process_is_refused_by_name(run_dir: Path, tmp_path: Path, parts: Parts) -> None:
    first, second = (NriTransport(settings(tmp_path), parts) for _ in range(2))
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")) as runtime:
        try:
            first.start()
            wait_for(lambda: ready(first), "the registration")
            second.start()
            wait_for(lambda: "registered" in second.health()[1], "the refusal")
            ok, words = second.health()
            assert not ok
            assert words.startswith(f"this process has already registered plugin 00-agent at {run_dir}/nri.sock")
            assert [row.plugin for row in runtime.plugins] == ["00-agent"], "the runtime has not even been asked"
            first.stop()
            wait_for(lambda: ready(second), "its turn")
        finally:
            second.stop()
            first.stop()


def test_an_agent_in_another_process_is_named_by_pid_and_releases_the_lock_at_its_end(
    run_dir: Path, tmp_path: Path, transport: NriTransport
) -> None:
    program = (
        "import sys, time; from nri.agent.transports.registration import Registration\n"
        f"with Registration({str(run_dir / 'nri.sock')!r}, '00-agent'): print('has it', flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        with FakeRuntime(socket_path=str(run_dir / "nri.sock")):
            transport.start()
            wait_for(lambda: f"process {other.pid} has already registered" in transport.health()[1], "the refusal")
            other.kill()
            wait_for(lambda: ready(transport), "the registration")
            transport.stop()
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_plugin_with_the_same_name_at_the_runtime_is_named_and_awaited(
    run_dir: Path, transport: NriTransport
) -> None:
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")) as runtime:
        other = Attached(Other(), "00", "agent", "")
        other.connect(runtime.adaptation)
        other.wait(runtime.adaptation)
        transport.start()
        wait_for(lambda: "refused" in transport.health()[1], "the refusal")
        assert "00-agent" in transport.health()[1]
        other.stop()
        wait_for(lambda: ready(transport), "the registration")
        transport.stop()


def test_an_invalid_configuration_makes_the_transport_unhealthy_until_it_is_fixed(
    run_dir: Path, transport: NriTransport
) -> None:
    texts = iter(["events: [Nothing]", "events: [CreateContainer]"])
    with FakeRuntime() as runtime, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run_dir / "nri.sock"))
        listener.listen()
        transport.start()
        runtime.adaptation.connect(listener.accept()[0], next(texts))
        wait_for(lambda: "Nothing" in transport.health()[1], "the error")
        assert "the runtime's configuration: events" in transport.health()[1]
        runtime.adaptation.connect(listener.accept()[0], next(texts))
        wait_for(lambda: ready(transport), "the registration")
        transport.stop()


def test_without_write_access_to_the_folder_the_agent_runs_without_a_lock(
    run_dir: Path, transport: NriTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def read_only(path: Any, flags: int, *more: Any, **remaining: Any) -> int:
        if str(path).endswith(".lock"):
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *more, **remaining)

    monkeypatch.setattr(os, "open", read_only)
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")):
        transport.start()
        wait_for(lambda: ready(transport), "the registration")
        transport.stop()


def test_an_internal_error_ends_neither_the_thread_nor_the_agent(
    run_dir: Path, transport: NriTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(module.Program, "serve", broken)
        transport.start()
        wait_for(lambda: "RuntimeError: a defect" in transport.health()[1], "the defect")
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")):
        wait_for(lambda: ready(transport), "the registration")
        transport.stop()


# -- rules ------------------------------------------------------------------------------------------------------------


def test_a_changed_rule_changes_running_containers_without_blocking_the_source(
    run_dir: Path, transport: NriTransport, parts: Parts
) -> None:
    parts.store.subscribe(transport.rules_changed)
    pod, container = SHARED.pod.messages()
    with FakeRuntime(socket_path=str(run_dir / "nri.sock")) as runtime:
        transport.start()
        wait_for(lambda: ready(transport), "the registration")
        created = runtime.create_container(pod, container).container
        runtime.post_create_container(pod, created)
        parts.store.put("NodeResourceTopology", agents.TOPOLOGY, "a test")
        wait_for(lambda: runtime.updates, "the update")
        assert [(update.container_id, update.cpuset_cpus) for update in runtime.updates] == [(CONTAINER_ID, "0-3")]
        transport.stop()


def test_numbers_of_pods_and_containers_are_gauges(transport: NriTransport, parts: Parts) -> None:
    assert 'nri_agent_held{what="nri containers"} 0.0' in scrape(parts.observer)
