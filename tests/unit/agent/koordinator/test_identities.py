"""Group identities of everything that runs."""

from typing import Any

from nri.agent.koordinator import identities, names
from nri.agent.koordinator.node_slo import GroupIdentityRule
from nri.policies.running import RunningPod


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
