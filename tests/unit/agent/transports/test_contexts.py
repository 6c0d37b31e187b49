"""Contexts with the actual cgroup folders, under both drivers."""

from __future__ import annotations

import pytest

from nri.agent.model import Resources
from nri.agent.transports import contexts
from nri.api import messages as m

SLICE = "kubepods-burstable-pod1_2.slice"
BELOW = f"kubepods.slice/kubepods-burstable.slice/{SLICE}"


@pytest.mark.parametrize(
    ("parent", "folder"),
    [
        ("/kubepods/burstable/pod1-2", "kubepods/burstable/pod1-2"),
        (SLICE, BELOW),
        (f"/{BELOW}", BELOW),
        ("", ""),
    ],
)
def test_the_folder_of_a_pod_is_derived_from_its_cgroup_parent(parent: str, folder: str) -> None:
    pod = m.PodSandbox(uid="1-2")
    pod.linux.cgroup_parent = parent
    assert contexts.pod_context(pod).folder == folder


@pytest.mark.parametrize(
    ("parent", "message", "folder"),
    [
        ("/kubepods/pod1", "/kubepods/pod1/ID", "kubepods/pod1/ID"),
        ("/kubepods/pod1", "", "kubepods/pod1/ID"),
        ("/kubepods/pod1", "/kubepods/pod1/crio-ID", "kubepods/pod1/crio-ID"),
        (SLICE, f"{SLICE}:cri-containerd:ID", f"{BELOW}/cri-containerd-ID.scope"),
        (SLICE, "", f"{BELOW}/cri-containerd-ID.scope"),
    ],
)
def test_the_folder_of_a_container_comes_from_the_runtime_or_is_computed(
    parent: str, message: str, folder: str
) -> None:
    pod, container = m.PodSandbox(uid="1"), m.Container(id="ID", name="main")
    pod.linux.cgroup_parent = parent
    container.linux.cgroups_path = message
    context = contexts.container_context(pod, container, "containerd")
    assert (context.folder, context.id) == (folder, "containerd://ID")
    assert context.pod == contexts.pod_context(pod)


def test_an_update_is_decided_by_the_requested_resources() -> None:
    pod, container = m.PodSandbox(uid="1"), m.Container(id="ID", name="main", env=["A=b"])
    container.linux.resources.cpu.quota.value = 5
    wish = m.LinuxResources()
    wish.cpu.shares.value = 7
    context = contexts.requested(pod, container, wish, "containerd")
    assert context.resources == Resources(cpu_shares=7)
    assert context.env == {"A": "b"}
    assert contexts.requested(pod, container, m.LinuxResources(), "containerd").resources == Resources()


def test_a_containers_actual_folder_replaces_the_expected_one() -> None:
    pod = m.PodSandbox(linux=m.LinuxPodSandbox(cgroup_parent="/kubepods/podu"))
    before = contexts.container_context(pod, m.Container(id="x"), "nri-proxy")
    assert before.folder == ""
    assert contexts.with_current_folder(before, pod, m.Container(id="x"), "nri-proxy") is before
    container = m.Container(id="x", linux=m.LinuxContainer(cgroups_path="/kubepods/podu/real"))
    assert contexts.with_current_folder(before, pod, container, "nri-proxy").folder == "kubepods/podu/real"
