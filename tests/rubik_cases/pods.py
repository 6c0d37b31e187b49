"""A node's pods as the records tell of them: pods that Kubernetes lists, and events in a row.

The agent reads the pods anew in each round (`nri.agent.pods`), so only the records ask for what an event publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nri.host.cgroups.drivers import Driver, container_name
from nri.kube import quantity
from nri.policies import paths
from nri.policies.rubik.pods import Container, Pod

__all__ = ["Mirror", "from_manifest"]


def from_manifest(pod: Mapping[str, Any], driver: str) -> Pod:
    """Return a pod as Kubernetes lists it, with the containers that have an id of a runtime that is known."""
    meta, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    annotations = meta.get("annotations") or {}
    kube = status.get("qosClass") or ""
    uid = annotations.get("kubernetes.io/config.hash") or meta.get("uid", "")
    folder = paths.pod_path(kube, uid, driver)
    asked = {each.get("name", ""): each.get("resources") or {} for each in spec.get("containers") or ()}
    containers = []
    for each in {one.get("name", ""): one for one in status.get("containerStatuses") or ()}.values():
        try:
            runtime, name = container_name(Driver(driver), each.get("containerID") or "")
        except ValueError:
            continue
        number = each["containerID"].partition("://")[2]
        if runtime == "cri-o" and driver == paths.CGROUPFS:
            name = f"crio-{number}"
        limit = (asked.get(each.get("name", "")) or {}).get("limits") or {}
        milli = quantity.ceil(quantity.capped(limit.get("cpu", 0)) * 1000)
        if number:
            path = paths.joined(folder, name) if folder else ""
            containers.append(Container(number, each.get("name", ""), path, milli / 1000))
    return Pod(
        uid=uid,
        name=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        folder=folder,
        annotations=annotations,
        labels=meta.get("labels") or {},
        host_network=bool(spec.get("hostNetwork")),
        containers=tuple(containers),
    )


class Mirror:
    """The pods of a node, kept from events.

    Each method returns what the services are asked to look at: pairs of a word (add, update, delete) and the pod. A pod
    that a synchronization no longer names is deleted.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def synchronize(self, pods: list[Pod]) -> list[tuple[str, Pod]]:
        """Take what there is; services look at it when they start."""
        before, self.pods = self.pods, {pod.uid: pod for pod in pods}
        return [("delete", pod) for uid, pod in before.items() if uid not in self.pods]

    def put(self, pod: Pod, *, running: bool = True, new: bool = False) -> list[tuple[str, Pod]]:
        """Take a pod as Kubernetes reports it; one that no longer runs is deleted, a `new` one may be known."""
        if not running:
            return self.remove(pod.uid)
        before = self.pods.get(pod.uid)
        if before is not None and new:
            return []
        self.pods[pod.uid] = pod
        return [("add" if before is None else "update", pod)]

    def sandbox(self, pod: Pod) -> None:
        """Take a pod that has no container yet, if it is not known."""
        self.pods.setdefault(pod.uid, pod)

    def start(self, uid: str, container: Container) -> list[tuple[str, Pod]]:
        """Take a container of a known pod."""
        pod = self.pods.get(uid)
        if pod is None:
            return []
        others = tuple(each for each in pod.containers if each.id != container.id)
        self.pods[uid] = replace(pod, containers=(*others, container))
        return [("add", self.pods[uid])]

    def stop(self, uid: str, container_id: str) -> None:
        """Forget a container: nothing is left to be set."""
        pod = self.pods.get(uid)
        if pod is not None:
            left = tuple(each for each in pod.containers if each.id != container_id)
            self.pods[uid] = replace(pod, containers=left)

    def remove(self, uid: str) -> list[tuple[str, Pod]]:
        """Forget a pod."""
        pod = self.pods.pop(uid, None)
        return [] if pod is None else [("delete", pod)]
