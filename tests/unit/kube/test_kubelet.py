"""The kubelet's arithmetic on a pod."""

from fractions import Fraction

import pytest

from nri.api import messages as m
from nri.kube import kubelet

FULL = {"requests.cpu": 1, "limits.cpu": 1, "requests.memory": 2, "limits.memory": 2}


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([{}], "BestEffort"),
        ([{"requests.cpu": 0}], "BestEffort"),
        ([{"requests.ephemeral-storage": 1}], "BestEffort"),
        ([{"requests.cpu": 1}], "Burstable"),
        ([FULL], "Guaranteed"),
        ([FULL, {}], "Burstable"),
        ([{**FULL, "limits.cpu": 2}], "Burstable"),
    ],
)
def test_the_class_of_service_follows_the_kubelets_rule(containers, qos):
    assert kubelet.qos_class(containers) == qos


def test_a_pods_cgroup_tells_its_class():
    assert kubelet.cgroup_parent("Guaranteed", "u") == "/kubepods/podu"
    assert kubelet.cgroup_parent("Burstable", "u") == "/kubepods/burstable/podu"
    assert kubelet.cgroup_parent("BestEffort", "u") == "/kubepods/besteffort/podu"


def test_the_same_names_give_the_same_ids_and_others_give_others():
    assert kubelet.make_id("a", "b") == kubelet.make_id("a", "b") != kubelet.make_id("a", "c")
    assert len(kubelet.make_id("a")) == 64
    assert [len(part) for part in kubelet.make_uid("n", "p").split("-")] == [8, 4, 4, 4, 12]


def test_a_container_without_requests_gets_the_kernels_smallest_weight_and_no_limit():
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, {}, "BestEffort")
    cpu = linux.resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.period.value) == (2, 0, 100_000)
    assert (linux.resources.memory.limit.value, linux.oom_score_adj.value) == (0, 1000)


def test_huge_pages_are_named_as_the_runtime_names_them():
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, {"limits.hugepages-1Gi": Fraction(1 << 30)}, "Burstable")
    assert [(one.page_size, one.limit) for one in linux.resources.hugepage_limits] == [("1GB", 1 << 30)]


def test_a_volume_lies_in_a_folder_of_its_kind():
    wanted = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~config-map/v"
    assert kubelet.volume_folder("u", "configMap", "v") == wanted


@pytest.mark.parametrize(
    ("memory", "score"), [(0, 999), (1 << 20, 999), (1 << 28, 750), ((1 << 30) - 1, 3), (1 << 33, 3)]
)
def test_the_oom_score_of_a_burstable_container_says_its_part_of_the_nodes_memory(memory, score):
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, {"requests.memory": Fraction(memory)}, "Burstable", node_bytes=1 << 30)
    assert linux.oom_score_adj.value == score
