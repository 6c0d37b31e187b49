"""Limits of values that become paths, kernel names or lines of files."""

from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import check_path, check_pod
from nri.errors import RequestError


def config(**fields: object) -> pb.PodSandboxConfig:
    fields_ = {"metadata": metadata(), **fields}
    return pb.PodSandboxConfig(**fields_)  # type: ignore[arg-type]


def metadata(**fields: str) -> pb.PodSandboxMetadata:
    return pb.PodSandboxMetadata(**{"name": "web", "namespace": "default", "uid": "u-1", **fields})


def port(**fields: object) -> pb.PortMapping:
    return pb.PortMapping(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"metadata": metadata(name="")}, 'metadata.name: "": is required'),
        ({"metadata": metadata(namespace="a;IP=10.0.0.1")}, "metadata.namespace: .* must not contain ';'"),
        ({"metadata": metadata(uid="a\nb")}, "metadata.uid: .* must be one line of at most 253"),
        ({"metadata": metadata(name="a" * 254)}, "metadata.name: .* must be one line of at most 253"),
        ({"hostname": "h" * 65}, "hostname: .* must be at most 64"),
        ({"hostname": "h" * 300}, "hostname: .* must be at most 64"),
        ({"hostname": "a\n10.0.0.1 b"}, "hostname: .* must be at most 64"),
        ({"hostname": "a b"}, "hostname"),
        ({"log_directory": "logs"}, "log_directory: .* must be an absolute path"),
        ({"log_directory": "/" + "a" * 256}, "log_directory: .* has a name of more than 255"),
        ({"dns_config": pb.DNSConfig(servers=["1.1.1.1", "1.1.1.1\nsearch b"])}, r"dns_config.servers\[1\]"),
        ({"dns_config": pb.DNSConfig(searches=["a b"])}, r"dns_config.searches\[0\]"),
        ({"dns_config": pb.DNSConfig(options=[""])}, r"dns_config.options\[0\]"),
        ({"port_mappings": [port(host_port=-1)]}, r"port_mappings\[0\].host_port: -1: must be between"),
        ({"port_mappings": [port(), port(container_port=65536)]}, r"port_mappings\[1\].container_port: 65536"),
        ({"port_mappings": [port(host_ip="x y")]}, r"port_mappings\[0\].host_ip: .* is not an IP address"),
        ({"port_mappings": [port(protocol=9)]}, r"port_mappings\[0\].protocol: 9: is unknown"),
    ],
)
def test_an_invalid_pod_is_an_error_with_its_field(fields: dict, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        check_pod(config(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"hostname": "h" * 64},
        {"hostname": "web-1.example_x"},
        {"hostname": "-a.example."},
        {"log_directory": "/var/log/pods/a_b_c"},
        {"dns_config": pb.DNSConfig(servers=["fd00::1%eth0"], searches=["a.b."], options=["ndots:5", "edns0"])},
        {"port_mappings": [port(host_port=65535, container_port=80, protocol=pb.SCTP, host_ip="::1")]},
    ],
)
def test_requests_of_real_clients_are_accepted(fields: dict) -> None:
    check_pod(config(**fields))


@pytest.mark.parametrize("path", ["/" + "a/" * 2048, "/" + "é" * 128, "a\nb", "a\0b"])
def test_an_impossible_path_is_refused(path: str) -> None:
    with pytest.raises(RequestError, match=r"^where: "):
        check_path("where", path)
    check_path("where", "/" + "a" * 255 + "/" + "é" * 127)
