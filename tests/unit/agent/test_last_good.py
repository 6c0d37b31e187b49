"""The last valid rule is kept."""

from typing import Any

import pytest

from nri.agent.koordinator import cpu_normalization, cpuset
from nri.agent.koordinator.node import CpusetRule
from nri.agent.last_good import LastGood, LastGoodAnnotations


def topology(**annotations: str) -> dict[str, Any]:
    keys = {"shared": cpuset.ANNOTATION_SHARE_POOLS, "batch": cpuset.ANNOTATION_BE_SHARE_POOLS}
    keys |= {"system": cpuset.ANNOTATION_SYSTEM_QOS, "kubelet": cpuset.ANNOTATION_CPU_MANAGER}
    return {"metadata": {"annotations": {keys[key]: text for key, text in annotations.items()}}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"shared": "x"},
        {"batch": "{}"},
        {"system": '{"cpuset":"5-1"}'},
        {"kubelet": "[]"},
        {"shared": '[{"cpuset":"a"}]'},
    ],
)
def test_an_unreadable_topology_keeps_the_last_valid_rule(wrong: dict[str, str]) -> None:
    last_good = LastGood(CpusetRule(system_cpus="0"))
    assert not last_good.take(lambda: cpuset.rule_of(topology(**wrong)))
    assert last_good.rule.system_cpus == "0"
    assert last_good.error.startswith("annotation ")
    assert last_good.take(lambda: cpuset.rule_of(topology()))
    assert last_good.error == ""


def test_an_equal_rule_is_not_a_change() -> None:
    last_good = LastGood([1])
    assert not last_good.take(lambda: [1])
    assert last_good.take(lambda: [2])
    assert last_good.rule == [2]


def test_a_rule_equal_by_the_callers_comparison_does_not_replace_the_old_one() -> None:
    last_good = LastGood(1.0)
    assert not last_good.take(lambda: 1.001, same=cpu_normalization.same_ratio)
    assert last_good.rule == 1.0
    assert last_good.take(lambda: 1.5, same=cpu_normalization.same_ratio)
    assert last_good.rule == 1.5


def test_an_unchanged_valid_rule_clears_the_error() -> None:
    last_good = LastGood(2.0)
    assert not last_good.take(lambda: float("x"))
    assert (last_good.rule, last_good.error) == (2.0, "could not convert string to float: 'x'")
    assert not last_good.take(lambda: 2.0)
    assert last_good.error == ""


def test_the_last_valid_text_counts_until_the_annotation_or_pod_is_removed() -> None:
    good = LastGoodAnnotations()
    assert good.instead("u", "a", {"a": "{"}) is None
    good.keep("u", "a", {"a": "{}", "b": "1"})
    assert good.instead("u", "a", {"a": "{", "b": "2"}) == {"a": "{}", "b": "2"}
    assert good.instead("u", "b", {"b": "{"}) is None
    good.keep("other", "a", {"a": "{}"})
    good.only({"u"})
    assert len(good) == 1
    good.keep("u", "a", {})
    assert len(good) == 0
