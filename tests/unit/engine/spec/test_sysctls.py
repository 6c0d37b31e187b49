from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import pod_sysctls
from nri.errors import RequestError


def config(options: pb.NamespaceOption | None = None, **sysctls: str) -> pb.PodSandboxConfig:
    context = pb.LinuxSandboxSecurityContext(namespace_options=options)
    return pb.PodSandboxConfig(linux=pb.LinuxPodSandboxConfig(sysctls=sysctls, security_context=context))


@pytest.mark.parametrize(
    ("name", "path", "dotted"),
    [
        ("net.ipv4.ip_forward", "net ipv4 ip_forward", "net.ipv4.ip_forward"),
        ("net/ipv4/ip_forward", "net ipv4 ip_forward", "net.ipv4.ip_forward"),
        ("net/ipv4/conf/eth0.1/forwarding", "net ipv4 conf eth0.1 forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net ipv4 conf eth0.1 forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("net.ipv4.conf.a/b@if2.rp_filter", "net ipv4 conf a.b@if2 rp_filter", "net.ipv4.conf.a/b@if2.rp_filter"),
        ("net.netfilter.nf_conntrack_max", "net netfilter nf_conntrack_max", "net.netfilter.nf_conntrack_max"),
        ("kernel.shm_rmid_forced", "kernel shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("kernel.domainname", "kernel domainname", "kernel.domainname"),
        ("fs.mqueue.msg_max", "fs mqueue msg_max", "fs.mqueue.msg_max"),
    ],
)
def test_a_sysctl_of_a_namespace_has_one_path_in_either_form(name: str, path: str, dotted: str) -> None:
    (sysctl,) = pod_sysctls(config(**{name: "1"}))
    assert (sysctl.path, sysctl.value, sysctl.name) == (tuple(path.split()), "1", dotted)


@pytest.mark.parametrize(
    "name",
    [
        "vm.swappiness", "kernel.panic", "net", "net.", "net/", ".net.x", "/net/x", "net..x", "net//x", "/etc/passwd",
        "", "net/../vm/swappiness", "net/ipv4/../../vm/swappiness", "net/..", "net/./ipv4/ip_forward",
        "net.//.vm.swappiness", "net.ipv4.//.//.vm.swappiness", "net.a/../b", "net./.x", "net/ipv4/.hidden",
        "net.ipv4.x y", "net.ipv4.x\0y",
        "net.ipv4.x\n", "nét.ipv4.x", "net.ipv4." + "x" * 250, "kernel.shmfoo", "kernel.sem/x", "kernel.semx",
        "kernel.msg.x", "kernel.hostname.x", "kernel.hostnamex", "fs.mqueue.x", "fs.mqueue", "kernel/../vm/swappiness",
        "kernel.shm_rmid_forced/../../vm/swappiness", "fs.mqueue.//.x", "netx.a",
    ],
)  # fmt: skip
def test_a_sysctl_without_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is not a sysctl of a pod's namespaces") as caught:
        pod_sysctls(config(**{name: "1"}))
    assert caught.value.field == f"linux.sysctls[{name}]"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("net.ipv4.ip_forward", pb.NamespaceOption(network=pb.NODE)),
        ("kernel.msgmax", pb.NamespaceOption(ipc=pb.NODE)),
        ("kernel.domainname", pb.NamespaceOption(network=pb.NODE)),
    ],
)
def test_a_sysctl_of_a_namespace_shared_with_the_node_is_refused(name: str, options: pb.NamespaceOption) -> None:
    with pytest.raises(RequestError, match=r'"1": requires a separate \w+ namespace'):
        pod_sysctls(config(options, **{name: "1"}))


def test_two_spellings_of_a_name_must_have_one_value() -> None:
    spellings = ("net.ipv4.ip_forward", "net/ipv4/ip_forward")
    assert len(pod_sysctls(config(**dict.fromkeys(spellings, "1")))) == 1
    with pytest.raises(RequestError, match="under another spelling"):
        pod_sysctls(config(**{spellings[0]: "1", spellings[1]: "0"}))


@pytest.mark.parametrize("value", ["1\n2", "1\0", "x" * 1025])
def test_a_value_is_one_line_of_bounded_length(value: str) -> None:
    with pytest.raises(RequestError, match="must be one line of at most 1024 characters"):
        pod_sysctls(config(**{"net.ipv4.ip_forward": value}))
    assert pod_sysctls(config(**{"net.ipv4.ip_local_port_range": "1024\t65000"}))[0].value == "1024\t65000"
