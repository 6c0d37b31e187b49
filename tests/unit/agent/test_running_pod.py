"""A running pod: contexts of its containers."""

from __future__ import annotations

from typing import Any

from nri.agent.pods.manifest import RunningPod

POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
    "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
    "status": {
        "containerStatuses": [{"name": "c", "containerID": "containerd://1"}],
        "initContainerStatuses": [{"name": "i", "containerID": "containerd://2"}],
    },
}


def test_its_containers_are_below_its_folder_and_know_it() -> None:
    pod = RunningPod(POD, "kubepods/podu", "containerd://p", "cgroupfs")
    (main,) = pod.main_containers()
    assert (main.name, main.cgroup_parent, main.pod) == ("c", "kubepods/podu/1", pod.context())
    assert pod.container("i").cgroup_parent == "kubepods/podu/2"
    assert (pod.sandbox().sandbox, pod.sandbox().cgroup_parent) == (True, "kubepods/podu/p")
