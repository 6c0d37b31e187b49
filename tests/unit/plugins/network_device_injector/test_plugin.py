"""`network-device-injector` through the adaptation, on real network namespaces."""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.config import Source
from nri.errors import PluginRejected
from nri.kube.manifest import read_manifests
from nri.plugins.network_device_injector import plugin
from nri.plugins.network_device_injector.netlink import Netlink
from nri.plugins.network_device_injector.plugin import NetworkDeviceInjector
from nri.testing import FakeRuntime, make_pod
from tests.support.networks import add_pair, in_own_network, ip, pod_network

KEY = "netdevice.noderesource.dev"


def pod_with(value: str, path: str, key: str = KEY) -> m.PodSandbox:
    namespace = m.LinuxNamespace(type="network", path=path)
    return make_pod(name="web", annotations={key: value}, linux=m.LinuxPodSandbox(namespaces=[namespace]))


def names(listing: str) -> set[str]:
    return {device["ifname"] for device in json.loads(listing)}


README = Path(plugin.__file__).with_name("README.md").read_text()


@in_own_network
def inject_and_release(runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    add_pair("eth1", "peer")
    ip("link", "set", "peer", "up")
    caplog.set_level(logging.INFO)
    runtime.add(NetworkDeviceInjector())
    manifest = re.search(r"```yaml file=router.yaml\n(.*?)```", README, re.DOTALL)
    assert manifest is not None
    (workload,) = read_manifests(Source("router.yaml", manifest[1]))
    with pod_network() as network:
        pod = workload.pod
        pod.linux.namespaces.add(type="network", path=network.path)
        runtime.run_pod_sandbox(pod)
        (link,) = json.loads(network.ip("-json", "addr", "show", "uplink0"))
        assert link["mtu"] == 9000
        shown = network.ip("-brief", "-4", "addr", "show", "uplink0").split()
        assert shown[1:] == ["UP", "192.0.2.7/24"]
        assert re.search(r"\$ ip -brief -4 addr show uplink0\nuplink0@if\d+ +UP +192.0.2.7/24 *\n", README)
        assert "eth1" not in names(ip("-json", "link"))
        runtime.stop_pod_sandbox(pod)
        assert names(network.ip("-json", "link")) == {"lo"}
        runtime.remove_pod_sandbox(pod)
    (link,) = json.loads(ip("-json", "link", "show", "eth1"))
    assert link["mtu"] == 1500 and "UP" not in link["flags"]
    messages = [record.getMessage() for record in caplog.records if record.name == "nri.plugin.network-device-injector"]
    assert messages == [
        "network device eth1 is uplink0 in the pod [pod default/router]",
        "network device eth1 is back on the host [pod default/router]",
    ]
    assert "```text\n" + "\n".join(messages) + "\n```" in README


def test_a_device_moves_to_the_pod_and_back_as_documented(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    inject_and_release(nri_runtime, caplog)


def test_a_pod_without_the_annotation_is_unchanged(nri_runtime: FakeRuntime) -> None:
    pod = make_pod()
    nri_runtime.add(NetworkDeviceInjector()).run_pod_sandbox(pod)
    nri_runtime.stop_pod_sandbox(pod)


def test_an_invalid_annotation_refuses_the_pod_with_its_key(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(NetworkDeviceInjector())
    with pytest.raises(
        PluginRejected, match=r"annotation netdevice.noderesource.dev: \[0\].mtu: \"x\" is not a number"
    ):
        nri_runtime.run_pod_sandbox(pod_with("[{name: eth1, mtu: x}]", "/proc/1/ns/net"))


@pytest.mark.parametrize("path", ["", "/proc/self/ns/net"])
def test_a_pod_on_the_host_network_is_refused_and_can_be_stopped(nri_runtime: FakeRuntime, path: str) -> None:
    nri_runtime.add(NetworkDeviceInjector())
    pod = pod_with("[{name: eth1}]", path)
    with pytest.raises(PluginRejected, match="a pod on the host's network"):
        nri_runtime.run_pod_sandbox(pod)
    nri_runtime.stop_pod_sandbox(pod)


def test_a_missing_namespace_is_an_error_with_its_path(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(NetworkDeviceInjector())
    with pytest.raises(PluginRejected, match="network namespace /no/such: No such file or directory"):
        nri_runtime.run_pod_sandbox(pod_with("[{name: eth1}]", "/no/such"))


@in_own_network
def fail_on_the_second(runtime: FakeRuntime) -> None:
    add_pair("eth1", "peer")
    runtime.add(NetworkDeviceInjector())
    with pod_network() as network:
        pod = pod_with("[{name: eth1, new_name: net1}, {name: eth9}]", network.path)
        with pytest.raises(PluginRejected, match="eth9: not found on the host; all network devices are back"):
            runtime.run_pod_sandbox(pod)
        assert names(network.ip("-json", "link")) == {"lo"}
    assert names(ip("-json", "link")) == {"lo", "eth1", "peer"}


def test_a_failure_refuses_the_pod_and_returns_all_devices(nri_runtime: FakeRuntime) -> None:
    fail_on_the_second(nri_runtime)


@in_own_network
def end_a_refused_pod(runtime: FakeRuntime) -> None:
    add_pair("eth1", "peer")
    runtime.add(NetworkDeviceInjector())
    with pod_network() as network:
        network.ip("link", "add", "eth0", "type", "veth", "peer", "name", "other")
        for value in ("[{name: eth1, new_name: eth0}]", "[{name: bond0, new_name: eth0}]"):
            pod = pod_with(value, network.path)
            with pytest.raises(PluginRejected):
                runtime.run_pod_sandbox(pod)
            runtime.stop_pod_sandbox(pod)
            runtime.remove_pod_sandbox(pod)
        assert names(network.ip("-json", "link")) == {"lo", "eth0", "other"}
    assert names(ip("-json", "link")) == {"lo", "eth1", "peer"}


def test_stopping_a_refused_pod_leaves_its_own_devices(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    end_a_refused_pod(nri_runtime)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@in_own_network
def forget_the_alias(runtime: FakeRuntime) -> None:
    add_pair("eth1", "peer")
    runtime.add(NetworkDeviceInjector())
    with pod_network() as network:
        pod = pod_with("[{name: eth1, new_name: net1}]", network.path)
        runtime.run_pod_sandbox(pod)
        network.ip("link", "set", "net1", "alias", "mine")
        runtime.stop_pod_sandbox(pod)
    assert "eth1" in names(ip("-json", "link"))


def test_a_device_with_a_changed_alias_is_returned(nri_runtime: FakeRuntime) -> None:
    forget_the_alias(nri_runtime)


@in_own_network
def take_back_what_is_there(runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("eth1", "eth2"):
        add_pair(name, f"{name}-peer")
    runtime.add(NetworkDeviceInjector())
    with pod_network() as network:
        pod = pod_with("[{name: eth1, new_name: net1}, {name: eth2, new_name: net2}]", network.path)
        runtime.run_pod_sandbox(pod)
        ip("link", "set", "eth1-peer", "name", "eth1")  # its name is already in use meanwhile
        runtime.stop_pod_sandbox(pod)
        assert names(network.ip("-json", "link")) == {"lo"}
    assert "eth2" in names(ip("-json", "link"))
    assert any("network device eth1: cannot take it back: File exists" in text for text in caplog.messages)


def test_stopping_a_pod_returns_devices_and_logs_failures(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    take_back_what_is_there(nri_runtime, caplog)


@in_own_network
def restart_between(runtime: FakeRuntime) -> None:
    add_pair("eth1", "peer")
    runtime.add(NetworkDeviceInjector())
    with pod_network() as network:
        pod = pod_with("[{name: eth1, new_name: net1, mtu: 1300}]", network.path)
        runtime.run_pod_sandbox(pod)
        runtime.disconnect()
        runtime.add(NetworkDeviceInjector(), name="new")
        runtime.stop_pod_sandbox(pod)
    (link,) = json.loads(ip("-json", "link", "show", "eth1"))
    assert link["mtu"] == 1500


def test_a_restarted_plugin_knows_the_origin_of_a_device(nri_runtime: FakeRuntime) -> None:
    restart_between(nri_runtime)


@in_own_network
def come_back_while_away(runtime: FakeRuntime) -> None:
    add_pair("net1", "peer")
    ip("link", "set", "net1", "alias", "eth1 nri:1500:")
    runtime.add(NetworkDeviceInjector())
    assert names(ip("-json", "link")) == {"lo", "eth1", "peer"}


def test_devices_that_returned_while_the_plugin_was_down_get_their_names(nri_runtime: FakeRuntime) -> None:
    come_back_while_away(nri_runtime)


@in_own_network
def stop_without_network(runtime: FakeRuntime) -> None:
    runtime.add(NetworkDeviceInjector())
    runtime.stop_pod_sandbox(pod_with("[{name: eth1}]", "/no/such"))


def test_a_missing_network_does_not_fail_the_stop(nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    stop_without_network(nri_runtime)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_the_plugin_declares_its_annotations() -> None:
    assert set(NetworkDeviceInjector.annotations) >= {KEY, "netdevices.nri.containerd.io"}
    assert issubclass(NetworkDeviceInjector, nri.Plugin)


def test_unknown_keys_log_a_warning(nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    nri_runtime.add(NetworkDeviceInjector())
    with pytest.raises(PluginRejected, match="/no/such"):
        nri_runtime.run_pod_sandbox(pod_with("[{name: eth1, mtuu: 1400}]", "/no/such"))
    assert any("[0].mtuu: unknown key" in text for text in caplog.messages)


def test_an_invalid_annotation_does_not_fail_the_stop(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    nri_runtime.add(NetworkDeviceInjector()).stop_pod_sandbox(pod_with("[{name: eth1, mtu: x}]", "/no/such"))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@in_own_network
def end_in_trouble(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.add(NetworkDeviceInjector())

    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(plugin, "Netlink", refuse)
    runtime.stop_pod_sandbox(pod_with("[{name: eth1}]", f"{__file__}/net"))


def test_errors_while_stopping_a_pod_are_logged(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end_in_trouble(nri_runtime, monkeypatch)
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [text.partition(" [pod")[0] for text in messages] == [
        f"network namespace {__file__}/net: Not a directory",
        "cannot restore devices that are back on the host: Too many open files",
    ]


@in_own_network
def fail_to_undo(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pair("eth1", "peer")
    runtime.add(NetworkDeviceInjector())

    def refuse(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Netlink, "add_address", refuse)
    monkeypatch.setattr(Netlink, "put_back", refuse)
    ip("addr", "add", "198.51.100.1/24", "dev", "eth1")
    with pod_network() as network:
        pod = pod_with("[{name: eth1, address: 192.0.2.7}]", network.path)
        with pytest.raises(
            PluginRejected,
            match="eth1: Device or resource busy; some steps could not be undone: eth1: addresses, routes, up",
        ):
            runtime.run_pod_sandbox(pod)


def test_steps_that_cannot_be_undone_are_logged_and_in_the_error(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail_to_undo(nri_runtime, monkeypatch)
    assert any(
        "cannot undo: eth1: addresses, routes, up: Device or resource busy" in message for message in caplog.messages
    )


@in_own_network
def end_during_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    add_pair("eth1", "peer")
    under_way, go_on = threading.Event(), threading.Event()
    real = Netlink.set_mtu

    def slow(self: Netlink, index: int, mtu: int) -> None:
        under_way.set()
        assert go_on.wait(10)
        real(self, index, mtu)

    monkeypatch.setattr(Netlink, "set_mtu", slow)
    plugin = NetworkDeviceInjector()
    with pod_network() as network:
        pod = pod_with("[{name: eth1, new_name: net1, mtu: 1300}]", network.path)
        start = threading.Thread(target=plugin.run_pod_sandbox, args=(pod,))
        start.start()
        assert under_way.wait(10)
        end = threading.Thread(target=plugin.stop_pod_sandbox, args=(pod,))
        end.start()
        end.join(0.3)
        early = names(network.ip("-json", "link"))
        go_on.set()
        start.join()
        end.join()
    assert early == {"lo", "net1"}, "the end has taken a device that is being moved"
    assert names(ip("-json", "link")) == {"lo", "eth1", "peer"}


def test_a_stop_waits_for_the_start_of_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime may stop a pod after a timeout of its start."""
    end_during_the_start(monkeypatch)
