"""The classes and priorities of pods."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator import pod_class


def pod(qos: str = "", kube: str = "BestEffort", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    source = {**({"koordinator.sh/qosClass": qos} if qos else {}), **(labels or {})}
    return {"metadata": {"name": "a", "labels": source}, "spec": spec, "status": {"qosClass": kube}}


@pytest.mark.parametrize(
    ("qos", "kube", "actual"),
    [
        ("BE", "Burstable", (True, False, True)),
        ("LS", "BestEffort", (False, True, True)),
        ("", "BestEffort", (False, True, True)),
        ("", "Unknown", (False, False, False)),
        ("LS", "Guaranteed", (False, False, False)),
    ],
)
def test_be_label_kubernetes_best_effort_and_offline_are_different(
    qos: str, kube: str, actual: tuple[bool, bool, bool]
) -> None:
    one = pod(qos, kube)
    assert (
        pod_class.labelled_be(one["metadata"]["labels"]),
        pod_class.kubernetes_best_effort(one),
        pod_class.offline(one),
    ) == actual


@pytest.mark.parametrize(
    ("priority", "qos", "name", "number"),
    [
        (5999, "BE", "koord-batch", 5999),
        (8999, "BE", "koord-batch", 8999),
        (8999, "LS", "koord-prod", 8999),
        (0, "BE", "koord-batch", 5500),
        (None, "LS", "koord-prod", 9500),
        (7000, "LS", "koord-mid", 7000),
        (True, "BE", "koord-batch", 5500),
    ],
)
def test_priority_and_class_are_derived_from_each_other(priority: Any, qos: str, name: str, number: int) -> None:
    one = pod(qos, priority=priority)
    assert (pod_class.priority_class(one), pod_class.priority(one)) == (name, number)


@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_every_class_has_its_own_resources(kind: str) -> None:
    asks = {"resources": {"requests": {"cpu": "1500m", "kubernetes.io/batch-cpu": "2k", "memory": "1Ki"}}}
    prod, batch = pod("LS", containers=[asks, asks], priority=9000), pod("BE", containers=[asks, asks], priority=5000)
    actual = {
        entry: pod_class.request(each_pod, entry)
        for each_pod in (prod, batch)
        for entry in [pod_class.resource_name(each_pod, kind)]
    }
    expected = {"cpu": {"cpu": 3000, "kubernetes.io/batch-cpu": 4000}}
    assert actual == expected.get(kind, {"memory": 2048, "kubernetes.io/batch-memory": 0})


def test_init_containers_of_a_batch_pod_request_no_batch_cpu_but_sidecars_do() -> None:
    def asks(milli: str) -> dict[str, Any]:
        return {"resources": {"requests": {"kubernetes.io/batch-cpu": milli}}}

    init, sidecar = asks("9000"), {**asks("300"), "restartPolicy": "Always"}
    more = {"initContainers": [init, sidecar], "overhead": {"kubernetes.io/batch-cpu": "50"}}
    one = pod("BE", containers=[asks("1000"), asks("-500"), {}], **more)
    assert pod_class.request(one, "kubernetes.io/batch-cpu") == 1300


@pytest.mark.parametrize(
    ("text", "allowed"),
    [(None, True), ('["A", "B"]', True), ('["B"]', False), ("[]", False), ("bad", False), ("[" * 100_000, False)],
)
def test_an_eviction_policy_names_the_allowed_features(text: str | None, allowed: bool) -> None:
    one = pod("BE")
    if text is not None:
        one["metadata"]["annotations"] = {pod_class.ANNOTATION_EVICTION_POLICY: text}
    assert pod_class.policy_allows(one, "A") is allowed


@pytest.mark.parametrize(
    ("text", "number"),
    [(None, 9500), ("7", 7), ("-3", -3), ("", 9500), ("1.5", 9500), ("9223372036854775808", 9500)],
)
def test_a_numeric_label_is_the_priority_within_the_class(text: str | None, number: int) -> None:
    one = pod("LS", labels={} if text is None else {pod_class.LABEL_PRIORITY: text})
    assert pod_class.label_priority(one) == number


@pytest.mark.parametrize(("text", "number"), [(None, 0), ("-100", -100), ("x", 0), ("2147483648", 0)])
def test_a_numeric_annotation_is_the_eviction_priority(text: str | None, number: int) -> None:
    one = pod("BE")
    if text is not None:
        one["metadata"]["annotations"] = {pod_class.ANNOTATION_EVICTION_PRIORITY: text}
    assert pod_class.eviction_priority(one) == number


def test_a_label_with_a_known_name_sets_the_priority_class() -> None:
    named = [
        pod_class.priority_class(pod("LS", labels={pod_class.LABEL_PRIORITY_CLASS: name}, priority=5500))
        for name in ("koord-mid", "none")
    ]
    assert named == ["koord-mid", "koord-prod"]


@pytest.mark.parametrize(("text", "allowed"), [(None, False), ("true", True), ("True", False)])
def test_a_pod_allows_its_eviction_by_one_label_value(text: str | None, allowed: bool) -> None:
    assert pod_class.evictable_label(pod(labels={} if text is None else {pod_class.LABEL_EVICTABLE: text})) is allowed
