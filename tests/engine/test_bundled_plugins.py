"""Bundled plugins on real containers of our own engine, as programs of their own: what they do is read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from tests.engine.node import Node
from tests.real.bundled import write_hook
from tests.real.bundled_cases import STATES
from tests.support.networks import host_device, ip
from tests.support.plugin_program import PluginProgram


@contextmanager
def bundled(node: Node, name: str, *flags: str) -> Iterator[PluginProgram]:
    """A bundled plugin beside the engine, until the end of the `with`."""
    adaptation = node.engine.nri.adaptation
    assert adaptation is not None
    module = f"nri.plugins.{name.replace('-', '_')}.plugin"
    program = PluginProgram(node.folder, "-m", module, "-idx", "10", "-socket", node.config.nri.socket_path, *flags)
    try:
        assert adaptation.ready([f"10-{name}"], 30), program.text()
        yield program
    finally:
        program.stop()


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_hooks_run_with_the_container_s_state_and_new_ones_without_a_restart(node: Node, handler: str) -> None:
    folder = node.folder / "hooks.d"
    with bundled(node, "hook-injector", f"-hooks-dirs={folder}") as plugin:
        folder.mkdir()  # it comes later
        states = {stage: write_hook(folder, stage, {"commands": ["^sleep$"]}) for stage in STATES}
        pod = node.pod(handler=handler)
        other = node.run(pod, "other", ("sh", "-c", "sleep 1000"))
        assert not any(state.exists() for state in states.values()), "hooks of other containers"
        made = node.run(pod, "app", ("sleep", "1000"))
        node.engine.containers.stop(made)
        node.engine.containers.remove(made)
        for stage, state in states.items():
            node.wait_for(state.exists, f"the hook of {stage}")
            told = json.loads(state.read_text())
            assert told["id"] == made and told["status"] in STATES[stage], stage
            state.unlink()
        (folder / "poststop.json").write_text("{")  # a mistake takes no hook away
        plugin.wait_text("all hooks stay what they were")
        node.run(pod, "again", ("sleep", "1000"))
        node.wait_for(states["poststart"].exists, "the hook after a mistake in another file")
        node.engine.containers.remove(other)
        node.remove(pod)


def device_pod(node: Node, value: str) -> pb.PodSandboxConfig:
    config = node.pod_config(network=pb.POD)
    config.annotations["netdevice.noderesource.dev"] = value
    return config


def test_a_device_of_the_host_is_in_the_pod_with_its_address_and_back_when_it_stops(node: Node) -> None:
    name = "nri" + node.machine.name[-8:]
    with host_device(name), bundled(node, "network-device-injector"):
        wanted = f"[{{name: {name}, new_name: uplink0, address: 192.0.2.7, prefix: 24, mtu: 1400}}]"
        pod = node.engine.pods.run(device_pod(node, wanted), "")
        assert not Path("/sys/class/net", name).exists()
        node.run(pod, command=("sh", "-c", "ip addr show uplink0; echo end; sleep 1000"))
        log = node.folder / "logs/pod/c.log"
        node.wait_for(lambda: "end\n" in log.read_text(), "what the container sees")
        assert "inet 192.0.2.7/24" in log.read_text() and "mtu 1400" in log.read_text()
        assert ",UP" in log.read_text()
        node.engine.pods.stop(pod)
        (link,) = json.loads(ip("-json", "link", "show", name))
        assert link["mtu"] == 1500 and "UP" not in link["flags"] and "ifalias" not in link
        node.remove(pod)


def test_a_pod_that_cannot_have_all_devices_does_not_start_and_the_host_keeps_them(node: Node) -> None:
    name = "nri" + node.machine.name[-8:]
    with host_device(name), bundled(node, "network-device-injector"):
        for value, text in (
            (f"[{{name: {name}}}, {{name: nonesuch}}]", "nonesuch: the host has no such device"),
            (f"[{{name: {name}, mtu: x}}]", r"annotation netdevice.noderesource.dev: \[0\].mtu: .x. is not a number"),
        ):
            with pytest.raises(NriError, match=text):
                node.engine.pods.run(device_pod(node, value), "")
            assert Path("/sys/class/net", name).exists()
        assert node.engine.pods.list() == []


def test_the_network_of_a_pod_is_logged_with_its_address(node: Node) -> None:
    with bundled(node, "network-logger") as plugin:
        pod = node.pod(network=pb.POD)
        (address,) = node.engine.pods.get(pod).ips
        node.remove(pod)
        for event in ("Started", "Stopped", "Removed"):
            plugin.wait_text(f"{event} pod tests/pod: namespace=")
        assert f"ips=[{address}]" in plugin.text()
