"""Pods' networks by the real CNI plugins: bridge, host-local, loopback, portmap."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.engine import Engine
from nri.engine.network import Cni, NetworkNamespaces, PortMapping, find_networks
from nri.engine.network.configuration import Network
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, InvalidRequest, MissingTool
from nri.engine.support.kernel import CLONE_NEWNET, is_mount_point, setns
from nri.errors import RequestError
from tests.engine.machine import Machine
from tests.engine.node import Node
from tests.support.needs import need, need_tool

PLUGINS = Path("/usr/lib/cni")


class Networks:
    """A bridge of the test's own, with namespaces and a cache."""

    def __init__(self, machine: Machine) -> None:
        need((PLUGINS / "bridge").exists(), "the CNI plugins (containernetworking-plugins)")
        self.machine = machine
        self.bridge = "nrie" + machine.name[-8:]
        self.folder = machine.folder / "cni"
        self.folder.mkdir()
        self.namespaces = NetworkNamespaces(machine.folder / "netns")
        self.cni = Cni([PLUGINS], machine.folder / "cache")

    def write(self, *more: dict[str, object], name: str = "pods") -> Network:
        bridge = {
            "type": "bridge", "bridge": self.bridge, "isGateway": True, "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.231.77.0/24"}]],
                     "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(self.folder / "ipam")},
        }  # fmt: skip
        data = {"cniVersion": "1.0.0", "name": name, "plugins": [bridge, *more]}
        (self.folder / "10-net.conflist").write_text(json.dumps(data))
        networks, complaints = find_networks(self.folder)
        assert networks, complaints
        return networks[0]

    def links(self) -> list[str]:
        """The bridge's interfaces on the host."""
        folder = Path("/sys/class/net", self.bridge, "brif")
        return [path.name for path in folder.iterdir()] if folder.exists() else []

    def leases(self) -> list[str]:
        return [path.name for path in (self.folder / "ipam").rglob("10.*")]

    def close(self) -> None:
        for name in self.namespaces.names():
            self.namespaces.remove(name)
        if Path("/sys/class/net", self.bridge).exists():
            subprocess.run([need_tool("ip"), "link", "delete", self.bridge], check=True, timeout=20)


@pytest.fixture
def networks(machine: Machine) -> Iterator[Networks]:
    forward = Path("/proc/sys/net/ipv4/ip_forward")
    before = forward.read_text()
    networks_ = Networks(machine)
    try:
        yield networks_
    finally:
        networks_.close()
        forward.write_text(before)  # the bridge plugin turns it on for its gateway


def inside(namespace: Path, action: object) -> object:
    """What a function gives in a namespace, on a thread that ends there."""
    actual: list[object] = []
    failed: list[BaseException] = []

    def go() -> None:
        try:
            actual.append(gone_there())
        except BaseException as error:
            failed.append(error)

    def gone_there() -> object:
        descriptor = os.open(namespace, os.O_RDONLY)
        setns(descriptor, CLONE_NEWNET)
        os.close(descriptor)
        return action()  # type: ignore[operator]

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return actual[0]


def test_a_namespace_lives_without_a_process_and_has_its_loopback_up(networks: Networks) -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    path = networks.namespaces.create("pod1")
    assert networks.namespaces.exists("pod1") and is_mount_point(path)
    assert os.readlink("/proc/thread-self/ns/net") == before

    def loopback() -> bool:
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname(), 5):
                return True

    assert inside(path, loopback) is True
    assert inside(path, socket.if_nameindex) != socket.if_nameindex()
    with pytest.raises(EngineError, match="already"):
        networks.namespaces.create("pod1")
    for _ in range(2):
        networks.namespaces.remove("pod1")
    assert (networks.namespaces.exists("pod1"), networks.namespaces.names()) == (False, [])


def test_pods_are_attached_speak_with_each_other_and_leave_nothing(networks: Networks) -> None:
    network = networks.write()
    paths = [networks.namespaces.create(name) for name in ("pod1", "pod2")]
    first, second = (networks.cni.add([network], path.name, path) for path in paths)
    assert first.addresses[0].startswith("10.231.77.") and first.addresses != second.addresses
    assert first.gateways == ("10.231.77.1",) and first.mac.count(":") == 5
    assert len(networks.links()) == 2
    server = inside(paths[0], lambda: socket.create_server((first.addresses[0], 4321)))
    with server:  # type: ignore[attr-defined]
        client = inside(paths[1], lambda: socket.create_connection((first.addresses[0], 4321), 10))
        client.close()  # type: ignore[attr-defined]
    networks.cni.check("pod1")
    for name in ("pod1", "pod2"):
        networks.cni.delete(name)
        networks.cni.delete(name)
    assert (networks.links(), networks.leases(), networks.cni.attached()) == ([], [], [])


def test_a_pod_is_detached_after_a_restart_with_the_configuration_of_its_day(networks: Networks) -> None:
    path = networks.namespaces.create("pod1")
    networks.cni.add([networks.write()], "pod1", path)
    (networks.folder / "10-net.conflist").unlink()
    cni = Cni([PLUGINS], networks.cni.cache)
    assert cni.attached() == ["pod1"]
    cni.delete("pod1")
    assert (networks.links(), networks.leases(), cni.attached()) == ([], [], [])


def test_a_pod_whose_namespace_is_gone_gives_its_address_back(networks: Networks) -> None:
    path = networks.namespaces.create("pod1")
    networks.cni.add([networks.write()], "pod1", path)
    networks.namespaces.remove("pod1")
    assert networks.leases() != []
    networks.cni.delete("pod1")
    assert networks.leases() == []


def test_what_an_add_that_fails_has_done_is_taken_back(networks: Networks) -> None:
    shutil.copytree(PLUGINS, networks.machine.folder / "bin")
    broken = networks.machine.folder / "bin/broken"
    broken.write_text(
        '#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\necho \'{"code": 100, "msg": "no", "details": "luck"}\'; exit 1\n'
    )
    broken.chmod(0o755)
    networks.cni.folders = (networks.machine.folder / "bin",)
    path = networks.namespaces.create("pod1")
    with pytest.raises(CommandFailed, match="network pods: broken ADD: no; luck"):
        networks.cni.add([networks.write({"type": "broken"})], "pod1", path)
    assert (networks.links(), networks.leases(), networks.cni.attached()) == ([], [], [])


def test_a_plugin_that_hangs_is_killed_and_named(networks: Networks) -> None:
    hanging = networks.machine.folder / "bin/hang"
    hanging.parent.mkdir()
    hanging.write_text("#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\nsleep 300\n")
    hanging.chmod(0o755)
    networks.cni.folders, networks.cni.timeout_s = (PLUGINS, hanging.parent), 8  # for all others, too
    path = networks.namespaces.create("pod1")
    with pytest.raises(CommandTimeout, match="hang ADD"):
        networks.cni.add([networks.write({"type": "hang"})], "pod1", path)
    assert (networks.links(), networks.leases()) == ([], [])


def test_a_missing_plugin_is_named_with_where_it_was_looked_for(networks: Networks) -> None:
    path = networks.namespaces.create("pod1")
    with pytest.raises(MissingTool, match="'none-such' is missing: it is in none of the folders /usr/lib/cni"):
        networks.cni.add([networks.write({"type": "none-such"})], "pod1", path)
    assert (networks.links(), networks.leases()) == ([], [])


def test_ports_and_arguments_reach_the_plugins(networks: Networks) -> None:
    spy = networks.machine.folder / "bin/spy"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\ncd {networks.folder}; echo "$CNI_COMMAND $CNI_ARGS" >> calls; cat > $CNI_COMMAND\n'
                   f'[ $CNI_COMMAND = DEL ] || echo \'{{"cniVersion": "1.0.0"}}\'\n')  # fmt: skip
    spy.chmod(0o755)
    networks.cni.folders = (PLUGINS, spy.parent)
    path = networks.namespaces.create("pod1")
    network = networks.write({"type": "spy", "capabilities": {"portMappings": True}})
    networks.cni.add([network], "pod1", path, arguments={"K8S_POD_NAME": "web"}, ports=[PortMapping(8080, 80)])
    networks.cni.delete("pod1")
    assert (
        networks.folder / "calls"
    ).read_text() == "ADD IgnoreUnknown=1;K8S_POD_NAME=web\nDEL IgnoreUnknown=1;K8S_POD_NAME=web\n"
    document = json.loads((networks.folder / "ADD").read_text())
    assert document["runtimeConfig"] == {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}
    assert document["prevResult"]["ips"] and document["name"] == "pods"
    assert json.loads((networks.folder / "DEL").read_text())["runtimeConfig"] == document["runtimeConfig"]


def test_a_port_of_the_host_leads_to_the_pod(networks: Networks) -> None:
    need_tool("iptables")
    host = networks.namespaces.create("host")  # the plugin leaves chains behind, so the host is one that ends, too
    path = networks.namespaces.create("pod1")
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    network, ports = networks.write(portmap), [PortMapping(28080, 4321)]
    inside(host, lambda: networks.cni.add([network], "pod1", path, ports=ports))
    server = inside(path, lambda: socket.create_server(("", 4321)))

    def reach() -> None:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("10.231.77.1", 28080), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline

    with server:  # type: ignore[attr-defined]
        inside(host, reach)

    def rules() -> bytes:
        return subprocess.run(["iptables-save", "-t", "nat"], check=True, capture_output=True, timeout=20).stdout

    assert b"28080" in inside(host, rules)  # type: ignore[operator]
    inside(host, lambda: networks.cni.delete("pod1"))
    assert b"28080" not in inside(host, rules) and networks.leases() == []  # type: ignore[operator]


# --- several networks, and a network from a template, in pods of an engine ---


def ptp(node: Node, name: str, subnet: str) -> str:
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "dataDir": str(node.folder / "ipam")}
    return json.dumps(
        {"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}
    )


def started(node: Node, **keys: Any) -> Engine:
    return node.start(replace(node.config, network=replace(node.config.network, **keys)))


def interfaces(engine: Engine, pod: str) -> set[str]:
    namespace = Path(engine.inventory.pod(pod).record.namespace_paths["network"])
    names = inside(namespace, lambda: {name for _, name in socket.if_nameindex()})
    return names & {"eth0", "eth1", "eth2"}  # type: ignore[operator,no-any-return]


@pytest.mark.parametrize(("limit", "expected"), [(1, {"eth0"}), (2, {"eth0", "eth1"}), (0, {"eth0", "eth1", "eth2"})])
def test_a_pod_has_an_interface_in_each_network(node: Node, limit: int, expected: set[str]) -> None:
    (node.folder / "cni/20-more.conflist").write_text(ptp(node, "more", "10.231.80.0/24"))
    (node.folder / "cni/30-last.conflist").write_text(ptp(node, "last", "10.231.81.0/24"))
    engine = started(node, max_conf_num=limit)
    pod = node.pod(network=pb.POD)
    record = engine.inventory.pod(pod).record
    assert len(record.ips) == 1 and record.ips[0].startswith("10.231.79.")
    assert interfaces(engine, pod) == expected
    leases = [path.name for path in (node.folder / "ipam").rglob("10.*")]
    assert len(leases) == len(expected)
    node.stop()
    engine = node.start()  # with the default of one network: a pod is detached from the networks of its day
    node.remove(pod)
    assert [path.name for path in (node.folder / "ipam").rglob("10.*")] == []


def test_the_network_is_written_from_a_template_when_the_kubelet_reports_the_address_range(node: Node) -> None:
    (node.folder / "cni/10-net.conflist").unlink()
    text = ptp(node, "pods", "@").replace('"@"', '"{{.PodCIDR}}"')
    (node.folder / "template").write_text(text)
    engine = started(node, conf_template=str(node.folder / "template"))
    assert not {row.kind: row.holds for row in engine.conditions}["NetworkReady"]
    engine.use_pod_cidr("10.231.82.0/24")
    assert {row.kind: row.holds for row in engine.conditions}["NetworkReady"]
    pod = node.pod(network=pb.POD)
    assert engine.inventory.pod(pod).record.ips[0].startswith("10.231.82.")
    node.remove(pod)
    engine.use_pod_cidr("10.231.83.0/24")
    written = (node.folder / "cni/10-nri-engine-net.conflist").read_text()
    assert "10.231.82.0/24" in written, "an existing network is kept"
    with pytest.raises(InvalidRequest, match="podCIDR: 'x' is not an address range"):
        engine.use_pod_cidr("x")


# --- bandwidths ---


def shaped(text: str) -> list[str]:
    """The rates of token buckets in the output of ``tc qdisc``."""
    return re.findall(r"qdisc tbf .* rate (\S+)", text)


def test_annotations_limit_the_bandwidth_of_a_pod(node: Node) -> None:
    """The bandwidth plugin shapes traffic to the pod at its interface, and traffic from it at an ifb interface."""
    tc, ip = need_tool("tc"), need_tool("ip")
    need(
        subprocess.run([ip, "link", "add", "nri-ifb-test", "type", "ifb"], check=False, capture_output=True).returncode
        == 0,
        "ifb interfaces of the kernel",
    )
    subprocess.run([ip, "link", "delete", "nri-ifb-test"], check=True, timeout=20)
    network = json.loads(ptp(node, "pods", "10.231.79.0/24"))
    network["plugins"].append({"type": "bandwidth", "capabilities": {"bandwidth": True}})
    (node.folder / "cni/10-net.conflist").write_text(json.dumps(network))

    def links() -> set[str]:
        return set(os.listdir("/sys/class/net"))

    def rates(since: set[str]) -> list[str]:
        rows = [subprocess.run([tc, "qdisc", "show", "dev", name], check=True, capture_output=True, text=True).stdout
                for name in links() - since]  # fmt: skip
        return sorted(rate for row in rows for rate in shaped(row))

    before = links()
    config = node.pod_config("limited", network=pb.POD)
    config.annotations["kubernetes.io/ingress-bandwidth"] = "10M"
    config.annotations["kubernetes.io/egress-bandwidth"] = "20M"
    pod = node.engine.pod_creation.run(config, "")
    assert rates(before) == ["10Mbit", "20Mbit"]
    with_limits = links()
    free = node.pod("free", network=pb.POD)
    assert rates(with_limits) == []
    config = node.pod_config("wrong", network=pb.POD)
    config.annotations["kubernetes.io/egress-bandwidth"] = "quick"
    with pytest.raises(RequestError, match=r'^annotations\[kubernetes.io/egress-bandwidth\]: "quick": '):
        node.engine.pod_creation.run(config, "")
    node.remove(pod, free)
    assert links() == before
