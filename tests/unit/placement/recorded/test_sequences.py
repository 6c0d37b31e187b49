"""A recorded sequence is run and compared."""

from typing import Any

from nri.placement.choices import Choices
from nri.placement.recorded.sequences import UNMET, differences
from tests.support.placement import guest


def case(**more: Any) -> dict[str, Any]:
    pins = {"cpus": "4", "mems": "1", "cpu_shares": 1024}
    one = {"name": "c0", "cpu_request_m": 1000, "cpu_limit_m": 1000, "mem_request": 1000, "mem_limit": 1000}
    steps = [
        {"op": "create", "pod": "p", "namespace": "default", "qos": "Guaranteed", "containers": [one],
         "expect": {"changed": {"c0": pins}}},
        {"op": "resize", "container": "c0", "cpu_request_m": 2000, "cpu_limit_m": 2000,
         "expect": {"changed": {"c0": {"cpus": "4-5", "mems": "1", "cpu_shares": 2048}}}},
        {"op": "delete", "pods": ["p"], "expect": {"changed": {}, "gone": ["c0"]}},
        {"op": "resize", "container": "c0", "cpu_request_m": 1, "expect": {"changed": {}, "errors_for": ["c0"]}},
    ]  # fmt: skip
    config = {"reservedResources": {"cpu": "1"}}
    case_document = {
        "policy": "topology-aware",
        "config": config,
        "node_memory_capacity_bytes": 1 << 30,
        "steps": steps,
    }
    return case_document | more


def test_an_unchanged_sequence_has_no_differences() -> None:
    assert differences(case(), guest(), Choices.DEFAULT) == []


def test_each_different_step_is_reported_as_a_line() -> None:
    wrong = case()
    wrong["steps"][0]["expect"] = {"changed": {}, "errors_for": ["c0"]}
    assert [line.split(":")[0] for line in differences(wrong, guest(), Choices.DEFAULT)] == [
        "step 0 (create) changed", "step 0 (create) errors_for"
    ]  # fmt: skip


def test_assertions_are_checked_after_their_step() -> None:
    met = [{"after_step": 1, "cpu_count": {"c0": 2}, "numa_nodes_of_cpus": {"c0": "1"}}, {"when": "start"}]
    assert differences(case(repo_assertions=met), guest(), Choices.DEFAULT) == []
    (line,) = differences(case(repo_assertions=[{"after_step": 0, "cpus": {"c0": "5"}}]), guest(), Choices.DEFAULT)
    assert line.startswith(UNMET)


def test_a_case_can_expect_a_refused_configuration() -> None:
    assert differences(case(config={}, expected={"setup": "error"}), guest(), Choices.DEFAULT) == []
    assert differences(case(config={}), guest(), Choices.DEFAULT)[0].startswith("the configuration is refused")
    assert differences(case(expected={"setup": "error"}), guest(), Choices.DEFAULT) == [
        "the configuration is accepted, but should be refused"
    ]


def test_an_emptied_list_is_not_sent_and_keeps_the_earlier_value() -> None:
    small = {"name": "a", "cpu_request_m": 500, "cpu_limit_m": 500}
    large = {"name": "b", "cpu_request_m": 14000, "cpu_limit_m": 14000}
    steps = [
        {"op": "create", "pod": row["name"], "namespace": "default", "qos": "Guaranteed", "containers": [row]}
        for row in (small, large)
    ]
    steps[0]["expect"] = {"changed": {"a": {"cpus": "4-7", "mems": "1", "cpu_shares": 512}}}
    steps[1]["expect"] = {"changed": {"b": {"cpus": "2-15", "mems": "0-3", "cpu_shares": 14336}}}
    assert differences(case(steps=steps), guest(), Choices.REFERENCE) == []


def test_a_hint_in_an_annotation_counts_unless_hints_are_disabled_or_denied() -> None:
    domain, nodes = "resource-policy.nri.io", dict[str, str]()
    for kind, value in (("", ""), ("topologyhints", "none"), ("deny.topologyhints", "{paths: [/dev/]}")):
        hint = "{one: {Provider: /dev/one, NUMAs: '0'}}"
        annotations = {f"test.topologyhints.{domain}/pod": hint} | ({f"{kind}.{domain}/pod": value} if kind else {})
        one = {"name": "c0", "cpu_request_m": 1000, "cpu_limit_m": 1000}
        step = {"op": "create", "pod": "p", "namespace": "default", "qos": "Guaranteed", "containers": [one],
                "annotations": annotations, "expect": {"changed": {}}}  # fmt: skip
        hinted_case = case(steps=[step], topology_overrides={"test_topology_hint_annotation": True})
        (line,) = differences(hinted_case, guest(), Choices.DEFAULT)
        nodes[kind] = line
    assert nodes["topologyhints"] == nodes["deny.topologyhints"] != nodes[""], nodes
