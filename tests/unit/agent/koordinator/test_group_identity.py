"""Group identities: which setting applies, and when the kernel is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator import group_identity, names
from nri.agent.koordinator.node import GroupIdentityRule
from nri.agent.model import HookError, HostApplication, KubeQosFolder, Pod
from nri.agent.pods.manifest import listed_pod

RULE = GroupIdentityRule(
    True,
    {"LSE": 2, "LSR": 2, "LS": 2, "BE": -1},
    {"Guaranteed": 0, "Burstable": 2, "BestEffort": -1},
    {"Guaranteed": 1, "Burstable": 2, "BestEffort": -1},
)


def pod(qos: str, cpu_qos: str | None = None, folder: str = "kubepods/podx") -> Pod:
    annotations = {} if cpu_qos is None else {group_identity.ANNOTATION_CPU_QOS: cpu_qos}
    return Pod(labels={names.LABEL_QOS: qos}, annotations=annotations, folder=folder)


@pytest.mark.parametrize(
    ("context", "bvt"),
    [
        (pod("LS"), 2),
        (pod("BE"), -1),
        (pod("SYSTEM", folder="kubepods/podx"), 1),
        (pod("nonsense", folder="kubepods/besteffort/podx"), -1),
        (pod("LS", '{"enable":true,"groupIdentity":-1}'), -1),
        (pod("LS", '{"enable":true}'), 2),
        (pod("LS", '{"enable":false,"groupIdentity":1}'), 0),
        (pod("LS", '{"groupIdentity":1}'), 0),
        (pod("LSR", '{"enable":true,"groupIdentity":-1}'), 2),
        (pod("BE", '{"enable":true,"groupIdentity":2}'), -1),
    ],
)
def test_a_pods_identity_comes_from_its_class_and_only_ls_can_override_it(context: Pod, bvt: int) -> None:
    assert group_identity.pod(context, RULE).changes.knobs.get("cpu.bvt") == bvt


@pytest.mark.parametrize("text", ["not-json", '{"groupIdentity":3}', '{"enable":"yes"}'])
@pytest.mark.parametrize("qos", ["LS", "BE"])
def test_an_unreadable_annotation_is_an_error_for_every_class(qos: str, text: str) -> None:
    with pytest.raises(HookError, match=r"koordinator\.sh/cpuQOS"):
        group_identity.pod(pod(qos, text), RULE)


def test_cgroups_and_programs_have_separate_values() -> None:
    assert group_identity.kube_class(KubeQosFolder("Guaranteed"), RULE).changes.knobs.get("cpu.bvt") == 0
    assert group_identity.host_application(HostApplication("a", "BE"), RULE).changes.knobs.get("cpu.bvt") == -1
    assert group_identity.host_application(HostApplication("a"), RULE).changes.knobs.get("cpu.bvt") == 0


@pytest.mark.parametrize(
    ("enabled", "supported", "sysctl", "works"),
    [
        (True, True, None, True),
        (True, True, False, True),
        (False, True, None, True),
        (False, True, True, True),
        (False, True, False, False),
        (True, False, None, False),
    ],
)
def test_identities_are_written_if_supported_and_enabled_by_rule_or_sysctl(
    enabled: bool, supported: bool, sysctl: bool | None, works: bool
) -> None:
    rule = GroupIdentityRule(enabled)
    assert (group_identity.in_effect(rule, supported, sysctl) is rule) is works


def test_without_a_rule_no_identity_is_written() -> None:
    assert group_identity.in_effect(None, True, None) is None


def fleet_pod(
    name: str, qos: str = "", limits: dict[str, str] | None = None, phase: str = "Running", **more: str
) -> Pod:
    manifest: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "labels": {names.LABEL_QOS: qos}, "annotations": more},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits or {}}}]},
        "status": {
            "phase": phase,
            "qosClass": "Guaranteed",
            "containerStatuses": [{"name": "c", "containerID": f"containerd://{name}"}],
        },
    }
    return listed_pod(manifest, f"kubepods/fleet_pod{name}", f"containerd://{name}-pause")


def test_identities_reach_cgroups_pods_containers_and_unlisted_cgroups() -> None:
    rule = GroupIdentityRule(True, {"LS": 2}, {"BestEffort": -1, "Burstable": 2}, {"Guaranteed": 1})
    root = "kubepods.slice"
    existing = [
        root,
        f"{root}/kubepods-besteffort.slice",
        f"{root}/kubepods-besteffort.slice/dangling",
        f"{root}/kubepods-besteffort.slice/dangling/container",
        f"{root}/listed",
        f"{root}/listed/container",
    ]
    listed = listed_pod(fleet_pod("ls", "LS").manifest, f"/{root}/listed/")
    actual = {write.folder: write.value for write in group_identity.identities(rule, [listed], existing)}
    assert actual == {
        root: "0",
        f"{root}/kubepods-burstable.slice": "2",
        f"{root}/kubepods-besteffort.slice": "-1",
        f"{root}/listed": "2",
        f"{root}/listed/container": "2",
        f"{root}/kubepods-besteffort.slice/dangling": "-1",
        f"{root}/kubepods-besteffort.slice/dangling/container": "-1",
    }
