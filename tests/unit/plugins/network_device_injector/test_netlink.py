"""Requests to the kernel over netlink, read back with `ip`."""

from __future__ import annotations

import json
import os

import pytest

from nri.plugins.network_device_injector.netlink import Netlink
from tests.support.networks import add_pair, in_own_network, ip, pod_network


@in_own_network
def test_a_device_is_found_by_name_and_one_that_is_not_there_is_none() -> None:
    add_pair("one", "two")
    ip("link", "set", "one", "mtu", "1400", "alias", "uplink", "up")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        assert (device.name, device.up, device.mtu, device.alias) == ("one", True, 1400, "uplink")
        assert f"{device.number}: one@two" in ip("link", "show", "one")
        assert host.device("three") is None
        assert {each.name for each in host.devices()} >= {"lo", "one", "two"}


@in_own_network
def test_a_device_is_changed_as_said() -> None:
    add_pair("one", "two")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        host.rename(device.number, "other")
        host.set_alias(device.number, "was one")
        host.set_mtu(device.number, 1300)
        host.set_up(device.number, True)
        found = host.device("other")
        assert found == (device.number, "other", True, 1300, "was one")
        host.set_alias(device.number, "")
        host.set_up(device.number, False)
        found = host.device("other")
        assert found == (device.number, "other", False, 1300, "")


@in_own_network
def test_addresses_are_added_and_all_that_a_device_has_can_be_put_back() -> None:
    add_pair("one", "two")
    ip("link", "set", "one", "up")
    ip("link", "set", "two", "up")
    ip("addr", "add", "198.51.100.1/24", "dev", "one")
    ip("addr", "add", "198.51.100.9/24", "dev", "two")
    ip("route", "add", "203.0.113.0/24", "via", "198.51.100.2", "dev", "one")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        host.add_address(device.number, bytes((192, 0, 2, 7)), 24)
        host.add_address(device.number, bytes.fromhex("20010db8000000000000000000000007"), 64)
        shown = ip("addr", "show", "one", "scope", "global")
        assert "inet 192.0.2.7/24" in shown and "inet6 2001:db8::7/64" in shown and "tentative" not in shown
        records = host.records(device.number)
        before = ip("-4", "addr", "show", "one"), ip("route", "show", "dev", "one")
        ip("addr", "flush", "dev", "one")
        assert ip("route", "show", "dev", "one") == ""
        for record in records:
            host.put_back(record)
        assert (ip("-4", "addr", "show", "one"), ip("route", "show", "dev", "one")) == before
        assert "inet6 2001:db8::7/64" in ip("addr", "show", "one")


@in_own_network
def test_a_device_is_moved_and_a_socket_made_elsewhere_stays_there() -> None:
    add_pair("one", "two")
    with pod_network() as pod, Netlink() as host, Netlink(pod.path) as inside:
        device = host.device("one")
        assert device is not None and inside.device("one") is None
        descriptor = os.open(pod.path, os.O_RDONLY)
        host.move(device.number, descriptor)
        os.close(descriptor)
        assert host.device("one") is None and inside.device("one") is not None
        assert "one" in {each["ifname"] for each in json.loads(pod.ip("-json", "link"))}


@in_own_network
def test_an_error_has_the_kernel_s_number_and_words() -> None:
    add_pair("one", "two")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        with pytest.raises(FileExistsError):
            host.rename(device.number, "two")
        with pytest.raises(OSError, match="mtu greater than device maximum"):
            host.set_mtu(device.number, 1_000_000)
