"""Contexts from pods as Kubernetes lists them (dicts of the API's JSON), for standalone mode.

The folder of a pod comes with it, because the kubelet's driver decides it. Next: `nri.agent.transports.messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.model import ContainerContext, ExtendedResources, PodContext, Resources
from nri.kube import cgroup_limits as formulas
from nri.kube import kubelet, pod_resources

#: Its containers have no cgroups on the host.
_VIRTUAL_MACHINE = "kata"


def kube_class(pod: Mapping[str, Any]) -> str:
    """Return the Kubernetes QoS class of a pod, as its status has it, else as its containers make it."""
    told: str = (pod.get("status") or {}).get("qosClass") or ""
    if told:
        return told
    spec = pod.get("spec") or {}
    every = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    own = None if spec.get("resources") is None else _flat(spec)
    return kubelet.qos_class(kubelet.PodResources([kubelet.ContainerResources(_flat(each)) for each in every], own))


def active(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs, or is about to."""
    return (pod.get("status") or {}).get("phase") in ("Running", "Pending")


def ignored(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's containers have no cgroups on this host."""
    return (pod.get("spec") or {}).get("runtimeClassName") == _VIRTUAL_MACHINE


def from_runtime(pod: Mapping[str, Any]) -> bool:
    """Whether a runtime described the pod, which does not know of resources that Kubernetes does not enforce."""
    return bool(pod.get("cgroupParent"))


def pod_context(pod: Mapping[str, Any], folder: str, tasks: Mapping[str, tuple[int, ...]] | None = None) -> PodContext:
    """Return the context of a pod."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    asked = ((each.get("name", ""), extended_of(each)) for each in pod_resources.concurrent_containers(spec))
    own = {name: extended for name, extended in asked if extended is not None}
    return PodContext(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        cgroup_parent=folder,
        resources=_pod_resources(spec),
        extended=own or None,
        tasks=tasks or {},
        host_network=bool(spec.get("hostNetwork")),
    )


def container_context(
    pod: Mapping[str, Any], folder: str, name: str, driver: str = paths.SYSTEMD, of_pod: PodContext | None = None
) -> ContainerContext:
    """Return the context of a container by its name; one without an id yet has no folder.

    `of_pod` is the pod's own context, for callers that have it already: it takes a look at all containers.
    """
    context = of_pod or pod_context(pod, folder)
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    found = _named(status.get("containerStatuses"), name)
    specs = "initContainers" if found is None else "containers"
    number = (found or _named(status.get("initContainerStatuses"), name) or {}).get("containerID", "")
    if not number:
        return ContainerContext(context, name=name)
    own = _named(spec.get(specs), name)
    told = (pod.get("cgroups") or {}).get(name)  # which the API does not have, and a source may
    return ContainerContext(
        pod=context,
        id=number,
        name=name,
        cgroup_parent=told or paths.container_path(folder, number, driver),
        env={each.get("name", ""): each.get("value", "") for each in (own or {}).get("env") or ()},
        resources=None if own is None else container_resources(own),
        extended=extended_of(own) if own else None,
    )


def sandbox_context(
    pod: Mapping[str, Any],
    folder: str,
    container_id: str,
    driver: str = paths.SYSTEMD,
    of_pod: PodContext | None = None,
) -> ContainerContext:
    """Return the context of a pod's pause container; "" as its id gives it no folder."""
    path = paths.container_path(folder, container_id, driver) if container_id else ""
    return ContainerContext(of_pod or pod_context(pod, folder), id=container_id, cgroup_parent=path, sandbox=True)


def names_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the containers of a pod's spec, those that initialize it first."""
    spec = pod.get("spec") or {}
    return [each.get("name", "") for key in ("initContainers", "containers") for each in spec.get(key) or ()]


def containers_of(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of containers that have a status and are in the spec, those that initialize the pod last."""
    status, known = pod.get("status") or {}, names_of(pod)
    for key in ("containerStatuses", "initContainerStatuses"):
        yield from (name for each in status.get(key) or () if (name := each.get("name", "")) in known)


def container_resources(container: Mapping[str, Any]) -> Resources:
    """Return what the kubelet makes of a container's requests and limits."""
    return _resources(*(pod_resources.container_amounts(container, part) for part in ("requests", "limits")))


def extended_of(container: Mapping[str, Any]) -> ExtendedResources | None:
    """Return what a container asks of resources that Kubernetes does not know; None if it asks for none."""
    requests, limits = (
        {name: value for name, value in pod_resources.container_amounts(container, part).items() if "/" in name}
        for part in ("requests", "limits")
    )
    return ExtendedResources(requests, limits) if requests or limits else None


def _named(entries: Iterable[Mapping[str, Any]] | None, name: str) -> Mapping[str, Any] | None:
    return next((each for each in entries or () if each.get("name", "") == name), None)


def _resources(requests: Mapping[str, Fraction], limits: Mapping[str, Fraction]) -> Resources:
    memory = formulas.amount(limits, "memory")
    return Resources(
        cpu_shares=formulas.shares(formulas.milli(requests, "cpu")),
        cfs_quota=formulas.quota_us(formulas.milli(limits, "cpu")),
        memory_limit=memory if memory > 0 else formulas.UNLIMITED,
    )


def _pod_resources(spec: Mapping[str, Any]) -> Resources:
    return _resources(*(pod_resources.pod_total(spec, part) for part in ("requests", "limits")))


def _flat(entry: Mapping[str, Any]) -> dict[str, Fraction]:
    """Requests and limits of a container, or of a pod's spec, in the kubelet's words; a limit alone is a request."""
    limits, requests = (pod_resources.container_amounts(entry, part) for part in ("limits", "requests"))
    return {f"limits.{name}": value for name, value in limits.items()} | {
        f"requests.{name}": value for name, value in (limits | requests).items()
    }


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod of the API, with its folder, and the id of its pause container if that is known."""

    pod: Mapping[str, Any]
    folder: str
    sandbox_id: str = ""
    driver: str = paths.SYSTEMD
    #: The context, once it was asked for: each container's has it, and it takes a look at all of them.
    _context: list[PodContext] = field(default_factory=list, init=False, repr=False, compare=False)

    def context(self) -> PodContext:
        """Return the pod's context."""
        if not self._context:
            self._context.append(pod_context(self.pod, self.folder))
        return self._context[0]

    def container(self, name: str) -> ContainerContext:
        """Return a container's context."""
        return container_context(self.pod, self.folder, name, self.driver, self.context())

    def sandbox(self) -> ContainerContext:
        """Return the pause container's context."""
        return sandbox_context(self.pod, self.folder, self.sandbox_id, self.driver, self.context())

    def main_containers(self) -> Iterator[ContainerContext]:
        """Yield the containers that have a status, without those that initialize the pod."""
        for status in (self.pod.get("status") or {}).get("containerStatuses") or ():
            yield self.container(status.get("name", ""))
