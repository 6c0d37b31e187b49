"""Annotations of pods: reading, and errors with the key."""

import pytest

from nri.agent.koordinator import batch_resource, cpuset, group_identity, names, pod_annotations, resctrl


def test_a_status_has_the_cpus() -> None:
    assert cpuset.own_cpuset({cpuset.ANNOTATION_STATUS: '{"cpuset":"2-4"}'}) == "2-4"
    assert cpuset.own_cpuset({}) == ""


@pytest.mark.parametrize("identity", [-2, 3])
def test_an_identity_out_of_range_is_refused(identity: int) -> None:
    with pytest.raises(ValueError, match="between -1 and 2"):
        group_identity.cpu_qos({group_identity.ANNOTATION_CPU_QOS: f'{{"enable":true,"groupIdentity":{identity}}}'})


def test_a_spec_without_containers_is_none_and_one_with_no_entries_is_empty() -> None:
    assert batch_resource.extended_resources({batch_resource.ANNOTATION_EXTENDED: "{}"}) is None
    assert batch_resource.extended_resources({batch_resource.ANNOTATION_EXTENDED: '{"containers":{}}'}) == {}


@pytest.mark.parametrize(
    ("key", "read"),
    [
        (cpuset.ANNOTATION_STATUS, cpuset.resource_status),
        (group_identity.ANNOTATION_CPU_QOS, group_identity.cpu_qos),
        (batch_resource.ANNOTATION_EXTENDED, batch_resource.extended_resources),
        (names.ANNOTATION_DEVICES, lambda annotations: pod_annotations.device_allocations(annotations, "gpu")),
        (resctrl.ANNOTATION_RESCTRL, resctrl.shares),
    ],
)
@pytest.mark.parametrize("text", ["", "not-json", "[]", '{"cpuset'])
def test_an_unreadable_annotation_is_an_error_with_its_key(key, read, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"^annotation {key}: "):
        read({key: text})
