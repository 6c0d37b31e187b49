"""Devices move to a pod and back, and a failure at any step restores the host."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from nri.plugins.network_device_injector.devices import NetworkDevice
from nri.plugins.network_device_injector.move import MoveError, Origin, Sides, settle_strays
from nri.plugins.network_device_injector.netlink import Netlink
from tests.support.networks import add_pair, in_own_network, ip, pod_network


def host_state() -> object:
    """All that a move could change on the host, but for link-local addresses and what counts up."""
    links = []
    for link in json.loads(ip("-json", "addr")):
        flags = sorted(set(link["flags"]) - {"LOWER_UP", "NO-CARRIER", "M-DOWN"})
        addresses = [
            (device["local"], device["prefixlen"]) for device in link["addr_info"] if device["scope"] != "link"
        ]
        links.append((link["ifname"], flags, link["mtu"], link.get("ifalias"), sorted(addresses)))
    routes = ip("route", "show") + ip("-6", "route", "show")
    return sorted(links), sorted(line for line in routes.splitlines() if not line.startswith("fe80:"))


def make_host() -> None:
    """A host with two uplinks, one of them in use."""
    for name in ("eth1", "eth2"):
        add_pair(name, f"{name}-peer")
        ip("link", "set", f"{name}-peer", "up")
    ip("link", "set", "eth1", "mtu", "1450", "alias", "to the store", "up")
    ip("addr", "add", "198.51.100.1/24", "dev", "eth1")
    ip("addr", "add", "2001:db8:1::1/64", "dev", "eth1", "nodad")
    ip("route", "add", "203.0.113.0/24", "via", "198.51.100.2", "dev", "eth1")


def test_an_origin_survives_a_round_trip_through_text() -> None:
    origin = Origin("eth1", 1500, "to the store: nri:1:x")
    assert Origin.read(str(origin)) == origin
    assert Origin.read("eth1") is None and Origin.read("") is None
    assert len(str(Origin("eth1", 1500, "ä" * 200)).encode()) <= 255


@in_own_network
def test_a_device_is_configured_in_the_pod_and_restored_on_the_host() -> None:
    make_host()
    ip("link", "set", "eth1", "down")
    with pod_network() as pod, Sides(pod.path) as sides:
        device = NetworkDevice("eth1", "net1", "192.0.2.7", 24, 1400)
        sides.move_in([device])
        (link,) = json.loads(pod.ip("-json", "addr", "show", "net1"))
        assert link["mtu"] == 1400 and "UP" in link["flags"]
        assert [(row["local"], row["prefixlen"]) for row in link["addr_info"] if row["family"] == "inet"] == [
            ("192.0.2.7", 24)
        ]
        assert "eth1@" not in ip("link")
        assert sides.move_out(device)
        assert not sides.move_out(device)
    (link,) = json.loads(ip("-json", "link", "show", "eth1"))
    assert (link["mtu"], link["ifalias"]) == (1450, "to the store")
    assert "UP" not in link["flags"]


@in_own_network
def test_a_device_in_the_pod_can_have_the_name_of_a_host_device() -> None:
    make_host()
    with pod_network() as pod, Sides(pod.path) as sides:
        pod.ip("link", "add", "eth2", "type", "veth", "peer", "name", "eth1")
        sides.move_in([NetworkDevice("eth1", "net1"), NetworkDevice("eth2", "net2")])
        assert {"eth1", "eth2", "net1", "net2"} <= {device["ifname"] for device in json.loads(pod.ip("-json", "link"))}


FAILURES: dict[str, tuple[list[NetworkDevice], str]] = {
    "the second is not there": (
        [NetworkDevice("eth1", "net1", "192.0.2.7", 24, 1400), NetworkDevice("eth9", "net9")],
        "network device eth9: not found on the host",
    ),
    "the pod has the name": (
        [NetworkDevice("eth1", "net1"), NetworkDevice("eth2", "lo")],
        "network device eth2: the pod already has a device lo",
    ),
    "an MTU that the device refuses": (
        [NetworkDevice("eth2", "net2"), NetworkDevice("eth1", "net1", mtu=1_000_000)],
        "network device eth1: mtu greater than device maximum",
    ),
    "an address that the kernel refuses": (
        [NetworkDevice("eth1", "net1", "2001:db8::7", 64, 1000)],
        "network device eth1: ",
    ),
    "a device that may not leave": (
        [NetworkDevice("eth1", "net1"), NetworkDevice("lo", "net2")],
        "network device lo: ",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_restores_host_and_pod(name: str) -> None:
    devices, text = FAILURES[name]

    @in_own_network
    def run() -> None:
        make_host()
        before = host_state()
        with pod_network() as pod, Sides(pod.path) as sides:
            pod_before = pod.ip("addr")
            with pytest.raises(MoveError, match=text) as failed:
                sides.move_in(devices)
            assert not getattr(failed.value, "__notes__", [])
            assert pod.ip("addr") == pod_before
        assert host_state() == before

    run()


STEPS = ("set_up", "rename", "move", "set_alias", "set_mtu", "add_address")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_each_step_that_fails_is_rolled_back(step: str, count: int) -> None:
    """Only the failing call is replaced, once on each side; all others reach the kernel."""

    @in_own_network
    def run() -> None:
        make_host()
        before = host_state()
        with pod_network() as pod, Sides(pod.path) as sides:
            calls = []

            def failing(real: Callable[..., None]) -> Callable[..., None]:
                def call(*arguments: object) -> None:
                    calls.append(arguments)
                    if len(calls) == count:
                        raise OSError(16, "Device or resource busy")
                    real(*arguments)

                return call

            for side in (sides.host, sides.pod):
                setattr(side, step, failing(getattr(side, step)))
            devices = [
                NetworkDevice("eth1", "net1", "192.0.2.7", 24, 1400),
                NetworkDevice("eth2", "net2", "192.0.2.8", 24, 1400),
            ]
            with pytest.raises(MoveError, match="Device or resource busy"):
                sides.move_in(devices)
            assert {device["ifname"] for device in json.loads(pod.ip("-json", "link"))} == {"lo"}
        assert host_state() == before

    run()


@in_own_network
def test_steps_that_cannot_be_undone_are_reported() -> None:
    make_host()
    with pod_network() as pod, Sides(pod.path) as sides:

        def refuse(*_: object) -> None:
            raise OSError(16, "Device or resource busy")

        sides.pod.set_alias = refuse  # type: ignore[method-assign]
        sides.pod.move = refuse  # type: ignore[method-assign]
        with pytest.raises(MoveError) as failed:
            sides.move_in([NetworkDevice("eth1", "net1")])
    assert "eth1: move back: Device or resource busy" in failed.value.__notes__


@in_own_network
def test_a_device_that_cannot_be_moved_back_is_unchanged_in_the_pod() -> None:
    make_host()
    with pod_network() as pod, Sides(pod.path) as sides:
        device = NetworkDevice("eth1", "net1")
        sides.move_in([device])

        def refuse(*_: object) -> None:
            raise OSError(16, "Device or resource busy")

        real, sides.pod.move = sides.pod.move, refuse  # type: ignore[method-assign]
        with pytest.raises(OSError, match="busy"):
            sides.move_out(device)
        (link,) = json.loads(pod.ip("-json", "link", "show", "net1"))
        assert "UP" in link["flags"]
        sides.pod.move = real  # type: ignore[method-assign]
        assert sides.move_out(device)


@in_own_network
def test_a_device_with_a_foreign_alias_gets_the_annotations_name() -> None:
    make_host()
    with pod_network() as pod, Sides(pod.path) as sides:
        device = NetworkDevice("eth2", "net1")
        sides.move_in([device])
        pod.ip("link", "set", "net1", "alias", "eth2")
        assert sides.move_out(device, is_from_host=True)
    (link,) = json.loads(ip("-json", "link", "show", "eth2"))
    assert "ifalias" not in link


@in_own_network
def test_a_device_that_did_not_come_from_the_host_stays_in_the_pod() -> None:
    make_host()
    with pod_network() as pod, Sides(pod.path) as sides:
        pod.ip("link", "add", "eth0", "type", "veth", "peer", "name", "other")
        assert not sides.move_out(NetworkDevice("eth2", "eth0"))
        assert "eth0@other" in pod.ip("link")


@in_own_network
def test_a_device_that_the_kernel_returned_is_restored_by_its_alias() -> None:
    """The kernel returns a real network card to the host when its namespace ends; test devices end with it."""
    make_host()
    ip("link", "set", "eth2", "down")
    ip("link", "set", "eth2", "name", "net1", "alias", str(Origin("eth2", 1400, "spare")), "up")
    with Netlink() as host:
        assert settle_strays(host) == (["eth2"], [])
        assert settle_strays(host) == ([], [])
        device = host.device("eth2")
    assert device is not None
    assert (device.up, device.mtu, device.alias) == (False, 1400, "spare")


@in_own_network
def test_a_device_that_cannot_be_restored_does_not_block_others() -> None:
    """A pod that may change its devices can write any alias."""
    make_host()
    ip("link", "set", "eth1", "alias", "eth2 nri:1500:")  # a name that is taken
    ip("link", "set", "eth1-peer", "alias", "x nri:9999999999:")  # an MTU that no request can hold
    ip("link", "set", "eth2-peer", "alias", "spare nri:1400:")
    with Netlink() as host:
        assert settle_strays(host) == (["spare"], ["eth1, which was eth2: File exists"])


@in_own_network
def test_the_pods_own_device_is_not_moved_to_the_host() -> None:
    """The pod requested a name that its own device already had, was refused, and then ends."""
    make_host()
    before = host_state()
    with pod_network() as pod, Sides(pod.path) as sides:
        pod.ip("link", "add", "eth0", "type", "veth", "peer", "name", "far")
        pod_before = pod.ip("link")
        assert not sides.move_out(NetworkDevice("eth9", "eth0"))
        assert pod.ip("link") == pod_before
    assert host_state() == before


@in_own_network
def test_a_device_that_cannot_be_moved_back_keeps_its_origin() -> None:
    make_host()
    with pod_network() as pod, Sides(pod.path) as sides:

        def refuse(*_: object) -> None:
            raise OSError(16, "Device or resource busy")

        sides.pod.rename = refuse  # type: ignore[method-assign]
        sides.pod.move = refuse  # type: ignore[method-assign]
        with pytest.raises(MoveError):
            sides.move_in([NetworkDevice("eth1", "net1")])
        aliases = [Origin.read(device.get("ifalias", "")) for device in json.loads(pod.ip("-json", "link"))]
        assert Origin("eth1", 1450, "to the store") in aliases
