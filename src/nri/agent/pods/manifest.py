"""Conversion of pods from the Kubernetes API's JSON to pods of the agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from nri.agent import cgroup_paths
from nri.agent.model import Container, ExtendedResources, Pod, PodManifest, Resources
from nri.kube import cgroup_limits, kubelet, pod_resources

#: The runtime class of pods in virtual machines, whose containers have no cgroups on the host.
_VIRTUAL_MACHINE = "kata"


def kube_class(pod: PodManifest) -> str:
    """Return the Kubernetes QoS class from a pod's status, or else compute it from the containers."""
    reported: str = (pod.get("status") or {}).get("qosClass") or ""
    if reported:
        return reported
    spec = pod.get("spec") or {}
    specs = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    pod_amounts = None if spec.get("resources") is None else _kubelet_amounts(spec)
    return kubelet.qos_class(
        kubelet.PodResources([kubelet.ContainerResources(_kubelet_amounts(spec_)) for spec_ in specs], pod_amounts)
    )


def active(pod: PodManifest) -> bool:
    """Return whether a pod is running or pending."""
    return (pod.get("status") or {}).get("phase") in ("Running", "Pending")


def ignored(pod: PodManifest) -> bool:
    """Return whether a pod's containers have no cgroups on this host."""
    return (pod.get("spec") or {}).get("runtimeClassName") == _VIRTUAL_MACHINE


def from_runtime(pod: PodManifest) -> bool:
    """Return whether a runtime described the pod. Runtimes do not report extended resources."""
    return bool(pod.get("cgroupParent"))


def listed_pod(pod: PodManifest, folder: str, sandbox_id: str = "", driver: str = cgroup_paths.SYSTEMD) -> Pod:
    """Return a pod of the API with its containers.

    Errors of reading resources and containers are not raised but become the pod's `problem`, so that names,
    labels and annotations can still be used.
    """
    meta = pod.get("metadata") or {}
    named = Pod(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=uid_of(pod),
        labels=_texts(meta.get("labels")),
        annotations=_texts(meta.get("annotations")),
        folder=folder,
        started=started_of(pod),
        manifest=pod,
        driver=driver,
    )
    try:
        named = replace(named, kube_class=kube_class(pod))
        return _with_containers(_with_resources(named), sandbox_id)
    except Exception as error:  # noqa: BLE001  the manifest is foreign; one bad pod must not stop the others
        return replace(named, problem=error)


def _with_resources(pod: Pod) -> Pod:
    spec = pod.manifest.get("spec") or {}
    amounts = ((c.get("name", ""), extended_of(c)) for c in pod_resources.concurrent_containers(spec))
    extended = {name: amount for name, amount in amounts if amount is not None}
    return replace(
        pod,
        resources=_pod_resources(spec),
        extended=extended or None,
        host_network=bool(spec.get("hostNetwork")),
    )


def _with_containers(pod: Pod, sandbox_id: str) -> Pod:
    spec, status = pod.manifest.get("spec") or {}, pod.manifest.get("status") or {}
    main = tuple(_containers(pod, spec.get("containers"), status.get("containerStatuses")))
    init = tuple(_containers(pod, spec.get("initContainers"), status.get("initContainerStatuses")))
    by_name = {} if ignored(pod.manifest) else {c.name: c for c in reversed(main) if c.folder}
    sandbox_folder = cgroup_paths.container_path(pod.folder, sandbox_id, pod.driver) if sandbox_id else ""
    # Containers refer to their pod, so they are set after its construction; no other code has the pod yet.
    for name, value in (
        ("sandbox", Container(pod, id=sandbox_id, folder=sandbox_folder, sandbox=True)),
        ("main_containers", main),
        ("init_containers", init),
        ("containers", tuple(by_name[name] for c in pod.specs if (name := c.get("name", "")) in by_name)),
    ):
        object.__setattr__(pod, name, value)
    return pod


def _containers(
    pod: Pod, specs: Iterable[PodManifest] | None, statuses: Iterable[PodManifest] | None
) -> Iterator[Container]:
    """Yield the containers with an id, in the order of the statuses."""
    spec_by_name = {spec.get("name", ""): spec for spec in reversed(list(specs or ()))}
    folders = pod.manifest.get("cgroups") or {}  # a field that only some pod sources set
    for status in statuses or ():
        name, container_id = status.get("name", ""), status.get("containerID", "")
        if not container_id:
            continue
        spec = spec_by_name.get(name)
        yield Container(
            pod=pod,
            id=container_id,
            name=name,
            folder=folders.get(name) or cgroup_paths.container_path(pod.folder, container_id, pod.driver),
            env={variable.get("name", ""): variable.get("value", "") for variable in (spec or {}).get("env") or ()},
            resources=None if spec is None else container_resources(spec),
            extended=extended_of(spec) if spec else None,
            cpu_limit=_cpu_limit(spec or {}),
        )


def _cpu_limit(spec: PodManifest) -> float:
    """Return the limit of a container in CPUs, or 0 if there is no limit."""
    return max(cgroup_limits.milli(pod_resources.container_amounts(spec, "limits"), "cpu"), 0) / 1000


def _texts(entries: Any) -> dict[str, str]:
    """Return labels or annotations without values that are not strings."""
    return {key: text for key, text in (entries or {}).items() if isinstance(text, str)}


def uid_of(pod: PodManifest) -> str:
    """Return the uid of a pod, or "" if the pod has no uid."""
    uid = (pod.get("metadata") or {}).get("uid")
    return uid if isinstance(uid, str) else ""


def key_of(pod: PodManifest) -> str:
    """Return a pod's readable name, `namespace/name`."""
    meta = pod.get("metadata") or {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def started_of(pod: PodManifest) -> float | None:
    """Return when a pod started in seconds since 1970, or None if that is unknown."""
    try:
        started = datetime.fromisoformat((pod.get("status") or {})["startTime"])
    except (KeyError, TypeError, ValueError):
        return None
    return started.timestamp() if started.tzinfo else None


def container_resources(container: PodManifest) -> Resources:
    """Return the resources that the kubelet derives from a container's requests and limits."""
    return _resources(*(pod_resources.container_amounts(container, part) for part in ("requests", "limits")))


def extended_of(container: PodManifest) -> ExtendedResources | None:
    """Return the extended resources that a container requests, or None if it requests none."""
    requests, limits = (
        {name: value for name, value in pod_resources.container_amounts(container, part).items() if "/" in name}
        for part in ("requests", "limits")
    )
    return ExtendedResources(requests, limits) if requests or limits else None


def _resources(requests: Mapping[str, Fraction], limits: Mapping[str, Fraction]) -> Resources:
    memory = cgroup_limits.amount(limits, "memory")
    return Resources(
        cpu_shares=cgroup_limits.shares(cgroup_limits.milli(requests, "cpu")),
        cfs_quota=cgroup_limits.quota_us(cgroup_limits.milli(limits, "cpu")),
        memory_limit=memory if memory > 0 else cgroup_limits.UNLIMITED,
    )


def _pod_resources(spec: PodManifest) -> Resources:
    return _resources(*(pod_resources.pod_total(spec, part) for part in ("requests", "limits")))


def _kubelet_amounts(entry: PodManifest) -> dict[str, Fraction]:
    """Return requests and limits with the kubelet's keys. A limit without a request is also the request."""
    limits, requests = (pod_resources.container_amounts(entry, part) for part in ("limits", "requests"))
    return {f"limits.{name}": value for name, value in limits.items()} | {
        f"requests.{name}": value for name, value in (limits | requests).items()
    }
