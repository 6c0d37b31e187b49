"""Pods of the API as running pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator.node import Node
from nri.agent.pods.manifest import listed_pod
from nri.agent.pods.running import running
from tests.support.standalone_world import World


def pod(uid: str = "u1", phase: str = "Running", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, **more},
        "spec": {"containers": [{"name": "c"}]},
        "status": {
            "phase": phase,
            "qosClass": "Burstable",
            "containerStatuses": [{"name": "c", "containerID": f"containerd://{uid}c"}],
        },
    }


@pytest.mark.parametrize("driver", [paths.CGROUPFS, paths.SYSTEMD])
def test_a_pod_has_the_folder_of_the_kubelets_driver_and_its_pause_container(driver: str, tmp_path: Path) -> None:
    world = World(tmp_path, Node(), driver=driver)
    folder = world.pod(pod(), sandbox="pause")
    (listed_pod,) = running([pod()], world.parts.executor.hierarchies, driver)
    assert (listed_pod.folder, listed_pod.sandbox.id) == (folder, "containerd://pause")
    assert world.parts.executor.hierarchies.exists(listed_pod.sandbox.folder)
    assert world.parts.executor.hierarchies.exists(listed_pod.main_containers[0].folder)
    assert listed_pod.key == "ns/u1"


def test_the_pause_container_of_cri_o_without_systemd_has_its_prefix(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    crio = pod()
    crio["status"]["containerStatuses"][0]["containerID"] = "cri-o://c1"
    folder = world.pod(crio)
    world.cgroup(f"{folder}/crio-pause")
    (listed_pod,) = running([crio], world.parts.executor.hierarchies, paths.CGROUPFS)
    assert listed_pod.sandbox.id == "cri-o://pause"
    assert listed_pod.main_containers[0].folder == f"{folder}/crio-c1"


def test_the_pause_container_is_unknown_until_all_containers_are_known(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    folder = world.pod(pod(), sandbox="pause")
    early = pod()
    early["status"]["containerStatuses"].append({"name": "d", "containerID": ""})
    hierarchies = world.parts.executor.hierarchies
    assert [entry.sandbox.id for entry in running([early], hierarchies, paths.CGROUPFS)] == [""]
    world.cgroup(f"{folder}/new")
    assert [entry.sandbox.id for entry in running([pod()], hierarchies, paths.CGROUPFS)] == [""]


def test_ended_and_invalid_pods_are_left_out(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    bad: list[dict[str, Any]] = [{}, {"metadata": {"uid": 5}, "status": {"phase": "Running"}}, {"metadata": "text"}]
    listed = [pod("done", "Succeeded"), pod("failed", "Failed"), pod("soon", "Pending"), *bad]
    listed_pod = running(listed, world.parts.executor.hierarchies, paths.CGROUPFS)
    assert [entry.uid for entry in listed_pod] == ["soon"]


def mirror(uid: str, hashed: str) -> dict[str, Any]:
    return pod(uid, annotations={"kubernetes.io/config.mirror": hashed, "kubernetes.io/config.hash": hashed})


def test_a_static_pod_has_the_folder_of_its_hash_unless_another_pod_uses_the_hash(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    one, two = "a" * 32, "b" * 32

    def folders(*pods: dict[str, Any]) -> list[str]:
        return [entry.folder for entry in running(pods, world.parts.executor.hierarchies, paths.CGROUPFS)]

    assert folders(mirror("m", one)) == [f"kubepods/burstable/pod{one}"]
    assert folders(mirror("m", one), mirror("n", one)) == ["kubepods/burstable/podm", "kubepods/burstable/podn"]
    assert folders(mirror("m", two), pod(two)) == ["kubepods/burstable/podm", f"kubepods/burstable/pod{two}"]
    assert folders(mirror("m", "../../escape")) == ["kubepods/burstable/podm"]


def test_a_folder_from_the_source_replaces_the_computed_one(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    hierarchies = world.parts.executor.hierarchies
    slices = {**pod(), "cgroupParent": "kubepods-burstable-podu1.slice"}
    (listed_pod,) = running([slices], hierarchies, paths.CGROUPFS)
    complete = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu1.slice"
    assert (listed_pod.folder, listed_pod.driver) == (complete, paths.SYSTEMD)
    assert listed_pod.main_containers[0].folder == f"{complete}/cri-containerd-u1c.scope"
    (listed_pod,) = running([{**pod(), "cgroupParent": "/mine/kubepods/podu1/"}], hierarchies, paths.SYSTEMD)
    assert (listed_pod.folder, listed_pod.driver) == ("mine/kubepods/podu1", paths.CGROUPFS)
    (listed_pod,) = running([{**pod(), "cgroups": {"c": "mine/crio-u1c"}}], hierarchies, paths.CGROUPFS)
    assert listed_pod.main_containers[0].folder == "mine/crio-u1c"
    (listed_pod,) = running([{**pod(), "cgroupParent": "-.slice"}], hierarchies, paths.CGROUPFS)
    assert listed_pod.folder == "kubepods/burstable/podu1"


def test_an_invalid_pod_is_reported_and_does_not_affect_others(tmp_path: Path) -> None:
    manifest = pod("many")
    del manifest["status"]["qosClass"]
    manifest["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"cpu": "many"}}}]
    odd = pod("odd", labels={"a": 5}, annotations={"b": [], "c": "text"})
    statuses = pod("statuses")
    statuses["status"]["containerStatuses"] = "text"
    hierarchies = World(tmp_path, Node()).parts.executor.hierarchies
    collected: list[str] = []
    listed_pod = running(
        [manifest, odd, statuses, pod()], hierarchies, paths.CGROUPFS, lambda key, error: collected.append(key)
    )
    listed = {entry.uid: entry for entry in listed_pod}
    assert (list(listed), collected) == (["odd", "u1"], ["ns/many", "ns/statuses"])
    context = listed["odd"]
    assert (context.labels, context.annotations, context.uid) == ({}, {"c": "text"}, "odd")


def test_a_folder_of_another_runtime_is_not_a_pause_container(tmp_path: Path) -> None:
    world = World(tmp_path, Node(), driver=paths.SYSTEMD)
    folder = world.pod(pod())
    world.cgroup(f"{folder}/crio-other.scope")
    hierarchies = world.parts.executor.hierarchies
    assert [entry.sandbox.id for entry in running([pod()], hierarchies, paths.SYSTEMD)] == [""]
    foreign = pod()
    foreign["status"]["containerStatuses"][0]["containerID"] = "unknown://u1c"
    assert [entry.sandbox.id for entry in running([foreign], hierarchies, paths.SYSTEMD)] == [""]


def test_a_folder_outside_of_the_hierarchy_has_no_containers(tmp_path: Path) -> None:
    hierarchies = World(tmp_path, Node()).parts.executor.hierarchies
    (listed_pod,) = running([{**pod(), "cgroupParent": "/../../etc"}], hierarchies, paths.CGROUPFS)
    assert listed_pod.sandbox.id == ""


def test_a_pod_of_an_unknown_qos_class_is_reported_and_has_no_folder(tmp_path: Path) -> None:
    odd = pod()
    odd["status"]["qosClass"] = "Best"
    hierarchies = World(tmp_path, Node()).parts.executor.hierarchies
    collected: list[str] = []
    assert list(running([odd], hierarchies, paths.SYSTEMD, lambda _, error: collected.append(str(error)))) == []
    assert collected == ["'Best' is not a Kubernetes QoS class"]


@pytest.mark.parametrize(
    "meta",
    [
        {"uid": "x/../../../system.slice"},
        {"uid": ".."},
        {"uid": "u\n"},
        {"uid": "u\ud800"},
        {"uid": "u" * 300},
        {"name": "a\ud800"},
        {"namespace": "a\nb"},
    ],
)
@pytest.mark.parametrize("driver", [paths.CGROUPFS, paths.SYSTEMD])
def test_a_pod_with_invalid_names_is_left_out_and_reported(meta: dict[str, str], driver: str, tmp_path: Path) -> None:
    """Such a uid led to the folder of another service; a name with invalid UTF-8 broke the network of all pods."""
    world, collected = World(tmp_path, Node(), driver=driver), list[str]()
    liar = {**pod("u2"), "metadata": {**pod("u2")["metadata"], **meta}}
    listed_pod = running(
        [liar, pod()], world.parts.executor.hierarchies, driver, lambda _key, error: collected.append(str(error))
    )
    assert [entry.uid for entry in listed_pod] == ["u1"]
    assert len(collected) == 1 and collected[0].isprintable() and len(collected[0]) < 200


@pytest.mark.parametrize("number", ["../../../../system.slice/ssh", "a/b", "..", "."])
@pytest.mark.parametrize("driver", [paths.CGROUPFS, paths.SYSTEMD])
def test_a_container_with_an_id_outside_of_its_pod_has_no_folder(number: str, driver: str, tmp_path: Path) -> None:
    world, liar = World(tmp_path, Node(), driver=driver), pod()
    liar["status"]["containerStatuses"][0]["containerID"] = f"containerd://{number}"
    (listed_pod,) = running([liar], world.parts.executor.hierarchies, driver)
    assert listed_pod.main_containers[0].folder == ""


def test_containers_are_below_their_pods_folder_and_refer_to_the_pod() -> None:
    manifest = pod("u")
    manifest["spec"]["initContainers"] = [{"name": "i"}]
    manifest["status"]["initContainerStatuses"] = [{"name": "i", "containerID": "containerd://2"}]
    listed = listed_pod(manifest, "kubepods/podu", "containerd://p", "cgroupfs")
    (main,) = listed.main_containers
    assert (main.name, main.folder, main.pod) == ("c", "kubepods/podu/uc", listed)
    assert listed.containers == (main,)
    assert [c.folder for c in listed.init_containers] == ["kubepods/podu/2"]
    assert listed.sandbox is not None
    assert (listed.sandbox.sandbox, listed.sandbox.folder) == (True, "kubepods/podu/p")


def test_a_pod_with_unreadable_resources_keeps_its_names() -> None:
    manifest = pod("u", labels={"a": "b"})
    manifest["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"cpu": "many"}}}]
    listed = listed_pod(manifest, "kubepods/podu")
    assert (listed.uid, listed.labels, listed.kube_class, listed.containers) == ("u", {"a": "b"}, "Burstable", ())
    assert isinstance(listed.problem, ValueError)
