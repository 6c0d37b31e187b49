"""Verbose responses of runtimes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.pods.verbose_info import ASKED_QUOTA, ContainerInfo, PodInfo, container_info, pod_info
from nri.cri.pb import api_pb2 as pb
from nri.kube import quantity

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["config", "linux", "resources", "cpu_shares", "cpuQuota", "cgroup_parent", "runtimeSpec"]),
            inner,
        )
    ),
    max_leaves=10,
)


def pod_answer(info: Any = None, **more: Any) -> Any:
    answer = pb.PodSandboxStatusResponse(**more)
    if info is not None:
        answer.info["info"] = info if isinstance(info, str) else json.dumps(info)
    return answer


def container_answer(info: Any) -> Any:
    answer = pb.ContainerStatusResponse()
    answer.info["info"] = info if isinstance(info, str) else json.dumps(info)
    return answer


@pytest.mark.parametrize(
    ("info", "parent", "qos"),
    [
        ({"config": {"linux": {"cgroup_parent": "/kubepods/burstable/pod1"}}}, "/kubepods/burstable/pod1", "Burstable"),
        ({"config": {"linux": {"cgroupParent": "/kubepods/pod1"}}}, "/kubepods/pod1", "Guaranteed"),
        (
            {"config": {"linux": {"cgroup_parent": "kubepods-besteffort-pod1.slice"}}},
            "kubepods-besteffort-pod1.slice",
            "BestEffort",
        ),
        (
            {"runtimeSpec": {"linux": {"cgroupsPath": "kubepods-burstable-pod1.slice:crio:ab"}}},
            "kubepods-burstable-pod1.slice",
            "Burstable",
        ),
        ({"runtimeSpec": {"linux": {"cgroupsPath": "/kubepods/pod1/crio-ab"}}}, "/kubepods/pod1", "Guaranteed"),
        ({"runtimeSpec": {"linux": {"cgroupsPath": "/other/ab"}}}, "", ""),
        ({"config": {"linux": {"cgroup_parent": 3}}}, "", ""),
        ({"config": []}, "", ""),
        ("{", "", ""),
        ("[" * 100_000, "", ""),
        (None, "", ""),
    ],
)
def test_a_pods_folder_and_class_are_read(info: Any, parent: str, qos: str) -> None:
    assert pod_info(pod_answer(info)) == PodInfo(parent, qos)


def test_the_hosts_network_is_detected() -> None:
    options = pb.NamespaceOption(network=pb.NODE)
    linux = pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options))
    assert pod_info(pod_answer(status=pb.PodSandboxStatus(linux=linux))).host_network
    assert not pod_info(pod_answer()).host_network


@pytest.mark.parametrize(
    "resources",
    [
        {
            "cpu_shares": 512,
            "cpu_quota": 50000,
            "cpu_period": 100000,
            "memory_limit_in_bytes": 1 << 30,
            "oom_score_adj": 9,
        },
        {"cpuShares": "512", "cpuQuota": "50000", "memoryLimitInBytes": "1073741824", "oomScoreAdj": "9"},
    ],
)
def test_resources_are_converted_back_to_quantities(resources: dict[str, Any]) -> None:
    actual = container_info(container_answer({"config": {"linux": {"resources": resources}}}))
    assert actual.oom_score == 9
    assert actual.spec == {
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m", "memory": "1073741824"}}
    }


@given(st.integers(2, 512_000))
def test_a_decoded_request_gives_the_same_shares(milli: int) -> None:
    shares = quantity.cpu_shares(quantity.parse(f"{milli}m"))
    info = {"config": {"linux": {"resources": {"cpu_shares": shares}}}}
    requests = container_info(container_answer(info)).spec["resources"]["requests"]
    assert quantity.cpu_shares(quantity.parse(requests.get("cpu", "0"))) == shares


@pytest.mark.parametrize(
    ("note", "quota"),
    [
        ("100000 50000", "1000m"),
        ("100000 40000", "500m"),
        ("x 50000", "500m"),
        ("", "500m"),
        ("9" * 30 + " 50000", "500m"),
    ],
)
def test_a_quota_scaled_by_the_agents_proxy_becomes_the_requested_one(note: str, quota: str) -> None:
    config = {"linux": {"resources": {"cpu_quota": 50_000}}, "annotations": {ASKED_QUOTA: note}}
    assert container_info(container_answer({"config": config})).spec["resources"]["limits"] == {"cpu": quota}
    odd = {**config, "annotations": [note]}
    assert container_info(container_answer({"config": odd})).spec["resources"]["limits"] == {"cpu": "500m"}


def test_resources_without_a_request_are_left_out() -> None:
    resources = {"cpu_shares": 2, "cpu_quota": -1, "memory_limit_in_bytes": 0, "cpu_period": True}
    actual = container_info(container_answer({"config": {"linux": {"resources": resources}}}))
    assert actual == ContainerInfo({"resources": {"requests": {}, "limits": {}}})
    assert container_info(container_answer({"runtimeSpec": {}})) == ContainerInfo()
    assert container_info(container_answer("x" * 10)) == ContainerInfo()


@given(JSON)
def test_any_json_is_read_or_ignored(tree: Any) -> None:
    assert isinstance(pod_info(pod_answer(tree if isinstance(tree, dict) else {"config": tree})), PodInfo)
    actual = container_info(container_answer({"config": tree}))
    assert actual.spec.keys() <= {"resources"}, "nothing but resources is made of a container's configuration"
