"""Requests and limits of a whole pod; tests/differential compares them with Kubernetes' own functions."""

from __future__ import annotations

from typing import Any

import pytest

from nri.kube.pod_resources import pod_limit, pod_total


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [container("1"), container("2")]}, 3),
        ({"containers": [container("1")], "initContainers": [container("4")]}, 4),
        ({"containers": [container("1")], "initContainers": [sidecar("4")]}, 5),
        ({"containers": [container("1")], "initContainers": [sidecar("2"), container("3")]}, 5),
        ({"containers": [container("1")], "initContainers": [container("3"), sidecar("2")]}, 3),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, 3),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}, 4),
    ],
)
def test_a_pods_request_covers_concurrent_containers_and_overhead(spec: dict[str, Any], requests: float) -> None:
    assert pod_total(spec, "requests")["cpu"] == requests


def test_without_limits_overhead_is_not_a_limit() -> None:
    spec = {"containers": [container("1")], "overhead": {"cpu": "1", "memory": "1Gi"}}
    assert pod_total(spec, "limits") == {"cpu": 2}


def test_pod_level_resources_apply_only_to_cpu_memory_and_hugepages() -> None:
    spec = {"containers": [], "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "1"}}}
    assert pod_total(spec, "limits") == {"cpu": 1, "hugepages-2Mi": 4 << 20}


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ({"containers": [container("1"), {}]}, 0),
        ({"containers": [container("1")], "initContainers": [{}]}, 0),
        ({"containers": [container("1")], "initContainers": [sidecar("2"), {}]}, 3),
        ({"containers": [{}], "resources": {"limits": {"cpu": "2"}}}, 2),
    ],
)
def test_a_pods_cgroup_has_a_limit_if_all_containers_or_the_pod_have_one(spec: dict[str, Any], limit: int) -> None:
    assert pod_limit(spec, "cpu") == limit


def test_many_resources_of_many_init_containers_cost_linear_work() -> None:
    names = {f"example.com/r{number}": "1" for number in range(2_000)}
    first = {"resources": {"requests": names}, "restartPolicy": "Always"}
    spec = {"containers": [], "initContainers": [first, *[container("1")] * 20_000]}
    assert pod_total(spec, "requests") == {**dict.fromkeys(names, 1), "cpu": 1}  # 40 million additions would time out
