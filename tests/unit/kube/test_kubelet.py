"""The kubelet's arithmetic on a pod."""

from fractions import Fraction

import pytest

from nri.api import messages as m
from nri.kube import kubelet

FULL = {"requests.cpu": 1, "limits.cpu": 1, "requests.memory": 2, "limits.memory": 2}


def pod(*containers, **more):
    return kubelet.PodResources([kubelet.ContainerResources(container) for container in containers], **more)


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
def test_the_qos_class_follows_the_kubelets_rule(containers, qos):
    assert kubelet.qos_class(pod(*containers)) == qos


@pytest.mark.parametrize(
    ("pod_resources", "qos"),
    [(FULL, "Guaranteed"), ({"requests.cpu": 1}, "Burstable"), ({}, "BestEffort"), (None, "Burstable")],
)
def test_pod_level_resources_alone_decide_the_qos_class(pod_resources, qos):
    assert kubelet.qos_class(pod({"requests.cpu": 1}, pod=pod_resources)) == qos


def test_a_pods_cgroup_shows_its_qos_class():
    assert kubelet.cgroup_parent("Guaranteed", "u") == "/kubepods/podu"
    assert kubelet.cgroup_parent("Burstable", "u") == "/kubepods/burstable/podu"
    assert kubelet.cgroup_parent("BestEffort", "u") == "/kubepods/besteffort/podu"


def test_equal_names_give_equal_ids():
    assert kubelet.make_id("a", "b") == kubelet.make_id("a", "b") != kubelet.make_id("a", "c")
    assert len(kubelet.make_id("a")) == 64
    assert [len(part) for part in kubelet.make_uid("n", "p").split("-")] == [8, 4, 4, 4, 12]


def test_a_container_without_requests_gets_the_smallest_weight():
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, kubelet.Share({}, 1000))
    cpu = linux.resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.period.value) == (2, 0, 100_000)
    assert (linux.resources.memory.limit.value, linux.oom_score_adj.value) == (0, 1000)


def test_huge_pages_have_the_runtimes_names():
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, kubelet.Share({"limits.hugepages-1Gi": Fraction(1 << 30)}, 999))
    assert [(one.page_size, one.limit) for one in linux.resources.hugepage_limits] == [("1GB", 1 << 30)]


def test_a_volume_is_in_a_folder_of_its_kind():
    path = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~config-map/v"
    assert kubelet.volume_folder("u", "configMap", "v") == path


@pytest.mark.parametrize(
    ("memory", "score"), [(0, 999), (1 << 20, 999), (1 << 28, 750), ((1 << 30) - 1, 3), (1 << 33, 3)]
)
def test_the_oom_score_of_a_burstable_container_depends_on_node_memory(memory, score):
    (share,) = kubelet.shares(pod({"requests.cpu": 1, "requests.memory": Fraction(memory)}), node_bytes=1 << 30)
    assert share.oom_score == score


def test_additional_memory_of_the_pod_counts_for_each_container():
    pod_resources = {"requests.memory": Fraction(1 << 29)}
    shares = kubelet.shares(pod({"requests.memory": Fraction(1 << 28)}, {}, pod=pod_resources), node_bytes=1 << 30)
    assert [share.oom_score for share in shares] == [1000 - 375, 1000 - 125]


def test_a_sidecar_has_no_higher_oom_score_than_the_containers():
    sidecar = kubelet.ContainerResources({}, initial=True, sidecar=True)
    container = kubelet.ContainerResources({"requests.memory": Fraction(1 << 28)})
    shares = kubelet.shares(kubelet.PodResources([sidecar, container]), node_bytes=1 << 30)
    assert [share.oom_score for share in shares] == [750, 750]


def test_a_node_critical_pod_has_the_score_of_a_guaranteed_pod():
    assert [share.oom_score for share in kubelet.shares(pod({}, node_critical=True))] == [-997]


def test_a_limit_of_the_pod_applies_to_containers_without_a_limit():
    pod_resources = {"limits.cpu": Fraction(2), "requests.cpu": Fraction(2)}
    shares = kubelet.shares(pod({}, {"limits.cpu": Fraction(1)}, pod=pod_resources))
    assert [share.quantities["limits.cpu"] for share in shares] == [2, 1]
