"""Mistakes of a pod's author are reported with a suggestion; keys of other projects are ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.agent.koordinator.profile import PROFILE
from nri.agent.koordinator.unread_pod_keys import absent_containers
from nri.agent.model import ExtendedResources

EXTENDED = "node.koordinator.sh/extended-resource-spec"

pod_unread = PROFILE.unread


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("koordinator.sh/qosclass", "koordinator.sh/qosClass"),
        ("koordinator.sh/cpu-burst", "koordinator.sh/cpuBurst"),
        ("koordinator.sh/resource-status", "scheduling.koordinator.sh/resource-status"),
        ("node.koordinator.sh/extended-resources-spec", "node.koordinator.sh/extended-resource-spec"),
    ],
)
def test_a_misspelt_key_is_reported_with_a_suggestion(key: str, suggestion: str) -> None:
    assert pod_unread({}, {key: "x"}) == [f"{key}: nothing reads it; did you mean {suggestion}?"]
    assert pod_unread({suggestion: "BE"}, {key: "x"}) == []


def test_an_invalid_class_and_a_class_in_the_wrong_place_are_reported() -> None:
    (line,) = pod_unread({"koordinator.sh/qosClass": "be"}, {})
    assert line.startswith('koordinator.sh/qosClass: "be" is not a class')
    (line,) = pod_unread({}, {"koordinator.sh/qosClass": "BE"})
    assert line.endswith("set it as a label")


@pytest.mark.parametrize(
    "key", ["scheduling.koordinator.sh/device-allocate-hint", "scheduling.koordinator.sh/resource-spec", "app/qosclass"]
)
def test_keys_of_other_projects_are_ignored(key: str) -> None:
    assert pod_unread({"koordinator.sh/qosClass": "BE", key: "x"}, {key: "x"}) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            EXTENDED,
            {"containers": {"a": {"requests": {"kubernetes.io/batch-cpuu": "500"}}}},
            "containers.a.requests.kubernetes.io/batch-cpuu: nothing reads it; did you mean kubernetes.io/batch-cpu?",
        ),
        (
            EXTENDED,
            {"containers": {"a": {"limit": {}, "limts": {"x": 1}}}},
            "containers.a.limts: nothing reads it; did you mean limits?",
        ),
        ("koordinator.sh/cpuBurst", {"polcy": "auto"}, "polcy: nothing reads it; did you mean policy?"),
        ("koordinator.sh/memoryQOS", {"policy": None}, "policy: the value is null, so the default applies"),
        ("koordinator.sh/blkioQOS", {"blocks": [{"nam": "x"}]}, "blocks[0].nam: nothing reads it; did you mean name?"),
    ],
)
def test_unknown_keys_inside_an_annotation_are_reported(key: str, value: object, message: str) -> None:
    (line,) = pod_unread({}, {key: json.dumps(value)})
    assert line.startswith(f"annotation {key}: {message}")


STATUS = "scheduling.koordinator.sh/resource-status"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "koordinator.sh/core-sched-policy",
            "exclusiv",
            '"exclusiv" has no effect: write one of none, exclusive; did you',
        ),
        (
            "koordinator.sh/priority-class",
            "prod",
            '"prod" has no effect: write one of koord-prod, koord-mid, koord-batch,',
        ),
        ("koordinator.sh/eviction-enabled", "yes", '"yes" has no effect: write one of true, false'),
        ("koordinator.sh/priority", "high", '"high" is not a 64-bit whole number, so it is ignored'),
        ("koordinator.sh/eviction-priority", "9999999999", '"9999999999" is not a 32-bit whole number'),
        ("koordinator.sh/eviction-policy", "CPUEvict", "not a list of features, so no feature evicts the pod"),
        (
            "koordinator.sh/eviction-policy",
            '["CPUEvikt", "CPUEvict"]',
            '"CPUEvikt" has no effect: write one of BECPUEvict, ',
        ),
        (STATUS, '{"cpuset": "0-"}', "cpuset: '0-' is not a number or a range"),
    ],
)
def test_a_value_without_effect_is_reported(key: str, value: str, message: str) -> None:
    (line,) = pod_unread({key: value}, {key: value})
    assert line.removeprefix("annotation ").startswith(f"{key}: {message}")


def test_values_with_an_effect_are_not_reported() -> None:
    labels = {
        "koordinator.sh/core-sched-policy": "", "koordinator.sh/priority-class": "koord-prod",
        "koordinator.sh/eviction-enabled": "false", "koordinator.sh/priority": "-5",
    }  # fmt: skip
    annotations = {
        "koordinator.sh/eviction-priority": "+5", "koordinator.sh/eviction-policy": '["MemoryEvict"]',
        STATUS: '{"cpuset": "0-1"}',
    }  # fmt: skip
    assert pod_unread(labels, annotations) == []
    assert pod_unread({}, {STATUS: "{"}) == [], "its hook reports that"
    odd: dict[str, Any] = dict.fromkeys((*labels, *annotations), 5)
    assert pod_unread(odd, odd) == [], "not even a text: its source reports that"


def test_a_misspelt_batch_resource_of_a_container_is_reported() -> None:
    requested = {"kubernetes.io/batch-memroy": 1, "nvidia.com/gpu": 1, "kubernetes.io/mid-cpu": 1}
    (line,) = pod_unread({}, {}, {"app": ExtendedResources(requested, {})})  # type: ignore[arg-type]
    assert line == (
        "containers.app.requests.kubernetes.io/batch-memroy: nothing reads it; did you mean kubernetes.io/batch-memory?"
    )


def test_containers_that_exist_only_in_the_annotation_are_reported() -> None:
    source = {EXTENDED: json.dumps({"containers": {"wrk": {}, "init": {}}})}
    (line,) = absent_containers(source, ["init", "work"])
    assert line == f"annotation {EXTENDED}: the pod has no container wrk; it has init, work"
    scores = "koordinator.sh/oom-score-adj-spec"
    assert absent_containers({scores: '{"wrk": 5}'}, ["work"]) == [
        f"annotation {scores}: the pod has no container wrk; it has work"
    ]
    assert absent_containers({scores: "{"}, ["work"]) == []
    assert absent_containers(source, ["init", "wrk"]) == absent_containers({EXTENDED: "{"}, []) == []


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "5", json.dumps({f"k{n}": n for n in range(50_000)})])
def test_hostile_annotations_cause_a_bounded_number_of_short_lines(text: str) -> None:
    lines = pod_unread({"koordinator.sh/qosClass": "x" * 100_000}, {EXTENDED: text, "koordinator.sh/qosclass": text})
    assert len(lines) <= 16 and all(len(line) < 600 for line in lines)
