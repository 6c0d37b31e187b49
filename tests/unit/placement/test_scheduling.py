"""Scheduling classes: valid settings, and the class of a container."""

from __future__ import annotations

from typing import Any

import pytest

from nri.config.complaint import WrongValue
from nri.placement.scheduling import SchedulingClass, check_names
from tests.support.placement import balloons, container, topology_aware

CLASSES = [
    {"name": "fast", "policy": "fifo", "priority": 10},
    {"name": "calm", "policy": "batch", "nice": 10, "ioClass": "idle"},
    {"name": "rest", "policy": "idle"},
]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "must have a name"),
        ({"nice": 20}, "nice 20 is out of range"),
        ({"policy": "fifo", "priority": 100}, "priority 100 is out of range"),
        ({"policy": "fifo"}, "policy fifo requires a priority"),
        ({"policy": "other", "priority": 3}, "priority allowed only with the policies fifo and rr"),
        (
            {"policy": "deadline", "runtime": 5, "deadline": 4},
            "policy deadline requires .* has runtime 5, deadline 4 and period 4",
        ),
        ({"policy": "deadline"}, "policy deadline requires .* has runtime 0"),
        ({"runtime": 5}, "runtime allowed only with the policy deadline"),
        ({"ioPriority": 3}, "ioPriority allowed only with ioClass rt or be"),
        ({"ioClass": "be", "ioPriority": 8}, "ioPriority 8 is out of range"),
    ],
)
def test_settings_that_the_kernel_would_refuse_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SchedulingClass(**{"name": "x", **fields})


def test_without_a_period_the_deadline_is_the_period() -> None:
    assert SchedulingClass("x", policy="deadline", runtime=1000, deadline=5000).has_cpu_settings
    assert not SchedulingClass("x", ioClass="idle").has_cpu_settings


def test_names_must_be_unique_and_known() -> None:
    check_names("classes", ["one"], {("a",): "one", ("b",): ""})
    with pytest.raises(WrongValue, match=r"classes\[1\].name duplicate name 'one'"):
        check_names("classes", ["one", "one"], {})
    with pytest.raises(WrongValue, match="key 'two' is not in classes; write one"):
        check_names("classes", ["one"], {("key",): "two"})
    with pytest.raises(WrongValue, match="define 'two' in classes"):
        check_names("classes", [], {("key",): "two"})


def test_for_topology_aware_precedence_is_annotation_namespace_qos_class() -> None:
    policy = topology_aware(
        schedulingClasses=CLASSES,
        namespaceSchedulingClasses={"batch": "calm"},
        podQoSSchedulingClasses={"besteffort": "rest"},
    )

    def name(**fields: Any) -> str:
        scheduling_class = policy.scheduling(container("one", **fields))
        return "" if scheduling_class is None else scheduling_class.name

    assert name(cpu_m=500) == ""
    assert name() == "rest"
    assert name(namespace="batch") == "calm"
    assert name(namespace="batch", scheduling_class="fast") == "fast"
    wrong = container("one", scheduling_class="fats")
    assert policy.scheduling(wrong) is None
    assert wrong.doubts == [
        "annotation scheduling-class.resource-policy.nri.io: unknown class 'fats'; defined classes: fast, calm, rest"
    ]


def test_for_balloons_precedence_is_annotation_type() -> None:
    policy = balloons({"name": "own", "namespaces": ["own"], "schedulingClass": "calm"}, schedulingClasses=CLASSES)
    for one, expected in (
        (container("one", 500, namespace="own"), "calm"),
        (container("two", 500, namespace="own", scheduling_class="fast"), "fast"),
        (container("three", 500), ""),
        (container("four", 500, namespace="own", **{"cpu.preserve": "true"}), ""),
    ):
        policy.create(one)
        scheduling_class = policy.scheduling(one)
        assert ("" if scheduling_class is None else scheduling_class.name) == expected, one.name


def test_an_unknown_qos_class_is_refused() -> None:
    with pytest.raises(ValueError, match=r"podQoSSchedulingClasses\.Garanteed: is not a QoS class"):
        topology_aware(schedulingClasses=CLASSES, podQoSSchedulingClasses={"Garanteed": "fast"})
