"""Arguments and results of CNI plugins."""

import pytest

from nri.engine.network.results import PortMapping, bandwidth_limits, capability_arguments, parse_result, plugin_error
from nri.errors import RequestError

RESULT = {
    "interfaces": [
        {"name": "br0", "mac": "aa:00"},
        {"name": "eth0", "mac": "bb:00", "sandbox": "/run/netns/x"},
    ],
    "ips": [
        {"address": "10.0.0.1/24", "interface": 0},
        {"address": "10.0.0.2/24", "gateway": "10.0.0.1", "interface": 1},
        {"address": "fd00::2/64", "interface": 1},
        {"address": "10.0.0.9/24"},
    ],
}


def test_addresses_are_those_of_the_pods_interface() -> None:
    attachment = parse_result(RESULT, "eth0")
    assert attachment[:3] == (("10.0.0.2", "fd00::2", "10.0.0.9"), ("10.0.0.1",), "bb:00")
    assert attachment.result == RESULT
    assert parse_result({}, "eth0")[:3] == ((), (), "")


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"ips": 7}, "ips is not a list"),
        ({"ips": [7]}, r"ips\[0\] is not an object"),
        ({"ips": [{"address": ["10.0.0.2"]}]}, r"ips\[0\].address is not a string"),
        ({"ips": [{}, {"address": "10.0.0.2/24\n10.0.0.3 evil"}]}, r"ips\[1\].address is .*, which is not an address"),
        ({"ips": [{"address": "10.0.0.2/24", "gateway": "x"}]}, r"ips\[0\].gateway is 'x', which is not an address"),
        ({"ips": [{"interface": "0"}]}, r"ips\[0\].interface is not a number"),
        ({"interfaces": {}, "ips": [{"interface": True}]}, r"ips\[0\].interface is not a number"),
        ({"interfaces": "eth0"}, "interfaces is not a list"),
        ({"interfaces": [["eth0"]]}, r"interfaces\[0\] is not an object"),
        ({"interfaces": [{"name": "eth0", "sandbox": "/x", "mac": 7}]}, r"interfaces\[0\].mac is not a string"),
    ],
)
def test_a_result_with_a_wrong_type_is_an_error_with_its_path(result: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_result(result, "eth0")


def test_a_plugin_gets_the_arguments_of_its_capabilities() -> None:
    ports = [PortMapping(80, 8080, "TCP", "127.0.0.1"), PortMapping(0, 53)]
    arguments = capability_arguments(
        {"capabilities": {"portMappings": True, "dns": False}}, ports, dns={"servers": ["1.1.1.1"]}
    )
    assert arguments == {
        "portMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp", "hostIP": "127.0.0.1"}]
    }
    assert capability_arguments({}, ports) == {}
    wants_names = {"capabilities": {"dns": True, "portMappings": True}}
    assert capability_arguments(wants_names, [], dns={"servers": ["1.1.1.1"]}) == {"dns": {"servers": ["1.1.1.1"]}}


def test_bandwidths_of_a_pod_are_passed_in_bits_per_second() -> None:
    annotations = {"kubernetes.io/ingress-bandwidth": "1.5M", "kubernetes.io/egress-bandwidth": "1000.1", "a": "b"}
    limits = bandwidth_limits(annotations)
    assert limits == {
        "ingressRate": 1_500_000, "ingressBurst": 4_294_967_295, "egressRate": 1001, "egressBurst": 4_294_967_295,
    }  # fmt: skip
    del annotations["kubernetes.io/ingress-bandwidth"]
    assert bandwidth_limits(annotations) == {"egressRate": 1001, "egressBurst": 4_294_967_295}
    assert capability_arguments({"capabilities": {"bandwidth": True}}, [], bandwidth=limits) == {"bandwidth": limits}
    assert bandwidth_limits({}) == capability_arguments({"capabilities": {"bandwidth": True}}, [], bandwidth={}) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("fast", "is not a quantity"), ("", "is not a quantity"), ("999", "between 1k and 1P"), ("-1M", "between"),
     ("1001T", "between")],
)  # fmt: skip
@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_an_invalid_bandwidth_is_an_error(direction: str, text: str, reason: str) -> None:
    key = f"kubernetes.io/{direction}-bandwidth"
    with pytest.raises(RequestError, match=rf"^annotations\[{key}\]: .*{reason}"):
        bandwidth_limits({key: text})


def test_an_error_is_one_sentence() -> None:
    assert plugin_error({"code": 7, "msg": "no", "details": "luck"}) == "no; luck"
    assert plugin_error({"code": 7}) == "error 7"
