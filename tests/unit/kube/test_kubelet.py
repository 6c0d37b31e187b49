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
def test_the_class_of_service_follows_the_kubelets_rule(containers, qos):
    assert kubelet.qos_class(pod(*containers)) == qos


@pytest.mark.parametrize(
    ("pod_resources", "qos"),
    [(FULL, "Guaranteed"), ({"requests.cpu": 1}, "Burstable"), ({}, "BestEffort"), (None, "Burstable")],
)
def test_resources_of_the_pod_itself_decide_its_class_alone(pod_resources, qos):
    assert kubelet.qos_class(pod({"requests.cpu": 1}, pod=pod_resources)) == qos


def test_a_pods_cgroup_tells_its_class():
    assert kubelet.cgroup_parent("Guaranteed", "u") == "/kubepods/podu"
    assert kubelet.cgroup_parent("Burstable", "u") == "/kubepods/burstable/podu"
    assert kubelet.cgroup_parent("BestEffort", "u") == "/kubepods/besteffort/podu"


def test_the_same_names_give_the_same_ids_and_others_give_others():
    assert kubelet.make_id("a", "b") == kubelet.make_id("a", "b") != kubelet.make_id("a", "c")
    assert len(kubelet.make_id("a")) == 64
    assert [len(part) for part in kubelet.make_uid("n", "p").split("-")] == [8, 4, 4, 4, 12]


def test_a_container_without_requests_gets_the_smallest_weight():
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, kubelet.Share({}, 1000))
    cpu = linux.resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.period.value) == (2, 0, 100_000)
    assert (linux.resources.memory.limit.value, linux.oom_score_adj.value) == (0, 1000)


def test_huge_pages_are_named_as_the_runtime_names_them():
    linux = m.LinuxContainer()
    kubelet.set_resources(linux, kubelet.Share({"limits.hugepages-1Gi": Fraction(1 << 30)}, 999))
    assert [(one.page_size, one.limit) for one in linux.resources.hugepage_limits] == [("1GB", 1 << 30)]


def test_a_volume_lies_in_a_folder_of_its_kind():
    path = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~config-map/v"
    assert kubelet.volume_folder("u", "configMap", "v") == path


@pytest.mark.parametrize(
    ("memory", "score"), [(0, 999), (1 << 20, 999), (1 << 28, 750), ((1 << 30) - 1, 3), (1 << 33, 3)]
)
def test_the_oom_score_of_a_burstable_container_depends_on_node_memory(memory, score):
    (share,) = kubelet.shares(pod({"requests.cpu": 1, "requests.memory": Fraction(memory)}), node_bytes=1 << 30)
    assert share.oom_score == score


def test_memory_requested_beyond_the_containers_counts_for_each():
    pod_resources = {"requests.memory": Fraction(1 << 29)}
    shares = kubelet.shares(pod({"requests.memory": Fraction(1 << 28)}, {}, pod=pod_resources), node_bytes=1 << 30)
    assert [share.oom_score for share in shares] == [1000 - 375, 1000 - 125]


def test_a_sidecar_has_no_higher_oom_score_than_the_containers():
    sidecar = kubelet.ContainerResources({}, initial=True, sidecar=True)
    container = kubelet.ContainerResources({"requests.memory": Fraction(1 << 28)})
    shares = kubelet.shares(kubelet.PodResources([sidecar, container]), node_bytes=1 << 30)
    assert [share.oom_score for share in shares] == [750, 750]


def test_a_node_critical_pod_has_the_score_of_a_guaranteed_one():
    assert [share.oom_score for share in kubelet.shares(pod({}, node_critical=True))] == [-997]


def test_a_limit_of_the_pod_itself_holds_for_a_container_without_one():
    pod_resources = {"limits.cpu": Fraction(2), "requests.cpu": Fraction(2)}
    shares = kubelet.shares(pod({}, {"limits.cpu": Fraction(1)}, pod=pod_resources))
    assert [share.quantities["limits.cpu"] for share in shares] == [2, 1]
