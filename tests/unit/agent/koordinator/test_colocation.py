"""A node's strategy of batch and mid resources, and the values that the manager ignores."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator import colocation
from nri.agent.koordinator.unread_keys import unread_annotations


def node(labels: dict[str, Any] | None = None, strategy: str | None = None) -> dict[str, Any]:
    annotations = {} if strategy is None else {colocation.ANNOTATION_STRATEGY: strategy}
    return {"metadata": {"labels": labels or {}, "annotations": annotations}}


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({"matchLabels": {"pool": "a"}}, True),
        ({"matchLabels": {"pool": "b"}}, False),
        ({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "pool", "operator": "out", "values": ["a"]}]}, False),
        ({}, True),
        (None, False),
    ],
)
def test_the_first_matching_node_configuration_overrides_the_clusters(selector: Any, fits: bool) -> None:
    config = {
        "degradeTimeMinutes": 15,
        "nodeConfigs": [
            {"name": "one", "nodeSelector": selector, "degradeTimeMinutes": 5},
            {"name": "two", "nodeSelector": {}, "degradeTimeMinutes": 7},
        ],
    }
    assert colocation.of_node(config, node({"pool": "a"})) == {"degradeTimeMinutes": 5 if fits else 7}


def test_the_nodes_labels_override_its_annotation_and_all_other_configuration() -> None:
    source = node({"node.koordinator.sh/cpu-reclaim-ratio": "0.7"}, '{"cpuReclaimThresholdPercent": 1, "enable": true}')
    actual = colocation.of_node({"enable": False, "cpuReclaimThresholdPercent": 65}, source)
    assert actual == {"enable": True, "cpuReclaimThresholdPercent": 70}


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("degradeTimeMinutes", 0, "is not above 0"),
        ("batchCPUThresholdPercent", -1, "is below 0"),
        ("batchCPUThresholdPercent", 200, ""),
        ("midCPUThresholdPercent", 101, "is above 100"),
        ("metricMemoryCollectPolicy", "", "is empty"),
    ],
)
def test_numbers_that_the_manager_refuses_are_reported_with_the_rule(key: str, value: Any, rule: str) -> None:
    shown = f"{key} {value}".strip()
    assert colocation.wrong({**colocation.DEFAULTS, key: value}) == ([f"{shown} {rule}"] if rule else [])


@pytest.mark.parametrize("text", ["-1", "often", "nan", "inf"])
def test_an_invalid_ratio_is_reported(text: str) -> None:
    label = "node.koordinator.sh/memory-reclaim-ratio"
    (actual,) = unread_annotations(node({label: text}))
    assert str(actual) == f"label {label}: '{text}' is not a ratio such as 0.7, so Koordinator's manager ignores it"
    assert colocation.of_node({}, node({label: text})) == {}


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("[]", "not a JSON object, so Koordinator's manager ignores it"),
        ("{", "not a JSON object, so Koordinator's manager ignores it"),
        (
            '{"midUnallocatedPercent": -10}',
            "midUnallocatedPercent -10 is below 0, so Koordinator's manager refuses the strategy",
        ),
    ],
)
def test_a_node_strategy_that_the_manager_ignores_is_reported(strategy: str, why: str) -> None:
    assert [str(unread_annotation) for unread_annotation in unread_annotations(node(strategy=strategy))] == [
        f"annotation {colocation.ANNOTATION_STRATEGY}: {why}"
    ]
