"""What can be said and has no effect here; what of it the plugins log is in tests/unit/plugins/placement."""

from nri.policies.placement.unread import unread_annotations, unread_keys
from tests.support.placement import balloons, container, topology_aware


def test_keys_that_are_given_in_vain_are_told_with_the_reason() -> None:
    one = {"name": "near", "preferCloseToDevices": ["podresourceapi:gpu*", "/sys/devices/system/node/node0"]}
    policy = balloons(one, agent={"podResourceAPI": True, "other": False}, control={"rdt": {}}, log={})
    asked = "the kubelet's pod resources are not asked"
    assert dict(unread_keys(policy.options)) == {
        "control": "classes of block I/O and RDT are set by the plugin rdt",
        "agent: podResourceAPI": asked,
        "balloonTypes near: podresourceapi:gpu*": asked,
    }
    assert dict(unread_keys(topology_aware().options)) == {}


def test_annotations_of_the_other_policy_are_told_and_those_that_could_not_be_read() -> None:
    one = container("c", 500, **{"irq_affinity/pod": "{}", "toptierlimit": "1G"})
    one.doubt("memory-type", "x")
    told = list(unread_annotations("balloons", one))
    assert [each.split(": ")[0] for each in told] == [
        "annotation memory-type.resource-policy.nri.io",
        "annotation toptierlimit.resource-policy.nri.io has no effect",
        "annotation irq-affinity.resource-policy.nri.io has no effect",
    ]
    assert len(list(unread_annotations("topology-aware", one))) == 2
    assert list(unread_annotations("balloons", container("c", 500))) == []
