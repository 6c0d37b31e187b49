"""The plugins of `nri drift`, `events` and `record`: one name per kind, and no state after a run."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nri.metrics.prometheus import PrometheusObserver
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin
from tests.support.needs import need_module
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import command, environment


@pytest.fixture
def registry() -> Any:
    need_module("prometheus_client")
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment()) as started:  # fmt: skip
        try:
            yield started
            started.send_signal(signal.SIGINT)
            started.wait(60)
        finally:
            started.kill()


def active(runtime: FakeRuntime) -> list[str]:
    return sorted(row.plugin for row in runtime.plugins if row.state == "active")


def series(registry: Any) -> set[str]:
    """The plugins that metrics have series of."""
    return {s.labels["plugin"] for family in registry.collect() for s in family.samples if "plugin" in s.labels}


def test_every_run_of_a_kind_has_the_same_name_and_leaves_no_metrics(nri, folder: Path, registry: Any) -> None:
    socket = str(folder / "nri.sock")
    where = ("--socket-path", socket)
    observer = PrometheusObserver(registry)
    with FakeRuntime(socket_path=socket, disable_connections=False, observer=observer) as runtime:
        runtime.add(plugin("real", create_container=lambda *_: None), "10")
        for run in range(3):
            with process("events", "-f", *where), process("record", str(folder / "traces"), *where):
                wait_for(lambda: len(active(runtime)) == 3, "both observers")
                runtime.create_container(make_pod(name="web"), make_container(name=f"app{run}"))
            assert nri("events", *where).returncode == 0
            assert nri("drift", *where, "--root", str(folder)).returncode == 0
            wait_for(lambda: active(runtime) == ["10-real"], "the end of the observers")
        rows = {row.plugin for row in runtime.plugins}
        assert rows == {"10-real", "99-nri-drift", "99-nri-events", "99-nri-record"}
        assert series(registry) == {"10-real"}


def test_several_users_can_observe_one_node(nri, folder: Path) -> None:
    socket = str(folder / "nri.sock")
    with FakeRuntime(socket_path=socket, disable_connections=False) as runtime, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(process("events", "-f", "--socket-path", socket))
        names = ["99-nri-events", "99-nri-events-2", "99-nri-events-3"]
        wait_for(lambda: active(runtime) == names, "three observers")
        assert nri("events", "--socket-path", socket).returncode == 0
        assert nri("drift", "--socket-path", socket, "--root", str(folder)).returncode == 0
        assert active(runtime) == names


def test_observers_do_not_displace_remembered_plugins(nri, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr("nri.adaptation.registration.registry.MAX_REMEMBERED", 3)
    socket = str(folder / "nri.sock")
    with FakeRuntime(socket_path=socket, disable_connections=False) as runtime:
        runtime.add(plugin("real", create_container=lambda *_: None), "10").disconnect("10-real")
        for _ in range(5):
            assert nri("events", "--socket-path", socket).returncode == 0
            assert nri("drift", "--socket-path", socket, "--root", str(folder)).returncode == 0
        assert sorted(row.plugin for row in runtime.plugins) == ["10-real", "99-nri-drift", "99-nri-events"]
