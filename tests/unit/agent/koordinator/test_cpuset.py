"""CPU sets: the order of decisions, each step without the earlier ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.agent.koordinator import cpuset, names
from nri.agent.koordinator.node import CpusetRule, SharePool
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Container, HookError, HostApplication, Pod

RULE = CpusetRule(
    (SharePool(0, 0, "1-3"), SharePool(0, 1, "5-7")), (SharePool(0, 0, "0-3"), SharePool(0, 1, "4-7")), "none", "0"
)
BEST_EFFORT = "kubepods/besteffort/podx/c"


def container(qos: str, status: object = None, folder: str = "kubepods/podx/c") -> Container:
    annotations = {} if status is None else {cpuset.ANNOTATION_STATUS: json.dumps(status)}
    return Container(Pod(labels={names.LABEL_QOS: qos}, annotations=annotations), folder=folder)


def zones(*source: tuple[int, str]) -> dict[str, object]:
    return {"numaNodeResources": [{"node": node, "resources": {name: "2"}} for node, name in source]}


@pytest.mark.parametrize(
    ("context", "cpus"),
    [
        (container("LSR", {"cpuset": "2-4"}), "2-4"),
        (container("BE", {"cpuset": "2-4"}, BEST_EFFORT), "2-4"),
        (container("LS", zones((1, "cpu"))), "5-7"),
        (container("LS", zones((1, "cpu"), (0, "cpu"))), "5-7,1-3"),
        (container("LS", zones((9, "cpu"))), ""),
        (container("LS", zones((1, "hugepages-1Gi"))), "1-3,5-7"),
        (container("SYSTEM", zones((1, "hugepages-1Gi"))), "0"),
        (container("SYSTEM"), "0"),
        (container("LS"), "1-3,5-7"),
        (container("BE", None, BEST_EFFORT), ""),
        (container("BE", zones((1, "kubernetes.io/batch-cpu")), BEST_EFFORT), ""),
        (container("", None, BEST_EFFORT), ""),
        (container(""), "1-3,5-7"),
        (container("LSE"), "1-3,5-7"),
    ],
)
def test_the_first_matching_rule_gives_the_cpus(context: Container, cpus: str) -> None:
    assert cpuset.container_cpus(context, RULE).changes.knobs.get("cpuset.cpus") == cpus


@pytest.mark.parametrize(
    ("context", "original"),
    [
        (container("LS", None, BEST_EFFORT), "1-3,5-7"),
        (container("SYSTEM", None, BEST_EFFORT), "0"),
        (container("", zones((1, "kubernetes.io/batch-cpu")), BEST_EFFORT), "5-7"),
    ],
)
def test_best_effort_cpus_left_to_their_loop_are_cleared_in_containers(context: Container, original: str) -> None:
    assert cpuset.container_cpus(context, RULE).changes.knobs.get("cpuset.cpus") == ""
    assert cpuset.container(context, RULE, Quirks.REFERENCE).changes.knobs.get("cpuset.cpus") == original


def test_batch_pods_have_separate_pools_if_the_gate_is_on() -> None:
    context = container("BE", zones((1, "kubernetes.io/batch-cpu")), BEST_EFFORT)
    assert cpuset.container_cpus(context, RULE, batch_pools=True).changes.knobs.get("cpuset.cpus") == "4-7"


def test_the_kubelets_static_policy_is_respected_except_for_ls() -> None:
    static = RULE._replace(kubelet_policy="static")
    assert cpuset.container_cpus(container(""), static).changes.knobs.get("cpuset.cpus") is None
    assert cpuset.container_cpus(container("LS"), static).changes.knobs.get("cpuset.cpus") == "1-3,5-7"


def test_without_a_topology_only_the_scheduler_assigns_cpus() -> None:
    assert cpuset.container_cpus(container("LS"), None).changes.knobs.get("cpuset.cpus") is None
    assert cpuset.container_cpus(container("LS", {"cpuset": "1"}), None).changes.knobs.get("cpuset.cpus") == "1"


@pytest.mark.parametrize("text", ["bad-format", '{"cpuset": 5}', '{"numaNodeResources": {}}'])
def test_an_unreadable_status_is_an_error_for_cpus_and_quota(text: str) -> None:
    pod = Pod(annotations={cpuset.ANNOTATION_STATUS: text})
    for decide in (
        lambda: cpuset.container(Container(pod), RULE),
        lambda: cpuset.pod_quota(pod),
        lambda: cpuset.container_quota(Container(pod)),
    ):
        with pytest.raises(HookError, match="resource-status"):
            decide()


def test_assigned_cpus_remove_the_quota_unless_it_must_be_kept() -> None:
    own_part = container("LSR", {"cpuset": "0-3"})
    assert cpuset.container(own_part, RULE).changes.knobs.get("cpu.cfs_quota") == -1
    assert cpuset.container(own_part, RULE, keep_quota=True).changes.knobs.get("cpu.cfs_quota") is None
    assert cpuset.pod_quota(own_part.pod).changes.knobs.get("cpu.cfs_quota") == -1
    assert cpuset.pod_quota(own_part.pod, keep_quota=True).changes.knobs.get("cpu.cfs_quota") is None
    assert cpuset.container(container("LS", zones((0, "cpu"))), RULE).changes.knobs.get("cpu.cfs_quota") is None


def test_host_programs_have_cpus_if_their_class_is_ls() -> None:
    assert cpuset.host_application(HostApplication("a", "LS"), RULE).changes.knobs.get("cpuset.cpus") == "1-3,5-7"
    assert cpuset.host_application(HostApplication("a", "BE"), None).changes.knobs.get("cpuset.cpus") is None
    with pytest.raises(HookError, match=r"host application a: only class LS"):
        cpuset.host_application(HostApplication("a", "BE"), RULE)


def test_without_a_container_class_the_class_of_the_pods_cgroup_is_used() -> None:
    pod = Pod(folder="kubepods/besteffort/podu")
    assert cpuset.container(Container(pod), RULE).changes.knobs.get("cpuset.cpus") == ""


def topology(**annotations: str) -> dict[str, Any]:
    keys = {"shared": cpuset.ANNOTATION_SHARE_POOLS, "batch": cpuset.ANNOTATION_BE_SHARE_POOLS}
    keys |= {"system": cpuset.ANNOTATION_SYSTEM_QOS, "kubelet": cpuset.ANNOTATION_CPU_MANAGER}
    return {"metadata": {"annotations": {keys[key]: text for key, text in annotations.items()}}}


def test_a_topology_has_pools_policy_and_system_cpus() -> None:
    rule = cpuset.rule_of(
        topology(
            shared='[{"socket":0,"node":0,"cpuset":"0-7"},{"socket":1,"node":1,"cpuset":"8-15"}]',
            kubelet='{"policy":"static","options":{"a":"b"}}',
            system='{"cpuset":"16-17","cpusetExclusive":false}',
        )
    )
    assert (rule.shared(), rule.kubelet_policy, rule.system_cpus) == ("0-7,8-15", "static", "16-17")
    assert cpuset.rule_of({"metadata": {}}) == CpusetRule()


def test_the_original_accepts_a_share_pool_with_unreadable_cpus() -> None:
    """`bad_share_pool_refused`."""
    bad = topology(shared='[{"cpuset":"a"}]')
    assert cpuset.rule_of(bad, Quirks.REFERENCE).shared() == "a"


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ('{"reservedCPUs":"0-1,8","resources":{"cpu":"9"}}', 3000),
        ('{"resources":{"cpu":"1500m","memory":"1Gi"}}', 1500),
        ('{"resources":{"memory":"1Gi"}}', 0),
        ("{}", 0),
        ('{"reservedCPUs":"a"}', 0),
        ("[", 0),
        (None, 0),
    ],
    ids=["CPUs before resources", "resources", "no CPU", "nothing", "no CPUs", "no JSON", "no annotation"],
)
def test_a_node_reserves_the_cpus_of_its_annotation_and_none_if_unreadable(text: str | None, milli: int) -> None:
    assert cpuset.reserved_milli({} if text is None else {cpuset.ANNOTATION_RESERVATION: text}) == milli
