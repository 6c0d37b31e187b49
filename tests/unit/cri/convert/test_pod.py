from __future__ import annotations

from nri.cri.convert import pod_sandbox
from nri.cri.pb import api_pb2 as pb

CONFIG = pb.PodSandboxConfig(
    metadata=pb.PodSandboxMetadata(name="web", uid="u1", namespace="default", attempt=1),
    labels={"l": "1"},
    annotations={"both": "request", "a": "1"},
    linux=pb.LinuxPodSandboxConfig(
        cgroup_parent="/kubepods",
        overhead=pb.LinuxContainerResources(cpu_shares=5, oom_score_adj=9),
        resources=pb.LinuxContainerResources(memory_limit_in_bytes=6),
        sysctls={"net.x": "1"},
    ),
)
STATUS = pb.PodSandboxStatus(
    id="p1",
    runtime_handler="crun",
    network=pb.PodSandboxNetworkStatus(ip="10.0.0.2", additional_ips=[pb.PodIP(ip="fd::2")]),
)


def test_all_that_nri_knows_of_a_pod_is_told() -> None:
    spec = {
        "annotations": {"both": "spec"},
        "linux": {
            "cgroupsPath": "/kubepods/p1",
            "namespaces": [{"type": "network", "path": "/run/n"}],
            "resources": {"cpu": {"shares": 2}},
        },
    }
    pod = pod_sandbox(STATUS, CONFIG, spec, pid=4).value
    assert (pod.id, pod.name, pod.uid, pod.namespace, pod.pid) == ("p1", "web", "u1", "default", 4)
    assert (pod.labels, pod.annotations) == ({"l": "1"}, {"both": "spec", "a": "1"})
    assert (pod.runtime_handler, list(pod.ips)) == ("crun", ["10.0.0.2", "fd::2"])
    assert (pod.linux.cgroup_parent, pod.linux.cgroups_path) == ("/kubepods", "/kubepods/p1")
    assert (pod.linux.namespaces[0].type, pod.linux.namespaces[0].path) == ("network", "/run/n")
    assert (pod.linux.pod_overhead.cpu.shares.value, pod.linux.pod_resources.memory.limit.value) == (5, 6)
    assert pod.linux.resources.cpu.shares.value == 2


def test_a_pod_of_the_nodes_network_has_no_addresses() -> None:
    assert list(pod_sandbox(pb.PodSandboxStatus(id="p1"), CONFIG).value.ips) == []


def test_what_plugins_cannot_be_told_is_named() -> None:
    dropped = pod_sandbox(STATUS, CONFIG).dropped
    assert [one.field for one in dropped] == ["metadata.attempt", "linux.sysctls", "linux.overhead.oom_score_adj"]


def test_a_pod_without_overhead_and_resources_has_none_for_plugins() -> None:
    pod = pod_sandbox(pb.PodSandboxStatus(id="p1"), pb.PodSandboxConfig()).value
    assert not pod.linux.HasField("pod_overhead")
    assert not pod.linux.HasField("pod_resources")
