"""Requests and limits, computed from a runtime's resources."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from nri.api import messages as m
from nri.kube import kubelet
from nri.kube.container_resources import DecodedResources, decoded_resources, memory_request

GIB = 1 << 30


@given(st.integers(10, 64_000), st.integers(10, 64_000), st.integers(1, 64 * GIB))
def test_the_kubelets_arithmetic_is_inverted(request_milli: int, limit_milli: int, memory: int) -> None:
    linux = m.LinuxContainer()
    expected = {"requests.cpu": Fraction(request_milli, 1000), "limits.cpu": Fraction(limit_milli, 1000)}
    kubelet.set_resources(linux, kubelet.Share({**expected, "limits.memory": Fraction(memory)}, 999))
    resources = decoded_resources(linux, "Burstable")
    assert abs(resources.cpu_request - request_milli) <= 1
    assert (resources.cpu_limit, resources.memory_limit, resources.memory_request) == (limit_milli, memory, None)


def test_a_guaranteed_container_requests_its_limits_and_a_best_effort_one_zero() -> None:
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, kubelet.Share({"limits.cpu": Fraction(2), "limits.memory": Fraction(GIB)}, -997))
    assert decoded_resources(linux, "Guaranteed") == DecodedResources(2000, 2000, GIB, GIB)
    assert decoded_resources(m.LinuxContainer(), "BestEffort") == DecodedResources(0, 0, 0, 0)


@given(st.integers(1, 996))
def test_a_burstable_memory_request_is_accurate_to_a_thousandth_of_the_node(share: int) -> None:
    request_bytes = memory_request(1000 - share, 64 * GIB)
    assert request_bytes is not None
    assert abs(request_bytes - share * 64 * GIB // 1000) <= 64 * GIB // 1000
    assert memory_request(1000 - share, 0) is None
    assert memory_request(None, GIB) is None
    assert memory_request(2, GIB) is None
