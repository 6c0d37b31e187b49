"""What CNI plugins are told and answer."""

from nri.engine.network.results import PortMapping, capability_arguments, parse_result, plugin_error

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


def test_addresses_are_those_of_the_pods_side() -> None:
    found = parse_result(RESULT, "eth0")
    assert found[:3] == (("10.0.0.2", "fd00::2", "10.0.0.9"), ("10.0.0.1",), "bb:00")
    assert found.result == RESULT
    assert parse_result({}, "eth0")[:3] == ((), (), "")


def test_a_plugin_is_told_what_it_says_it_takes() -> None:
    ports = [PortMapping(80, 8080, "TCP", "127.0.0.1"), PortMapping(0, 53)]
    told = capability_arguments(
        {"capabilities": {"portMappings": True, "dns": False}}, ports, dns={"servers": ["1.1.1.1"]}
    )
    assert told == {"portMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp", "hostIP": "127.0.0.1"}]}
    assert capability_arguments({}, ports) == {}
    wants_names = {"capabilities": {"dns": True, "portMappings": True}}
    assert capability_arguments(wants_names, [], dns={"servers": ["1.1.1.1"]}) == {"dns": {"servers": ["1.1.1.1"]}}


def test_an_error_is_one_sentence() -> None:
    assert plugin_error({"code": 7, "msg": "no", "details": "luck"}) == "no; luck"
    assert plugin_error({"code": 7}) == "error 7"
