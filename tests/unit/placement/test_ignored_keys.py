"""Keys and annotations without effect are reported."""

from dataclasses import replace

from nri.placement.balloons.policy import Balloons
from nri.placement.ignored_keys import POD_RESOURCES, ignored_annotations, ignored_keys
from nri.placement.topology_aware.policy import TopologyAware
from tests.support.placement import balloons, container, topology_aware

KNOWN = ("prefer-shared-cpus.resource-policy.nri.io", "memory-type.resource-policy.nri.io",
         "resource-policy.nri.io/affinity")  # fmt: skip


def test_keys_without_effect_are_reported_with_the_reason() -> None:
    one = {"name": "near", "preferCloseToDevices": ["podresourceapi:gpu*", "/sys/devices/system/node/node0"]}
    policy = balloons(
        one, agent={"podResourceAPI": True, "other": False}, control={"rdt": {"enable": True}, "blockio": {}}, log={}
    )
    requests = f"it has no effect: {POD_RESOURCES}"
    assert {key.key: key.reason for key in ignored_keys(policy.options, 16)} == {
        "control.rdt": "it has no effect: the plugin rdt sets classes of block I/O and RDT",
        "agent.podResourceAPI": requests,
        "balloonTypes[0].preferCloseToDevices[0]": requests,
    }
    assert list(ignored_keys(topology_aware().options, 16)) == []
    classes = {"control": {"cpu": {"classes": {"turbo": {"minFreq": 1}}}}, "sharedPoolCPUClass": "turbo"}
    assert {complaint.key: complaint.reason for complaint in ignored_keys(topology_aware(**classes).options, 16)} == {
        "control.cpu": "it has no effect: classes of CPUs are read from cpuClasses",
        "sharedPoolCPUClass": "it has no effect: 'turbo' is not in cpuClasses; the CPUs keep their settings",
    }


def test_a_type_with_more_cpus_than_the_machine_is_reported() -> None:
    options = balloons({"name": "big", "minCPUs": 17}, {"name": "all", "minCPUs": 16}).options
    (complaint,) = ignored_keys(options, 16)
    assert complaint.key == "balloonTypes[0].minCPUs"
    assert complaint.reason == "17 exceeds the machine's 16 CPUs: no balloon big can be created"


def test_annotations_of_the_other_policy_and_invalid_ones_are_reported() -> None:
    one = container("c", 500, **{"irq_affinity/pod": "{}", "toptierlimit": "1G"})
    one.doubt("memory-type", "x")
    warnings = list(ignored_annotations(one, KNOWN, Balloons.ignored_annotations))
    assert [row.split(": ")[0] for row in warnings] == [
        "annotation memory-type.resource-policy.nri.io",
        "annotation toptierlimit.resource-policy.nri.io has no effect",
        "annotation irq-affinity.resource-policy.nri.io has no effect",
    ]
    assert len(list(ignored_annotations(one, KNOWN, TopologyAware.ignored_annotations))) == 2
    assert list(ignored_annotations(container("c", 500), KNOWN, Balloons.ignored_annotations)) == []


def test_a_misspelt_annotation_is_reported_with_a_suggestion() -> None:
    message = {
        "prefer-share-cpus.resource-policy.nri.io/container.c": "prefer-shared-cpus.resource-policy.nri.io",
        "resource-policy.nri.io/afinity": "resource-policy.nri.io/affinity",
        "prefer-shared-cpus.resource-policy.nri.io/pod": "",
        "resource-policy.nri.io/affinity": "",
        "cold-start.resource-policy.nri.io": "",
        "example.com/affinity": "",
    }
    one = container("c", 500)
    one.pod = replace(one.pod, annotations=dict.fromkeys(message, "x"))
    assert list(ignored_annotations(one, KNOWN, TopologyAware.ignored_annotations)) == [
        f"annotation {key} is not read; did you mean {close}?" for key, close in message.items() if close
    ]
