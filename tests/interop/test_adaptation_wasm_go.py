"""A Go plugin on the reference's SDK, compiled to WebAssembly from source, in our adaptation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.peers.health import PluginHealth
from nri.api import messages as m
from nri.errors import PluginError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.peers.build import cache_dir, off_the_clock, peer
from tests.support import wat
from tests.support.needs import need_module

need_module("wasmtime")

from nri.adaptation.launch.wasm.program import Program  # noqa: E402 - needs wasmtime
from tests.support.waiting import wait_for  # noqa: E402

LABEL = "10-go"
PATIENCE_S = 30.0


class Node:
    """A runtime that has the plugin installed."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime

    @property
    def health(self) -> PluginHealth:
        (row,) = [row for row in self.runtime.plugins if row.plugin == LABEL]
        return row

    def create(self, do: str = "") -> Any:
        return self.runtime.create_container(make_pod(name="web", annotations={"do": do}), make_container())

    def come_back(self) -> None:
        wait_for(lambda: self.health.restarts, lambda: f"it was not loaded again: {self.health}")
        assert self.runtime.adaptation.ready([LABEL], PATIENCE_S), self.health


Start = Callable[..., Node]


@pytest.fixture
def start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Start]:
    caplog.set_level(logging.DEBUG, "nri.adaptation")
    running: list[FakeRuntime] = []
    (tmp_path / "conf.d").mkdir()
    code = peer("wasmplugin").read_bytes()
    wat.install(tmp_path / "plugins", LABEL, code)
    cache = str(cache_dir() / "wasm")
    with off_the_clock():  # compiled once for all tests
        Program(LABEL, code, cache=cache)

    def begin(config: str = "", *, joins: bool = True, **options: Any) -> Node:
        (tmp_path / "conf.d" / f"{LABEL}.conf").write_text(config)
        runtime = FakeRuntime(
            plugin_path=str(tmp_path / "plugins"),
            plugin_config_path=str(tmp_path / "conf.d"),
            wasm_cache=cache,
            **options,
        )
        running.append(runtime)
        if joins:
            assert runtime.adaptation.ready([LABEL], PATIENCE_S), runtime.plugins
        return Node(runtime)

    yield begin
    for runtime in running:
        runtime.adaptation.stop()


def plugin_log(caplog: pytest.LogCaptureFixture) -> list[str]:
    own_entry = f"plugin pre-connected-wasm:{LABEL}: "
    return [text.removeprefix(own_entry) for text in map(str, caplog.messages) if text.startswith(own_entry)]


def test_every_event_arrives_in_order_and_its_reply_is_applied(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    node = start("its: configuration", pods=[make_pod(uid="p0")], containers=[make_container(pod_sandbox_id="p0")])
    runtime, pod, container = node.runtime, make_pod(name="web"), make_container()
    runtime.run_pod_sandbox(pod)
    created = runtime.create_container(pod, container)
    for name in ("post_create_container", "start_container", "post_start_container"):
        getattr(runtime, name)(pod, container)
    updated = runtime.update_container(pod, container, m.LinuxResources())
    runtime.post_update_container(pod, container)
    runtime.update_pod_sandbox(pod, m.LinuxResources(), m.LinuxResources())
    runtime.post_update_pod_sandbox(pod)
    runtime.stop_container(pod, container)
    runtime.remove_container(pod, container)
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)
    runtime.adaptation.stop()

    assert created.env == {"POD": "web", "CONFIG": "its: configuration"}
    assert list(created.adjust.mounts) == ["/host"]
    assert created.adjust.cpu_shares == 1234
    assert updated.resources.cpu.shares.value == 4321
    configured, *calls = plugin_log(caplog)
    assert configured == 'configured by fake v1.0.0 with "its: configuration"'
    assert [call.partition(": ")[2] for call in calls] == [
        "Synchronize 1 pods 1 containers",
        "RunPodSandbox",
        "CreateContainer",
        "ValidateContainerAdjustment",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "UpdateContainer",
        "PostUpdateContainer",
        "UpdatePodSandbox",
        "PostUpdatePodSandbox",
        "StopContainer",
        "RemoveContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
        "Shutdown",
    ]


def test_log_lines_of_the_plugin_keep_their_levels(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    start().create()
    levels = {record.levelname for record in caplog.records if "configured by" in record.getMessage()}
    assert levels == {"WARNING"}


def test_an_error_or_a_rejection_refuses_the_container_and_keeps_the_plugin(start: Start) -> None:
    node = start()
    with pytest.raises(PluginError, match=r"10-go.*this one is refused"):
        node.create("refuse")
    with pytest.raises(Exception, match="nothing may be adjusted here"):
        node.create("reject")
    assert node.create("nap").env["POD"] == "web"
    assert (node.health.state, node.health.restarts) == ("active", 0)


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("panic", "panic: runtime error: invalid memory address or nil pointer dereference"),
        ("exit", "exit code 3"),
        ("eat", "MiB of memory"),
        ("loop", "interrupted: it took too long in plugin_create_container"),
        ("sleep", "interrupted: it took too long in plugin_create_container"),
    ],
)
def test_a_failed_plugin_costs_the_request_only_its_reply_and_is_restarted(
    start: Start, caplog: pytest.LogCaptureFixture, do: str, words: str
) -> None:
    policy = f'["{LABEL}"]\ntimeout = {{ CreateContainer = "2s" }}\n'
    node = start("no validator", request_timeout_s=20.0, policy=policy)
    began = time.monotonic()
    assert node.create(do).env == {}
    assert time.monotonic() - began < 30
    node.come_back()
    ended = "\n".join(text for text in caplog.messages if text.startswith("plugin pre-connected-wasm:10-go "))
    assert words in ended, ended
    assert node.create().env["POD"] == "web"


def test_a_refused_configuration_is_reported(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    start("bad", joins=False)
    wait_for(
        lambda: any("failed to configure" in text and "a bad configuration" in text for text in caplog.messages),
        lambda: str(caplog.messages),
    )


def test_a_large_state_arrives_in_one_message(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    pods = [make_pod(uid=f"p{number}") for number in range(500)]
    containers = [
        make_container(id=f"c{number}", pod_sandbox_id=f"p{number % 500}", labels={"pad": "x" * 4000})
        for number in range(2000)
    ]
    start(pods=pods, containers=containers)
    assert "call 1: Synchronize 500 pods 2000 containers" in plugin_log(caplog)
