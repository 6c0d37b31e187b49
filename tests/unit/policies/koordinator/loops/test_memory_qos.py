"""What of memory is protected, by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator.loops import memory_qos

QOS = memory_qos.parse(
    {"enable": True, "minLimitPercent": 50, "lowLimitPercent": 20, "throttlingPercent": 80, "wmarkRatio": 95}
)


@given(st.integers(0, 2**40), st.integers(2**20, 2**40), st.integers(1, 100), st.integers(0, 100), st.integers(0, 100))
def test_protection_is_ordered_and_high_is_inside(request: int, more: int, throttle: int, least: int, low: int) -> None:
    qos = memory_qos.MemoryQos(True, least, low, throttle)
    values = memory_qos.container_values(qos, request, request + more, 2**41)
    if values["memory.low"] and values["memory.min"]:
        assert values["memory.min"] <= values["memory.low"]
    assert values["memory.high"] <= request + more
    assert values["memory.high"] >= max(values["memory.min"], 4096)


def test_memory_without_a_limit_is_throttled_by_the_node_and_zero_is_no_throttling() -> None:
    values = memory_qos.container_values(QOS, 1 << 30, -1, 3 << 30)
    assert values["memory.high"] == ((1 << 30) + (2 << 30) * 80 // 100) // 4096 * 4096
    assert values["memory.low"] == values["memory.min"] == 1 << 29
    assert values["memory.wmark_ratio"] == 95
    unknown = memory_qos.container_values(QOS, 1 << 30, -1, None)
    assert unknown == {name: value for name, value in values.items() if name != "memory.high"}
    free = QOS._replace(throttling_percent=0)
    assert memory_qos.container_values(free, 1, 2, 3)["memory.high"] == -1
    assert "memory.high" not in memory_qos.pod_values(QOS, 1 << 30)
    assert memory_qos.pod_values(memory_qos.parse(None), 1) == {}
    with pytest.raises(ValueError, match="minLimitPercent"):
        memory_qos.parse({"minLimitPercent": "5"})
