"""What a changed rule writes again: for whom, and that one bad pod stops no other."""

from typing import Any

import pytest

from nri.policies.koordinator import names
from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.refresh import cpusets, identities, quotas, switches
from nri.policies.koordinator.refresh.running import RunningPod, reconciled_class
from nri.policies.koordinator.rules.node_slo import GroupIdentityRule
from nri.policies.koordinator.rules.node_topology import CpusetRule, SharePool


def pod(
    name: str, qos: str = "", limits: dict[str, str] | None = None, phase: str = "Running", **more: str
) -> RunningPod:
    manifest: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "labels": {names.LABEL_QOS: qos}, "annotations": more},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits or {}}}]},
        "status": {
            "phase": phase,
            "qosClass": "Guaranteed",
            "containerStatuses": [{"name": "c", "containerID": f"containerd://{name}"}],
        },
    }
    return RunningPod(manifest, f"kubepods/pod{name}", f"containerd://{name}-pause")


def written(refresh: Any) -> dict[str, str]:
    return {write.folder: write.value for write in refresh.writes}


def test_quotas_of_batch_pods_are_written_and_nothing_else() -> None:
    batch = pod("b", "BE", {names.BATCH_CPU: "500", names.BATCH_MEMORY: "1Gi"})
    refresh = quotas.batch([batch, pod("l", "LS", {"cpu": "1"})], BatchRule(ratio=2.0))
    assert written(refresh) == {"kubepods/podb": "25000", "kubepods/podb/cri-containerd-b.scope": "25000"}
    assert {write.knob for write in refresh.writes} == {"cpu.cfs_quota"}


def test_quotas_of_pods_that_share_cpus_are_scaled_if_they_run() -> None:
    own = {names.ANNOTATION_STATUS: '{"cpuset":"1"}'}
    pods = [
        pod("ls", "LS", {"cpu": "1"}),
        pod("plain", "", {"cpu": "1"}),
        pod("own", "", {"cpu": "1"}, **own),
        pod("lsr", "LSR", {"cpu": "1"}),
        pod("done", "LS", {"cpu": "1"}, "Succeeded"),
    ]
    assert set(written(quotas.normalized(pods, 2.0))) == {
        "kubepods/podls",
        "kubepods/podls/cri-containerd-ls.scope",
        "kubepods/podplain",
        "kubepods/podplain/cri-containerd-plain.scope",
    }
    assert set(written(quotas.normalized(pods, 2.0)).values()) == {"50000"}
    assert written(quotas.normalized(pods, -1)) == {}


def test_one_bad_pod_keeps_what_it_has_and_the_others_get_their_cpus() -> None:
    bad = {names.ANNOTATION_STATUS: "bad-format"}
    kata = pod("vm", "LS")
    kata.pod["spec"]["runtimeClassName"] = "kata"  # type: ignore[index]
    refresh = cpusets.cpus([pod("bad", "LS", **bad), pod("ls", "LS"), kata], CpusetRule((SharePool(0, 0, "0-3"),)))
    assert written(refresh) == {
        "kubepods/podls/cri-containerd-ls.scope": "0-3",
        "kubepods/podls/cri-containerd-ls-pause.scope": "0-3",
        "kubepods/podvm/cri-containerd-vm-pause.scope": "0-3",
    }
    assert len(refresh.errors) == 2


def test_a_pod_without_a_class_and_with_cpus_counts_as_lsr() -> None:
    assert reconciled_class(pod("a", **{names.ANNOTATION_STATUS: '{"cpuset":"1"}'}).context()) == "LSR"
    assert reconciled_class(pod("a", **{names.ANNOTATION_STATUS: "bad"}).context()) == ""
    assert reconciled_class(pod("a", "BE").context()) == "BE"


def test_identities_reach_folders_pods_their_containers_and_what_nobody_lists() -> None:
    rule = GroupIdentityRule(True, {"LS": 2}, {"BestEffort": -1, "Burstable": 2}, {"Guaranteed": 1})
    root = "kubepods.slice"
    there = [
        root,
        f"{root}/kubepods-besteffort.slice",
        f"{root}/kubepods-besteffort.slice/dangling",
        f"{root}/kubepods-besteffort.slice/dangling/container",
        f"{root}/listed",
        f"{root}/listed/container",
    ]
    listed = RunningPod(pod("ls", "LS").pod, f"/{root}/listed/")
    found = {write.folder: write.value for write in identities.identities(rule, [listed], there)}
    assert found == {
        root: "0",
        f"{root}/kubepods-burstable.slice": "2",
        f"{root}/kubepods-besteffort.slice": "-1",
        f"{root}/listed": "2",
        f"{root}/listed/container": "2",
        f"{root}/kubepods-besteffort.slice/dangling": "-1",
        f"{root}/kubepods-besteffort.slice/dangling/container": "-1",
    }


IDENTITY, CORE = switches.GROUP_IDENTITY, switches.CORE_SCHED


@pytest.mark.parametrize(
    ("identity", "core", "writes"),
    [
        ("0", "1", ((CORE, "0"), (IDENTITY, "1"))),
        ("1", "0", ()),
        ("0", None, ((IDENTITY, "1"),)),
        (None, "1", ()),
    ],
)
def test_group_identity_switches_core_scheduling_off_first(
    identity: str | None, core: str | None, writes: tuple[tuple[str, str], ...]
) -> None:
    plan = switches.for_group_identity(identity, core, identity_known=identity is not None, core_known=core is not None)
    assert plan == (writes, "")


def test_core_scheduling_switches_group_identity_off_first_and_needs_a_kernel_that_has_it() -> None:
    plan = switches.for_core_sched("1", "0\n", None, identity_known=True)
    assert plan.writes == ((IDENTITY, "0"), (CORE, "1"))
    assert switches.for_core_sched(None, None, "A NO_CORE_SCHED", identity_known=False).writes == (
        (switches.FEATURES, "CORE_SCHED\n"),
    )
    assert switches.for_core_sched(None, None, "A B", identity_known=False).error
    assert not switches.for_core_sched(None, None, None, identity_known=False, built_in=True).error


def test_a_switch_that_cannot_be_read_is_an_error_after_the_other_is_off() -> None:
    plan = switches.for_group_identity(None, "1", identity_known=True, core_known=True)
    assert plan.writes == ((CORE, "0"),)
    assert IDENTITY in plan.error
    assert switches.for_core_sched("x", "1", None, identity_known=True).error
