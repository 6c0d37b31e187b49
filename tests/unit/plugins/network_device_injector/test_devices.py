"""Devices in a pod's annotation, and errors in the annotation."""

from __future__ import annotations

import pytest

from nri import Reject
from nri.plugins.network_device_injector.devices import KEYS, NetworkDevice, wanted_devices
from nri.testing import make_pod

KEY = "netdevice.noderesource.dev"


def devices_of(value: str, key: str = KEY) -> list[NetworkDevice]:
    return wanted_devices(make_pod(annotations={key: value}))[0]


@pytest.mark.parametrize("key", [f"{key}{scope}" for key in KEYS for scope in ("", "/pod")])
def test_each_annotation_key_is_read(key: str) -> None:
    assert devices_of("[{name: eth1}]", key) == [NetworkDevice("eth1", "eth1")]


def test_keys_are_in_the_order_of_the_reference() -> None:
    in_order = [f"{key}{scope}" for scope in ("/pod", "") for key in KEYS]
    annotations = {key: f"[{{name: eth{place}}}]" for place, key in enumerate(in_order)}
    for place in range(len(in_order)):
        (device,) = wanted_devices(make_pod(annotations=annotations))[0]
        assert device.name == f"eth{place}"
        del annotations[in_order[place]]


def test_annotations_of_containers_have_no_effect() -> None:
    assert wanted_devices(make_pod(annotations={f"{KEY}/container.app": "[{name: eth1}]"}))[0] == []


def test_name_and_prefix_have_defaults() -> None:
    assert devices_of("[{name: a, address: 192.0.2.7}, {name: b, address: '2001:db8::7'}]") == [
        NetworkDevice("a", "a", "192.0.2.7", 32),
        NetworkDevice("b", "b", "2001:db8::7", 128),
    ]


def test_addresses_are_packed_and_ipv4_in_ipv6_becomes_ipv4() -> None:
    assert NetworkDevice("a", address="192.0.2.7").packed == bytes((192, 0, 2, 7))
    assert len(NetworkDevice("a", address="2001:db8::7").packed) == 16
    assert NetworkDevice("a").packed == b""
    assert devices_of("[{name: a, address: '::ffff:192.0.2.7'}]")[0].prefix == 32


def test_an_unknown_key_logs_a_warning() -> None:
    devices, warnings = wanted_devices(make_pod(annotations={KEY: "[{name: a, mtuu: 1400}]"}))
    assert devices == [NetworkDevice("a", "a")]
    assert 'did you mean "mtu"?' in warnings[0] and "[0].mtuu" in warnings[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{name: a}", "expected a list"),
        ("[{new_name: a}]", "[0]: name is missing"),
        ("[{name: ''}]", "[0].name: '' is not the name of a network device"),
        ("[{name: a/b}]", "[0].name: 'a/b' is not the name"),
        ("[{name: 'a b'}]", "no space"),
        ("[{name: a, new_name: net%d}]", "[0].new_name: 'net%d' is not the name"),
        ("[{name: .}]", "[0].name: '.' is not the name"),
        ("[{name: a, new_name: sixteencharacter}]", "[0].new_name: 'sixteencharacter' is not the name"),
        ("[{name: a, new_name: 'x:y'}]", "[0].new_name: 'x:y' is not the name"),
        ("[{name: a}, {name: a, new_name: b}]", '[1].name: "a" is already at [0].name'),
        ("[{name: a}, {name: b, new_name: a}]", '[1].new_name: "a" is already at [0].new_name'),
        ("[{name: a, address: x}]", "[0].address: 'x' is not an IP address; write, for example, 192.0.2.7"),
        ("[{name: a, address: 'fe80::1%eth0'}]", "'fe80::1%eth0' is not an IP address"),
        ("[{name: a, address: 192.0.2.7/24}]", "write 'address: 192.0.2.7' and 'prefix: 24'"),
        ("[{name: a, address: 192.0.2.7, prefix: 33}]", "[0].prefix: 33 is not between 0 and 32"),
        ("[{name: a, address: 192.0.2.7, prefix: -1}]", "[0].prefix: -1 is not between 0 and 32"),
        ("[{name: a, address: '2001:db8::7', prefix: 129}]", "[0].prefix: 129 is not between 0 and 128"),
        ("[{name: a, prefix: 24}]", "[0].prefix: a prefix requires an address; add 'address: ...'"),
        ("[{name: a, mtu: 67}]", "[0].mtu: 67 is not between 68 and 2147483647"),
        ("[{name: a, mtu: big}]", '[0].mtu: "big" is not a number'),
        ("[" + ",".join(f"{{name: d{place}}}" for place in range(65)) + "]", "the pod requests 65 devices"),
        ("[{", "not valid YAML"),
    ],
)
def test_a_mistake_is_an_error_with_annotation_position_and_value(value: str, text: str) -> None:
    with pytest.raises(Reject) as refused:
        devices_of(value, f"{KEY}/pod")
    assert str(refused.value).startswith(f"annotation {KEY}/pod: ")
    assert text in str(refused.value)
