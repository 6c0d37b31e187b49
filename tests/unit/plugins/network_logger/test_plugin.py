"""`network-logger` logs a line for each pod's network."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.plugins.network_logger import plugin
from nri.plugins.network_logger.plugin import NetworkLogger
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.plugin_program import Listener, plugin_program


def test_a_removed_pod_is_logged_with_its_namespace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    pod = make_pod(name="web", linux=m.LinuxPodSandbox(namespaces=[m.LinuxNamespace(type="network", path="/run/n")]))
    removed_pod = make_pod(id=pod.id, name="web")
    with FakeRuntime() as runtime:
        logger = NetworkLogger()
        runtime.add(logger)
        runtime.run_pod_sandbox(pod)
        runtime.stop_pod_sandbox(removed_pod)
        runtime.remove_pod_sandbox(removed_pod)
        assert logger.namespaces == {}
    messages = [record.getMessage() for record in caplog.records if "default/web: " in record.getMessage()]
    assert len(messages) == 3 and all("namespace=/run/n " in line for line in messages), messages


def test_namespace_and_addresses_of_pods_are_logged_as_documented(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    namespaces = [m.LinuxNamespace(type="ipc", path="/i"), m.LinuxNamespace(type="network", path="/run/netns/cni-6f1c")]
    linux = m.LinuxPodSandbox(namespaces=namespaces)
    pod = make_pod(name="web", namespace="shop", ips=["10.88.0.7", "2001:db8::7"], linux=linux)
    on_host = make_pod(name="proxy", namespace="kube-system")
    with FakeRuntime(pods=[on_host], containers=[make_container(pod=on_host)]) as runtime:
        runtime.add(NetworkLogger())
        runtime.run_pod_sandbox(pod)
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
    lines = [record.getMessage() for record in caplog.records if record.name == "nri.plugin.network-logger"]
    assert lines[2] == (
        "Started pod shop/web: namespace=/run/netns/cni-6f1c ips=[10.88.0.7 2001:db8::7] [pod shop/web]"
    )
    assert lines[-1] == "Runtime shutting down..."
    page = Path(plugin.__file__).with_name("README.md").read_text()
    assert "```text\n" + "\n".join(lines[:-1]) + "\n```" in page


def test_sigterm_ends_the_program_with_0(tmp_path: Path) -> None:
    arguments = ["-m", "nri.plugins.network_logger.plugin", "-idx", "10", "-socket", tmp_path / "s"]
    with Listener(tmp_path / "s") as listener, plugin_program(tmp_path, *arguments) as program:
        listener.accept().begin()
        program.wait_text("Synchronized state with the runtime (0 pods, 0 containers)...")
        assert program.stop() == 0
