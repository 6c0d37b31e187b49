"""NodeSLO from `slo-controller-config`: the specs equal those of Koordinator's manager (a7a1b76b)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.agent.koordinator.slo_controller import node_slo, unread

BATCH = {"matchLabels": {"pool": "batch"}}
THRESHOLDS, QOS, BURST, SYSTEM = (
    "resource-threshold-config", "resource-qos-config", "cpu-burst-config", "system-config",
)  # fmt: skip
APPLICATIONS = "host-application-config"


def spec(data: dict[str, Any], labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    node = {"metadata": {"labels": labels or {}, "annotations": annotations}}
    document = node_slo({"data": {key: json.dumps(value) for key, value in data.items()}}, node)
    assert document is not None
    result: dict[str, Any] = document["spec"]
    return result


def test_the_first_matching_node_strategy_is_merged_into_the_clusters() -> None:
    config = {
        "clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 60},
        "nodeStrategies": [
            {"name": "none", "cpuSuppressThresholdPercent": 10},
            {"name": "batch", "nodeSelector": BATCH, "cpuSuppressThresholdPercent": 40},
            {"name": "all", "nodeSelector": {}, "enable": False},
        ],
    }
    values = {
        pool: spec({THRESHOLDS: config}, {"pool": pool})["resourceUsedThresholdWithBE"] for pool in ("batch", "web")
    }
    assert values == {
        "batch": {"enable": True, "cpuSuppressThresholdPercent": 40},
        "web": {"enable": False, "cpuSuppressThresholdPercent": 60},
    }


def test_classes_are_merged_key_by_key_and_lists_are_replaced() -> None:
    config = {
        "clusterStrategy": {
            "beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1}, "blkioQOS": {"blocks": [{"name": "a"}]}}
        },
        "nodeStrategies": [
            {
                "nodeSelector": BATCH,
                "beClass": {"cpuQOS": {"groupIdentity": 0}, "blkioQOS": {"blocks": [{"name": "b"}]}},
            }
        ],
    }
    assert spec({QOS: config}, {"pool": "batch"})["resourceQOSStrategy"]["beClass"] == {
        "cpuQOS": {"enable": True, "groupIdentity": 0},
        "blkioQOS": {"blocks": [{"name": "b"}]},
    }


@pytest.mark.parametrize(
    ("expression", "labels", "matches"),
    [
        ({"key": "pool", "operator": "In", "values": ["batch"]}, {"pool": "batch"}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["web"]}, {}, True),
        ({"key": "pool", "operator": "Exists"}, {"pool": ""}, True),
        ({"key": "pool", "operator": "DoesNotExist"}, {"pool": ""}, False),
        ({"key": "pool", "operator": "Near", "values": ["web"]}, {"pool": "batch"}, False),
        ({"key": "pool", "operator": "NotIn", "values": []}, {"pool": "batch"}, False),
        ({"key": "pool", "operator": "Exists", "values": ["x"]}, {"pool": "batch"}, False),
        ({"key": "two words", "operator": "DoesNotExist"}, {}, False),
        ({"key": "pool", "operator": "NotIn", "values": ["two words"]}, {}, False),
        ({"key": "example.org/pool", "operator": "NotIn", "values": [""]}, {}, True),
        ({"key": "Example_org/pool", "operator": "DoesNotExist"}, {}, False),
    ],
)
def test_selectors_behave_as_in_kubernetes(expression: dict[str, Any], labels: dict[str, str], matches: bool) -> None:
    config = {"nodeStrategies": [{"nodeSelector": {"matchExpressions": [expression]}, "cpuBurstPercent": 200}]}
    assert ("cpuBurstStrategy" in spec({BURST: config}, labels)) == matches


def test_a_node_strategy_without_a_bandwidth_resets_it_and_the_annotation_overrides_all() -> None:
    config = {
        "clusterStrategy": {"totalNetworkBandwidth": "1000M", "minFreeKbytesFactor": 100},
        "nodeStrategies": [{"nodeSelector": BATCH, "watermarkScaleFactor": 150}],
    }
    assert spec({SYSTEM: config}, {"pool": "batch"})["systemStrategy"] == {
        "totalNetworkBandwidth": "0",
        "minFreeKbytesFactor": 100,
        "watermarkScaleFactor": 150,
    }
    annotated = {"node.koordinator.sh/network-bandwidth": "5G"}
    assert spec({SYSTEM: config}, **annotated)["systemStrategy"]["totalNetworkBandwidth"] == "5G"


@pytest.mark.parametrize("text", ["fast", ""])
def test_an_unreadable_bandwidth_of_the_node_removes_the_system_strategy(text: str) -> None:
    config = {"clusterStrategy": {"totalNetworkBandwidth": "1000M", "minFreeKbytesFactor": 100}}
    assert spec({SYSTEM: config}, **{"node.koordinator.sh/network-bandwidth": text}) == {}


def test_a_null_bandwidth_of_a_node_strategy_resets_the_clusters() -> None:
    config = {
        "clusterStrategy": {"totalNetworkBandwidth": "2G"},
        "nodeStrategies": [{"nodeSelector": {}, "totalNetworkBandwidth": None}],
    }
    assert spec({SYSTEM: config})["systemStrategy"] == {"totalNetworkBandwidth": "0"}


def test_host_applications_of_a_node_replace_those_of_the_cluster() -> None:
    config = {
        "applications": [{"name": "x"}],
        "nodeConfigs": [{"nodeSelector": BATCH, "applications": [{"name": "y"}]}],
    }
    assert spec({APPLICATIONS: config}, {"pool": "batch"}) == {"hostApplications": [{"name": "y"}]}
    assert spec({APPLICATIONS: config}) == {"hostApplications": [{"name": "x"}]}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({THRESHOLDS: "{"}, 'data.resource-threshold-config: "{" is not JSON'),
        ({THRESHOLDS: "[]"}, r"data.resource-threshold-config: \[\] is not an object"),
        ({QOS: '{"clusterStrategy": 5}'}, "data.resource-qos-config: clusterStrategy: 5 is not an object"),
        ({QOS: '{"nodeStrategies": {}}'}, "data.resource-qos-config: nodeStrategies: {} is not a list"),
        ({QOS: '{"nodeStrategies": [5]}'}, r"data.resource-qos-config: nodeStrategies\[0\]: 5 is not an object"),
        ({SYSTEM: 5}, "data.system-config: not a string of JSON"),
    ],
)
def test_an_unreadable_configuration_is_an_error_with_its_key(data: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        node_slo({"data": data}, None)


def test_keys_without_an_effect_on_a_node_are_reported() -> None:
    keys = [str(key) for key in unread({"data": {"colocation-config": "{}", "cpu-burst-confg": "{}", BURST: "{}"}})]
    assert keys == [
        "data.colocation-config: only Koordinator's manager reads it",
        "data.cpu-burst-confg: nothing reads it; did you mean cpu-burst-config?",
    ]
