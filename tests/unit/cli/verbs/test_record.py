"""`nri record` as a process writes all events that a plugin receives."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from nri.api.events import BY_RPC
from nri.api.naming import DEFAULT_SOCKET
from nri.testing import FakeRuntime, Replay, make_container, make_pod
from nri.trace.history import Trace
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import command, environment


def test_all_events_are_recorded_as_observed(folder: Path) -> None:
    socket, traces = str(folder / "nri.sock"), folder / "traces"
    words = ["record", str(traces), "--socket-path", socket, "--redact", "none"]
    with FakeRuntime(socket_path=socket, disable_connections=False) as runtime:
        with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True, env=environment()) as process:
            try:
                wait_for(lambda: any(row.state == "active" for row in runtime.plugins), "the plugin")
                pod = make_pod(name="web", namespace="shop")
                runtime.run_pod_sandbox(pod)
                runtime.create_container(pod, make_container(name="app"))
                process.send_signal(signal.SIGTERM)
                _, output = process.communicate(timeout=20)
            finally:
                process.kill()
    assert process.returncode == 0 and f"recording into {traces}" in output
    names = [event.name for event in Trace(traces).events()]
    assert names[-2:] == ["RunPodSandbox", "CreateContainer"]
    with Replay(traces) as replay:
        left_out = {outcome.left_out for outcome in replay.outcomes()}
    assert left_out == {"it was recorded by nri record, without the answers of plugins"}


def test_a_missing_runtime_exits_with_3(nri, folder: Path) -> None:
    result = nri("record", str(folder / "traces"), "--socket-path", str(folder / "none.sock"))
    assert result.returncode == 3, result.stderr


@pytest.mark.skipif(os.path.exists(DEFAULT_SOCKET), reason="a runtime runs here, and it would be recorded")
def test_without_an_option_the_default_socket_is_recorded(nri, folder: Path) -> None:
    result = nri("record", str(folder / "traces"))
    assert result.returncode == 3 and f"cannot connect to {DEFAULT_SOCKET}: " in result.stderr


def test_unsupported_options_are_errors_with_their_value(nri, folder: Path) -> None:
    socket = ("--socket-path", str(folder / "nri.sock"))
    result = nri("record", str(folder / "traces"), "--events", "CreateContianer", *socket)
    assert result.returncode == 2 and '"CreateContianer"' in result.stderr and not (folder / "traces").exists()
    (folder / "file").touch()
    result = nri("record", str(folder / "file" / "traces"), *socket)
    assert result.returncode == 2 and result.stderr.startswith(f"error: {folder}/file/traces: ")


def test_only_selected_events_are_recorded_and_quiet_prints_nothing(folder: Path) -> None:
    socket, traces = str(folder / "nri.sock"), folder / "traces"
    with FakeRuntime(socket_path=socket, disable_connections=False) as runtime:
        argv = command("record", str(traces), "-q", "--events", "RunPodSandbox,StopPodSandbox", "--redact", "none")
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environment(NRI_SOCKET=socket)) as process:
            try:
                wait_for(lambda: any(row.state == "active" for row in runtime.plugins), "the plugin")
                pod = make_pod(name="web", namespace="shop")
                runtime.run_pod_sandbox(pod)
                runtime.create_container(pod, make_container(name="app", pod=pod))
                runtime.stop_pod_sandbox(pod)
                process.send_signal(signal.SIGTERM)
                _, output = process.communicate(timeout=20)
            finally:
                process.kill()
    assert (process.returncode, output) == (0, "")
    events = [event for event in Trace(traces).events() if event.name in BY_RPC and event.name != "Synchronize"]
    assert [(event.name, event.subject) for event in events] == [
        ("RunPodSandbox", "shop/web"),
        ("StopPodSandbox", "shop/web"),
    ]
