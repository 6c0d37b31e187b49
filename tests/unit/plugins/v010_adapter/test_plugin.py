"""`v010-adapter`: requests for events, and errors of programs."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import pytest

import nri
from nri.errors import PluginError
from nri.plugins.v010_adapter.plugin import V010Adapter
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.commands import run
from tests.support.v010 import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_plugin_subscribes_to_the_events_of_protocol_0_1_0(nri_runtime: FakeRuntime, node: Node) -> None:
    nri_runtime.add(V010Adapter(), config=node.config)
    expected = nri.EventMask.of("RunPodSandbox", "StopPodSandbox", "StartContainer", "StopContainer")
    assert nri_runtime.health("10-v010-adapter").events == str(expected)


def test_pods_and_containers_are_created_and_deleted(nri_runtime: FakeRuntime, node: Node) -> None:
    node.name("recorder")
    nri_runtime.add(V010Adapter(), config=node.config)
    pod, container = make_pod(name="web"), make_container()
    nri_runtime.run_pod_sandbox(pod)
    nri_runtime.start_container(pod, container)
    nri_runtime.stop_container(pod, container)
    nri_runtime.stop_pod_sandbox(pod)
    assert [(request["state"], request["id"], request["sandboxID"]) for request in node.requests()] == [
        ("create", pod.id, pod.id),
        ("create", container.id, pod.id),
        ("delete", container.id, pod.id),
        ("delete", pod.id, pod.id),
    ]


def test_an_error_refuses_the_start_with_the_programs_name(nri_runtime: FakeRuntime, node: Node) -> None:
    node.name(("recorder", {"error": "not on this node"}))
    nri_runtime.add(V010Adapter(), config=node.config)
    with pytest.raises(PluginError, match=r"plugin: recorder: not on this node"):
        nri_runtime.start_container(make_pod(), make_container())


def test_an_error_at_a_removal_is_only_logged(
    nri_runtime: FakeRuntime, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.name(("recorder", {"error": "not on this node"}))
    nri_runtime.add(V010Adapter(), config=node.config)
    nri_runtime.stop_container(make_pod(), make_container())
    nri_runtime.stop_pod_sandbox(make_pod())
    assert sum("plugin: recorder: not on this node" in text for text in caplog.messages) == 2


def test_a_program_that_never_ends_is_killed_before_the_timeout(node: Node) -> None:
    node.program("slow", "sleep 600")
    node.name("slow")
    with FakeRuntime(request_timeout_s=3.0) as runtime:
        runtime.add(V010Adapter(), config=node.config)
        began = time.monotonic()
        with pytest.raises(PluginError, match=r"plugin: slow: the program did not end within [12]\.?\d* s"):
            runtime.start_container(make_pod(), make_container())
        assert time.monotonic() - began < 30
        assert runtime.health("10-v010-adapter").state == "active"


def test_an_invalid_file_prevents_the_start(nri_runtime: FakeRuntime, node: Node) -> None:
    node.write('{"plugins": [{"type": ""}]}')
    with pytest.raises(Exception, match=r"conf\.json: plugins\[0\]\.type: expected the name of a program"):
        nri_runtime.add(V010Adapter(), config=node.config)


@pytest.mark.parametrize("key", ["plugin_timeout", "output_limit"])
def test_limits_of_zero_are_refused(nri_runtime: FakeRuntime, key: str) -> None:
    with pytest.raises(Exception, match="must be positive"):
        nri_runtime.add(V010Adapter(), config=f"{key}: 0")


def test_the_error_output_of_a_program_is_logged_with_its_name(
    nri_runtime: FakeRuntime, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node.program("chatty", """echo "I am here" >&2; echo '{"plugin": "chatty"}'""")
    node.name("chatty")
    nri_runtime.add(V010Adapter(), config=node.config)
    nri_runtime.start_container(make_pod(name="web", namespace="shop"), make_container(name="app"))
    assert "chatty: I am here [pod shop/web, container app]" in caplog.messages
    assert "create: chatty [pod shop/web, container app]" in caplog.messages


def test_missing_programs_and_unknown_keys_are_logged_at_the_start(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf = tmp_path / "conf.json"
    conf.write_text('{"version": "0.1", "plugin": [], "plugins": [{"type": "no-such-program"}]}')
    nri_runtime.add(V010Adapter(), config=f"conf: {conf}\nbin_dir: {tmp_path}")
    lines = "\n".join(record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert f'{conf}: plugin: unknown key, ignored (did you mean "plugins"?)' in lines
    assert f'{conf}: exec: "no-such-program": executable file not found' in lines


def test_before_configure_no_program_runs(node: Node) -> None:
    node.name(("recorder", {"error": "not on this node"}))
    adapter = V010Adapter()
    adapter.config.conf, adapter.config.bin_dir = str(node.conf), str(node.programs)
    adapter.start_container(make_pod(), make_container())
    assert node.requests() == []
    adapter.configure()
    with pytest.raises(nri.Reject, match="not on this node"):
        adapter.start_container(make_pod(), make_container())
    assert len(node.requests()) == 1


def test_without_programs_a_warning_is_logged_once(
    nri_runtime: FakeRuntime, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nri_runtime.add(V010Adapter(), config=node.config)
    nri_runtime.start_container(make_pod(), make_container())
    assert [text for text in caplog.messages if str(node.conf) in text] == [f"{node.conf}: no plugins"]
    assert not [text for text in caplog.messages if text.startswith("create:")]


def test_the_help_has_the_flags_with_their_defaults() -> None:
    lines = " ".join(run([sys.executable, "-m", "nri.plugins.v010_adapter.plugin", "--help"], timeout=60).split())
    assert "--conf FILE the list of plugins (default /etc/nri/conf.json)" in lines
    assert "--bin-dir DIR folder of plugins, searched after PATH (default /opt/nri/bin)" in lines
    assert "--plugin-timeout TIME limit for one plugin (default 10s)" in lines
