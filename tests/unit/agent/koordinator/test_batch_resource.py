"""Batch resources of pods and containers, and pods without batch resources."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator import batch_resource, names
from nri.agent.koordinator.node import BatchRule
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import NO_CHANGES, Changes, Container, ExtendedResources, HookError, Pod

AMOUNT = st.integers(min_value=1, max_value=10**6)


def ask(cpu: int | None, memory: int | None, request: int | None = None) -> ExtendedResources:
    limits = {names.BATCH_CPU: cpu, names.BATCH_MEMORY: memory}
    requested = {names.BATCH_CPU: request}
    return ExtendedResources(
        {name: Fraction(value) for name, value in requested.items() if value is not None},
        {name: Fraction(value) for name, value in limits.items() if value is not None},
    )


def pod(*containers: ExtendedResources, qos: str = "BE") -> Pod:
    return Pod(labels={names.LABEL_QOS: qos}, extended={str(n): container for n, container in enumerate(containers)})


@given(st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1, max_size=5))
def test_a_pod_has_the_sum_of_its_containers(amounts: list[tuple[int, int]]) -> None:
    changes = batch_resource.pod(pod(*(ask(cpu, memory, cpu) for cpu, memory in amounts)), BatchRule()).changes
    cpu, memory = (sum(column) for column in zip(*amounts, strict=True))
    assert changes.knobs.get("memory.limit") == memory
    assert changes.knobs.get("cpu.cfs_quota") == max(cpu * 100, 1000)
    assert changes.knobs.get("cpu.shares") == min(max(cpu * 1024 // 1000, 2), 262_144)


@pytest.mark.parametrize("missing", [ask(None, None), ask(0, 0), ask(-1, -1)])
def test_one_container_without_a_limit_makes_the_pod_unlimited(missing: ExtendedResources) -> None:
    changes = batch_resource.pod(pod(ask(500, 1024, 500), missing), BatchRule()).changes
    assert (changes.knobs.get("cpu.cfs_quota"), changes.knobs.get("memory.limit"), changes.knobs.get("cpu.shares")) == (
        -1,
        -1,
        512,
    )


def test_without_a_quota_it_is_unlimited_and_memory_stays_limited() -> None:
    rule = BatchRule(has_quota=False, ratio=2.0)
    assert batch_resource.pod(pod(ask(500, 1024)), rule).changes.knobs.get("cpu.cfs_quota") == -1
    changes = batch_resource.container(Container(pod(), extended=ask(500, 1024)), rule).changes
    assert (changes.knobs.get("cpu.cfs_quota"), changes.knobs.get("memory.limit")) == (-1, 1024)


@given(AMOUNT, st.floats(min_value=1.01, max_value=10))
def test_a_faster_node_scales_the_quotas_of_pod_and_container_equally(cpu: int, ratio: float) -> None:
    rule = BatchRule(ratio=ratio)
    alone = batch_resource.container(Container(pod(), extended=ask(cpu, 1)), rule).changes
    assert alone.knobs.get("cpu.cfs_quota") == batch_resource.pod(pod(ask(cpu, 1)), rule).changes.knobs.get(
        "cpu.cfs_quota"
    )


@pytest.mark.parametrize("qos", ["", "LS", "SYSTEM", "be"])
def test_pods_of_other_classes_are_unchanged(qos: str) -> None:
    context = pod(ask(500, 1024), qos=qos)
    assert batch_resource.pod(context, BatchRule()).changes == NO_CHANGES
    assert batch_resource.container(Container(context, extended=ask(1, 1)), BatchRule()).changes == NO_CHANGES


def test_a_pod_without_requests_is_unchanged() -> None:
    bare = Pod(labels={names.LABEL_QOS: "BE"})
    assert batch_resource.pod(bare, BatchRule()).changes == NO_CHANGES
    assert batch_resource.container(Container(bare), BatchRule()).changes == NO_CHANGES


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"containers": {"app": {"limits": {"kubernetes.io/batch-cpu": "1e400x"}}}}']
)
def test_an_unreadable_annotation_is_an_error_unless_the_spec_or_the_class_overrides_it(
    text: str,
) -> None:
    """`bad_batch_spec_told`."""
    source = {batch_resource.ANNOTATION_EXTENDED: text}
    bad = Pod(labels={names.LABEL_QOS: "BE"}, annotations=source)
    with pytest.raises(HookError, match=batch_resource.ANNOTATION_EXTENDED):
        batch_resource.pod(bad, BatchRule())
    with pytest.raises(HookError, match=batch_resource.ANNOTATION_EXTENDED):
        batch_resource.container(Container(bad), BatchRule())
    assert batch_resource.pod(bad, BatchRule(), Quirks.REFERENCE).changes == NO_CHANGES
    assert batch_resource.container(Container(bad), BatchRule(), Quirks.REFERENCE).changes == NO_CHANGES
    message = replace(bad, extended={"app": ask(500, 1024, 500)})
    assert batch_resource.pod(message, BatchRule()).changes.knobs.get("cpu.shares") == 512
    assert batch_resource.pod(replace(bad, labels={}), BatchRule()).changes == NO_CHANGES


def test_a_small_limit_on_a_faster_node_is_raised_to_the_kernels_minimum() -> None:
    assert batch_resource.pod(pod(ask(10, 1)), BatchRule(ratio=1.2)).changes.knobs.get("cpu.cfs_quota") == 1000
    assert (
        batch_resource.pod(pod(ask(10, 1)), BatchRule(ratio=1.2), Quirks.REFERENCE).changes.knobs.get("cpu.cfs_quota")
        == 834
    )


def test_an_annotation_without_containers_sets_no_memory_limit_of_0() -> None:
    """`empty_batch_spec_ignored`."""
    assert batch_resource.pod(pod(), BatchRule()).changes == NO_CHANGES
    assert batch_resource.pod(pod(), BatchRule(), Quirks.REFERENCE).changes == Changes(
        {"cpu.shares": 2, "cpu.cfs_quota": -1, "memory.limit": 0}
    )


SPEC = '{"containers": {"c": {"requests": {"kubernetes.io/batch-cpu": "500"}}}}'


def test_the_spec_overrides_the_annotation_but_other_resources_do_not() -> None:
    resources = ExtendedResources(requests={"kubernetes.io/batch-cpu": Fraction(1000)})
    other = ExtendedResources(requests={"nvidia.com/gpu": Fraction(1)})
    collected = []
    for extended in (resources, other, None):
        of_pod = Pod(
            labels={"koordinator.sh/qosClass": "BE"},
            annotations={"node.koordinator.sh/extended-resource-spec": SPEC},
            extended=None if extended is None else {"c": extended},
        )
        of_container = Container(of_pod, name="c", extended=extended)
        pod_shares = batch_resource.pod(of_pod, BatchRule()).changes.knobs.get("cpu.shares")
        collected.append(
            (pod_shares, batch_resource.container(of_container, BatchRule()).changes.knobs.get("cpu.shares"))
        )
    assert collected == [(1024, 1024), (512, 512), (512, 512)]
