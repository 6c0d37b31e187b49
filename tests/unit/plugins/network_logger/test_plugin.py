"""`network-logger`: a line for each pod's network."""

from __future__ import annotations

import logging

import pytest

from nri.api import messages as m
from nri.plugins.network_logger.plugin import NetworkLogger
from nri.testing import FakeRuntime, make_container, make_pod


def test_it_logs_namespace_and_addresses_of_pods(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    namespaces = [m.LinuxNamespace(type="ipc", path="/i"), m.LinuxNamespace(type="network", path="/run/netns/n1")]
    pod = make_pod(
        name="web", namespace="shop", ips=["10.1.2.3", "2001:db8::3"], linux=m.LinuxPodSandbox(namespaces=namespaces)
    )
    on_host = make_pod(name="agent", namespace="kube-system")
    with FakeRuntime(pods=[on_host], containers=[make_container(pod=on_host)]) as runtime:
        runtime.add(NetworkLogger())
        runtime.run_pod_sandbox(pod)
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
    lines = [record.getMessage() for record in caplog.records if record.name == "nri.plugin.network-logger"]
    assert [text.partition(" [pod")[0] for text in lines] == [
        "Synchronized state with the runtime (1 pods, 1 containers)...",
        "pod kube-system/agent: namespace=<host-network> ips=[]",
        "Started pod shop/web: namespace=/run/netns/n1 ips=[10.1.2.3 2001:db8::3]",
        "Stopped pod shop/web: namespace=/run/netns/n1 ips=[10.1.2.3 2001:db8::3]",
        "Removed pod shop/web: namespace=/run/netns/n1 ips=[10.1.2.3 2001:db8::3]",
        "Runtime shutting down...",
    ]
