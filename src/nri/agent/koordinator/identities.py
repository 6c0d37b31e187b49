"""Group identities of everything that runs when NodeSLO has changed, in the order in which the kernel wants them.

First the kube-QoS folders, then each pod with the containers below it (identities are inherited, but a container that
was given one keeps it), then folders of pods that are listed no more. Next:
`nri.agent.koordinator.decisions`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.agent.koordinator.names import qos_class
from nri.agent.koordinator.node_slo import GroupIdentityRule
from nri.policies import manifest, paths
from nri.policies.paths import KUBE_CLASSES
from nri.policies.running import RunningPod
from nri.policies.writes import BVT, Write

__all__ = ["folders", "identities"]


def folders(rule: GroupIdentityRule, driver: str = paths.SYSTEMD) -> list[Write]:
    """Return the identities of the kube-QoS folders."""
    return [
        Write(paths.kube_class_path(each, driver), BVT, str(rule.folders.get(each, 0)), f"NodeSLO, {each} folder")
        for each in KUBE_CLASSES
    ]


def identities(
    rule: GroupIdentityRule, pods: Iterable[RunningPod], existing: Iterable[str], driver: str = paths.SYSTEMD
) -> list[Write]:
    """Return all identities.

    Args:
        rule: what NodeSLO says.
        pods: the pods that are listed.
        existing: every folder of a cgroup that has the knob.
        driver: the kubelet's driver.
    """
    there = sorted({folder.strip("/") for folder in existing})
    writes = folders(rule, driver)
    classes = {paths.kube_class_path(each, driver): rule.folders.get(each, 0) for each in KUBE_CLASSES}
    dangling = {
        child: value for parent, value in classes.items() for child in _children(parent, there) if child not in classes
    }
    for pod in pods:
        labels = (pod.pod.get("metadata") or {}).get("labels") or {}
        value = rule.of_pod(qos_class(labels), manifest.kube_class(pod.pod))
        folder = pod.folder.strip("/")
        dangling.pop(folder, None)
        writes += _with_containers(folder, value, there, "NodeSLO, for the pod's class")
    for folder, value in dangling.items():
        writes += _with_containers(folder, value, there, "NodeSLO, for a folder of no listed pod")
    return writes


def _with_containers(folder: str, value: int, there: list[str], reason: str) -> list[Write]:
    return [Write(each, BVT, str(value), reason) for each in (folder, *_children(folder, there))]


def _children(folder: str, there: list[str]) -> list[str]:
    return [each for each in there if each.rpartition("/")[0] == folder]
