"""Requests and limits, estimated from the kubelet's resources for the runtime."""

import re
from fractions import Fraction

import pytest

from nri.kube.quantity import CPU_PERIOD_US, cpu_quota_us, cpu_shares
from nri.kube.requests import (
    ANNOTATION,
    Requests,
    annotated,
    estimated,
    memory_of_oom_score,
    millicpu_of_quota,
    millicpu_of_shares,
    qos_of_cgroup_parent,
)

NODE = 8 << 30


@pytest.mark.parametrize("cpu_m", [100, 250, 1000, 1500, 64000])
def test_cpu_is_estimated_within_one_millicpu(cpu_m: int) -> None:
    assert abs(millicpu_of_shares(cpu_shares(Fraction(cpu_m, 1000))) - cpu_m) <= 1
    assert millicpu_of_quota(cpu_quota_us(Fraction(cpu_m, 1000)), CPU_PERIOD_US) == cpu_m


def test_the_minimum_shares_mean_a_request_of_zero() -> None:
    assert millicpu_of_shares(2) == 0
    assert millicpu_of_quota(-1, CPU_PERIOD_US) == 0


def test_memory_is_the_smallest_amount_with_the_oom_score() -> None:
    for request_bytes in (1, 10**9, NODE // 3):
        score = 1000 - 1000 * request_bytes // NODE
        request = memory_of_oom_score(score, NODE)
        assert request <= request_bytes
        assert 1000 - 1000 * request // NODE == score or score == 1000
    assert memory_of_oom_score(-997, NODE) == memory_of_oom_score(1000, NODE) == 0


def test_the_qos_class_limits_the_estimate() -> None:
    assert estimated("Guaranteed", 1024, 100000, 100000, 5, -997, NODE) == Requests(1000, 1000, 5, 5)
    assert estimated("Burstable", 512, 0, 100000, 0, 900, NODE) == Requests(500, 0, -(-NODE // 10), 0)
    assert estimated("Burstable", 512, 0, 100000, 1 << 20, 900, NODE).memory_bytes == 0
    assert estimated("BestEffort", 2, 50000, 100000, 7, 1000, NODE) == Requests(0, 500, 0, 7)
    parents = ("/kubepods/burstable/pod1", "kubepods-besteffort-pod1.slice", "/kubepods/pod1")
    assert [qos_of_cgroup_parent(path) for path in parents] == ["Burstable", "BestEffort", "Guaranteed"]


def test_the_annotation_is_exact() -> None:
    text = (
        '{"containers": {"main": {"requests": {"cpu": "200m", "memory": "1Gi"}}},'
        ' "initContainers": {"first": {"limits": {"cpu": 1.5}}}}'
    )
    assert annotated({ANNOTATION: text}, "main") == Requests(200, 0, 1 << 30, 0)
    assert annotated({ANNOTATION: text}, "first") == Requests(0, 1500, 0, 0)
    assert annotated({ANNOTATION: text}, "other") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2"),
        ("[" * 9999, "nested deeper"),
        ("[]", 'expected {"containers": '),
        ('{"containers": 3}', 'expected {"containers": '),
        ('{"containers": {"main": {"requests": 3}}}', 'expected {"containers": '),
        ('{"containers": {"main": {"requests": {"cpu": "x"}}}}', '"x" is not a quantity'),
        ('{"containers": {"main": {"requests": {"memory": -1}}}}', '"-1" is less than 0'),
    ],
)
def test_an_invalid_annotation_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        annotated({ANNOTATION: text}, "main")
