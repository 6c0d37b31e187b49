"""Settings of all pods and containers, read from a file and seen in real containers."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri import config
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import ContainerConfig, EngineConfig
from tests.engine.node import Node
from tests.engine.test_user_namespaces import FIRST, container, inside, mapped

USER = {"security_context": {"run_as_user": {"value": 1000}}}


def settings(node: Node, text: str) -> None:
    """Start the engine with these keys of the table ``containers``."""
    containers: ContainerConfig = config.read(
        EngineConfig, [config.Source("engine.toml", f"[containers]\n{text}", "toml")]
    ).containers
    node.start(replace(node.config, containers=containers))


def run(node: Node, text: str, *, network: int = pb.NODE, handler: str = "runc", **more: Any) -> str:
    """The output of a shell's commands in a new container."""
    pod = node.pod(network=network, handler=handler)
    return inside(node, node.run(pod, **more), text)


PORTS = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
PINGS = "cat /proc/sys/net/ipv4/ping_group_range"
LISTEN = "(echo | nc -l -p 80 >/dev/null; echo $?) & sleep 0.3; echo | nc 127.0.0.1 80; wait"
#: The socket with which current programs ping; busybox's needs a capability.
ICMP = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)"


def can_ping(node: Node, pod: str, user: int) -> bool:
    """Whether a user of the node may ping in a pod's network."""
    path = node.engine.inventory.pod(pod).record.namespace_paths["network"]
    users = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    argv = ["nsenter", f"--net={path}", "setpriv", *users, "/usr/bin/python3", "-c", ICMP]
    return subprocess.run(argv, check=False, timeout=60, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_every_user_may_listen_on_low_ports_and_ping(node: Node, handler: str) -> None:
    pod = node.pod(network=pb.POD, handler=handler)
    output = inside(node, node.run(pod, linux=USER), f"{PORTS}; {PINGS}; {LISTEN}")
    assert output.split() == ["0", "0", "2147483647", "0"]
    assert can_ping(node, pod, 1000)


def test_a_pod_with_a_user_namespace_may_do_the_same(node: Node) -> None:
    config_ = mapped(node)
    pod = node.engine.pod_creation.run(config_)
    request = container(node, config_, "c", run_as_user=pb.Int64Value(value=1000))
    container_id = node.engine.container_creation.create(pod, request)
    node.engine.container_start.start(container_id)
    assert inside(node, container_id, f"{PORTS}; {LISTEN}").split() == ["0", "0"]
    assert can_ping(node, pod, FIRST + 1000)


def test_both_can_be_switched_off(node: Node) -> None:
    settings(node, "enable_unprivileged_ports = false\nenable_unprivileged_icmp = false")
    pod = node.pod(network=pb.POD)
    assert inside(node, node.run(pod), f"{PORTS}; {PINGS}").split() == ["1024", "1", "0"]
    assert not can_ping(node, pod, 1000)


def test_default_sysctls_replace_the_engines_and_those_of_a_request_replace_them(node: Node) -> None:
    own = ["net.ipv4.ip_unprivileged_port_start=500", "net.ipv4.ip_local_port_range=2000 3000"]
    settings(node, f"default_sysctls = {[*own, 'kernel.shm_rmid_forced=1']}")
    text = f"{PORTS}; cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/shm_rmid_forced"
    assert run(node, text, network=pb.POD).split() == ["500", "2000", "3000", "1"]
    config_ = node.pod_config("asks", network=pb.POD)
    config_.linux.sysctls["net/ipv4/ip_unprivileged_port_start"] = "700"
    pod = node.engine.pod_creation.run(config_)
    assert inside(node, node.run(pod), PORTS) == "700"


def test_a_pod_on_the_nodes_network_keeps_the_nodes_values(node: Node) -> None:
    before = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    settings(node, 'default_sysctls = ["net.ipv4.ip_local_port_range=2000 3000"]')
    assert run(node, "cat /proc/sys/net/ipv4/ip_local_port_range").split() == before
