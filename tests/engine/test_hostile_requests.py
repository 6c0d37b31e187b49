"""Requests that would affect the node are errors that name the field and leave no state."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError
from tests.engine.node import Node

SWAPPINESS = Path("/proc/sys/vm/swappiness")


@pytest.mark.parametrize(
    "name",
    [
        "net/../vm/swappiness", "net/ipv4/../../vm/swappiness", "net.//.vm.swappiness", "net.ipv4.//.//.vm.swappiness",
        "fs.mqueue.//.//.vm.swappiness", "kernel.shm/../../vm/swappiness",
    ],
)  # fmt: skip
def test_a_sysctl_outside_of_the_pods_namespaces_is_refused(node: Node, name: str) -> None:
    before = SWAPPINESS.read_text()
    config = node.pod_config(network=pb.POD)
    config.linux.sysctls[name] = "1" if before.strip() != "1" else "2"
    with pytest.raises(RequestError, match="is not a sysctl") as caught:
        node.engine.pod_creation.run(config)
    assert (caught.value.field, SWAPPINESS.read_text()) == (f"linux.sysctls[{name}]", before)
    assert node.leftovers() == []


def test_both_spellings_of_a_sysctl_affect_only_the_pod(node: Node) -> None:
    config = node.pod_config(network=pb.POD)
    config.linux.sysctls.update({
        "net/ipv4/conf/lo/log_martians": "1", "net.ipv4.ip_default_ttl": "33", "kernel.msgmax": "4096",
        "fs.mqueue.msg_max": "7", "net.ipv4.ip_local_port_range": "2000\t3000",
    })  # fmt: skip
    files = ("net/ipv4/conf/lo/log_martians", "net/ipv4/ip_default_ttl", "kernel/msgmax", "fs/mqueue/msg_max",
             "net/ipv4/ip_local_port_range")  # fmt: skip
    paths = [f"/proc/sys/{file}" for file in files]
    before = [Path(file).read_text() for file in paths if Path(file).exists()]
    pod = node.engine.pod_creation.run(config)
    container_id = node.run(pod)
    output = node.engine.running_containers.exec_sync(container_id, ("cat", *paths), 20).stdout.decode()
    assert output.replace("\t", " ").splitlines() == ["1", "33", "4096", "7", "2000 3000"]
    assert [Path(file).read_text() for file in paths if Path(file).exists()] == before
    node.remove(pod)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("net.ipv4.conf.nosuch0.forwarding", "1", "the pod's namespaces have no such setting"),
        ("net.ipv4.ip_default_ttl", "many", "Invalid argument"),
        ("net.ipv4", "1", "Is a directory"),
    ],
)
def test_a_sysctl_that_the_kernel_refuses_is_an_error_and_removes_the_pod(
    node: Node, name: str, value: str, problem: str
) -> None:
    config = node.pod_config(network=pb.POD)
    config.linux.sysctls[name] = value
    with pytest.raises(RequestError, match=problem) as caught:
        node.engine.pod_creation.run(config)
    assert caught.value.field == f"linux.sysctls[{name}]"
    assert (node.leftovers(), node.engine.inventory.pods()) == ([], [])
