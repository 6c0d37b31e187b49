"""CPU normalization: which quotas are scaled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator import cpu_normalization, cpuset, names
from nri.agent.koordinator.node import NO_RATIO
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Container, Pod, Resources
from nri.kube import cgroup_limits as formulas


def context(qos: str | None, quota: int | None = 100_000, status: str | None = None) -> Pod:
    labels = {} if qos is None else {names.LABEL_QOS: qos}
    annotations = {} if status is None else {cpuset.ANNOTATION_STATUS: status}
    return Pod(labels=labels, annotations=annotations, resources=Resources(cfs_quota=quota))


@pytest.mark.parametrize(
    ("pod", "ratio", "quota"),
    [
        (context("LS"), 1.2, 83_334),
        (context(None), 1.2, 83_334),
        (context("other"), 1.2, 83_334),
        (context("LS", 1000), 1.2, 1000),
        (context("LS"), 1.0, 100_000),
        (context("LS"), 0.5, 100_000),
        (context("LS"), -1, None),
        (context("BE"), 1.2, None),
        (context("LSR"), 1.2, None),
        (context("SYSTEM"), 1.2, None),
        (context("LS", -1), 1.2, None),
        (context("LS", None), 1.2, None),
        (context(None, status='{"cpuset":"1"}'), 1.2, None),
        (context("LS", status='{"cpuset":"1"}'), 1.2, 83_334),
        (context(None, status="bad"), 1.2, 83_334),
    ],
)
def test_quotas_of_pods_that_share_cpus_are_scaled(pod: Pod, ratio: float, quota: int | None) -> None:
    assert cpu_normalization.pod(pod, ratio).changes.knobs.get("cpu.cfs_quota") == quota
    container = Container(pod, resources=pod.resources)
    assert cpu_normalization.container(container, ratio).changes.knobs.get("cpu.cfs_quota") == quota


def test_without_a_known_quota_nothing_is_scaled() -> None:
    assert not cpu_normalization.pod(Pod(), 2.0).changes
    assert not cpu_normalization.container(Container(), 2.0).changes


def on_node(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: text}}}


@pytest.mark.parametrize("source", [None, [], 5])
def test_a_missing_document_is_an_error(source: Any) -> None:
    for parse in (cpuset.rule_of, cpu_normalization.ratio_of):
        with pytest.raises(ValueError, match=r"no Node.* document"):
            parse(source)


@pytest.mark.parametrize("text", ["", "[}", "0", "-1", "nan", "inf", " 1.1", "1_0", "1,1"])
def test_a_ratio_that_is_not_a_positive_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cpu-normalization-ratio"):
        cpu_normalization.ratio_of(on_node(text))


def test_a_ratio_is_read_and_its_absence_disables_scaling() -> None:
    assert cpu_normalization.ratio_of(on_node("1.10")) == 1.1
    assert cpu_normalization.ratio_of({"metadata": {"name": "n"}}) == -1


@given(st.floats(0.1, 10), st.floats(-0.009, 0.009))
def test_a_ratio_change_below_a_hundredth_is_ignored(ratio: float, change: float) -> None:
    assert cpu_normalization.same_ratio(ratio, ratio + change)
    assert not cpu_normalization.same_ratio(ratio, ratio + 0.02)
    assert not cpu_normalization.same_ratio(NO_RATIO, ratio)


def test_a_ratio_in_non_ascii_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number above 0"):
        cpu_normalization.ratio_of(on_node("\N{ARABIC-INDIC DIGIT TWO}"))


def test_an_added_or_removed_ratio_is_a_change() -> None:
    assert cpu_normalization.same_ratio(None, None)
    assert not cpu_normalization.same_ratio(None, 1.0)
    assert not cpu_normalization.same_ratio(1.0, None)


RATIO = st.floats(min_value=0.01, max_value=100, allow_nan=False)


@given(st.integers(min_value=1, max_value=10**9), RATIO)
def test_a_scaled_quota_is_the_smallest_one_not_below_its_share(quota: int, ratio: float) -> None:
    scaled = cpu_normalization.scaled(quota, ratio, Quirks.REFERENCE)
    if ratio <= 1:
        assert scaled == quota
    else:
        assert 1 <= scaled <= quota
        assert scaled >= quota / ratio > scaled - 1


@given(st.integers(min_value=1, max_value=10**9), RATIO)
def test_a_valid_quota_is_scaled_to_a_valid_quota(quota: int, ratio: float) -> None:
    """`scaled_quota_is_possible`."""
    scaled = cpu_normalization.scaled(quota, ratio)
    assert scaled == max(cpu_normalization.scaled(quota, ratio, Quirks.REFERENCE), min(quota, formulas.MIN_QUOTA_US))


@pytest.mark.parametrize("quota", [-1, 0])
def test_an_unlimited_quota_is_not_scaled(quota: int) -> None:
    assert cpu_normalization.scaled(quota, 2.0) == quota
