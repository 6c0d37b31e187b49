"""Annotations of pods: what is read, and that a wrong one names its key."""

import pytest

from nri.agent.koordinator import names, pod_annotations


def test_a_status_gives_cpus() -> None:
    assert pod_annotations.own_cpuset({names.ANNOTATION_STATUS: '{"cpuset":"2-4"}'}) == "2-4"
    assert pod_annotations.own_cpuset({}) == ""


@pytest.mark.parametrize("identity", [-2, 3])
def test_an_identity_out_of_range_is_refused(identity: int) -> None:
    with pytest.raises(ValueError, match="from -1 to 2"):
        pod_annotations.cpu_qos({names.ANNOTATION_CPU_QOS: f'{{"enable":true,"groupIdentity":{identity}}}'})


def test_a_spec_without_containers_is_none_and_one_with_none_is_empty() -> None:
    assert pod_annotations.extended_resources({names.ANNOTATION_EXTENDED: "{}"}) is None
    assert pod_annotations.extended_resources({names.ANNOTATION_EXTENDED: '{"containers":{}}'}) == {}


@pytest.mark.parametrize(
    ("key", "read"),
    [
        (names.ANNOTATION_STATUS, pod_annotations.resource_status),
        (names.ANNOTATION_CPU_QOS, pod_annotations.cpu_qos),
        (names.ANNOTATION_EXTENDED, pod_annotations.extended_resources),
        (names.ANNOTATION_DEVICES, lambda given: pod_annotations.device_allocations(given, "gpu")),
        (names.ANNOTATION_RESCTRL, pod_annotations.resctrl),
    ],
)
@pytest.mark.parametrize("text", ["", "not-json", "[]", '{"cpuset'])
def test_an_annotation_that_cannot_be_read_is_named(key, read, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"^annotation {key}: "):
        read({key: text})
