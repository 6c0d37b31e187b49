"""Requests to the kernel over netlink, read back with `ip`."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from nri.plugins.network_device_injector import netlink as module
from nri.plugins.network_device_injector.netlink import Netlink
from tests.support.networks import add_pair, in_own_network, ip, pod_network


@in_own_network
def test_a_device_is_found_by_name_or_is_none() -> None:
    add_pair("one", "two")
    ip("link", "set", "one", "mtu", "1400", "alias", "uplink", "up")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        assert (device.name, device.up, device.mtu, device.alias) == ("one", True, 1400, "uplink")
        assert f"{device.number}: one@two" in ip("link", "show", "one")
        assert host.device("three") is None
        assert {listed.name for listed in host.devices()} >= {"lo", "one", "two"}


@in_own_network
def test_a_device_can_be_changed() -> None:
    add_pair("one", "two")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        host.rename(device.number, "other")
        host.set_alias(device.number, "was one")
        host.set_mtu(device.number, 1300)
        host.set_up(device.number, True)
        changed = host.device("other")
        assert changed == (device.number, "other", True, 1300, "was one")
        host.set_alias(device.number, "")
        host.set_up(device.number, False)
        changed = host.device("other")
        assert changed == (device.number, "other", False, 1300, "")


@in_own_network
def test_addresses_are_added_and_all_settings_can_be_restored() -> None:
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
def test_a_device_is_moved_and_a_socket_stays_in_its_namespace() -> None:
    add_pair("one", "two")
    with pod_network() as pod, Netlink() as host, Netlink(pod.path) as inside:
        device = host.device("one")
        assert device is not None and inside.device("one") is None
        descriptor = os.open(pod.path, os.O_RDONLY)
        host.move(device.number, descriptor)
        os.close(descriptor)
        assert host.device("one") is None and inside.device("one") is not None
        assert "one" in {interface["ifname"] for interface in json.loads(pod.ip("-json", "link"))}


@in_own_network
def test_an_error_has_the_kernels_number_and_text() -> None:
    add_pair("one", "two")
    with Netlink() as host:
        device = host.device("one")
        assert device is not None
        with pytest.raises(FileExistsError):
            host.rename(device.number, "two")
        with pytest.raises(OSError, match="mtu greater than device maximum"):
            host.set_mtu(device.number, 1_000_000)


# -- answers that a kernel gives seldom, or never: the other end of the socket is the test ----------------------------

NEW_LINK, ERROR = 16, 2
NAME, MTU, ALIAS = 3, 4, 20


def message(kind: int, sequence: int, body: bytes) -> bytes:
    """One message of a kernel, as linux/netlink.h has it."""
    return struct.pack("=IHHII", 16 + len(body), kind, 0, sequence, 0) + body


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def link(number: int, name: str, *, more: bytes = b"") -> bytes:
    """The message of a kernel about a device that is up."""
    return struct.pack("=BxHiII", 0, 0, number, 1, 0) + attribute(NAME, name.encode() + b"\0") + more


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The kernel's end of the next socket that is opened; what it sends is there before it is asked."""
    client_socket, kernel_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(module, "open_socket", lambda: kernel_socket)
    with client_socket, kernel_socket:
        yield client_socket


def test_an_error_other_than_no_such_device_is_raised(kernel: socket.socket) -> None:
    kernel.send(message(ERROR, 1, struct.pack("=i", -errno.EPERM)))
    with Netlink() as host, pytest.raises(PermissionError, match="Operation not permitted"):
        host.device("one")


def test_a_reply_to_another_request_is_skipped(kernel: socket.socket) -> None:
    kernel.send(message(NEW_LINK, 7, link(1, "other")) + message(ERROR, 8, struct.pack("=i", -errno.EPERM)))
    kernel.send(message(NEW_LINK, 1, link(2, "one")))
    with Netlink() as host:
        assert host.device("one") == (2, "one", True, 0, "")


def test_a_message_shorter_than_its_header_ends_only_its_datagram(kernel: socket.socket) -> None:
    kernel.send(struct.pack("=IHHII", 0, NEW_LINK, 0, 1, 0) + message(NEW_LINK, 1, link(1, "behind")))
    kernel.send(message(NEW_LINK, 1, link(2, "one")))
    with Netlink() as host:
        assert host.device("one") == (2, "one", True, 0, "")


def test_an_attribute_shorter_than_its_header_ends_the_attributes(kernel: socket.socket) -> None:
    mtu, alias = attribute(MTU, struct.pack("=I", 1400)), attribute(ALIAS, b"behind\0")
    kernel.send(message(NEW_LINK, 1, link(2, "one", more=mtu + struct.pack("=HH", 0, ALIAS) + alias)))
    with Netlink() as host:
        assert host.device("one") == (2, "one", True, 1400, "")


def test_a_request_without_a_reply_times_out(kernel: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.05)
    with Netlink() as host, pytest.raises(TimeoutError):
        host.device("one")
    assert len(kernel.recv(1 << 16)) > 16  # it was asked
