"""Contexts from pods as Kubernetes lists them (dicts of the API's JSON), for standalone mode.

The folder of a pod comes with it, because the kubelet's driver decides it. Next: `nri.policies.messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from nri.kube import kubelet, quantity
from nri.policies import formulas, paths
from nri.policies.contexts import ContainerContext, ExtendedResources, PodContext, Resources

__all__ = [
    "active",
    "container_context",
    "container_resources",
    "containers_of",
    "extended_of",
    "ignored",
    "kube_class",
    "names_of",
    "pod_context",
    "sandbox_context",
    "side_by_side",
    "total",
]

#: Its containers have no cgroups on the host.
_VIRTUAL_MACHINE = "kata"


def kube_class(pod: Mapping[str, Any]) -> str:
    """Return the Kubernetes QoS class of a pod, as its status has it, else as its containers make it."""
    told: str = (pod.get("status") or {}).get("qosClass") or ""
    if told:
        return told
    spec = pod.get("spec") or {}
    every = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return kubelet.qos_class([_flat(each) for each in every])


def active(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs, or is about to."""
    return (pod.get("status") or {}).get("phase") in ("Running", "Pending")


def ignored(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's containers have no cgroups on this host."""
    return (pod.get("spec") or {}).get("runtimeClassName") == _VIRTUAL_MACHINE


def pod_context(pod: Mapping[str, Any], folder: str, tasks: Mapping[str, tuple[int, ...]] | None = None) -> PodContext:
    """Return the context of a pod."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    asked = ((each.get("name", ""), extended_of(each)) for each in spec.get("containers") or ())
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
    wanted = container.get("resources") or {}
    return _resources(_quantities(wanted.get("requests")), _quantities(wanted.get("limits")))


def extended_of(container: Mapping[str, Any]) -> ExtendedResources | None:
    """Return what a container asks of resources that Kubernetes does not know; None if it asks for none."""
    wanted = container.get("resources") or {}
    requests, limits = (
        {name: value for name, value in _quantities(wanted.get(part)).items() if "/" in name}
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
    totals = (total(spec, part) for part in ("requests", "limits"))
    return _resources(*totals)


def total(spec: Mapping[str, Any], part: str) -> dict[str, Fraction]:
    """Return the sum of the containers, or the most that initializes the pod if that is more, and the overhead."""
    total: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        _add(total, _part(container, part))
    sidecars: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        wanted = _part(container, part)
        if container.get("restartPolicy") == "Always":
            _add(total, wanted)
            _add(sidecars, wanted)
            wanted = dict(sidecars)
        else:
            wanted = {**sidecars, **{name: value + sidecars.get(name, 0) for name, value in wanted.items()}}
        most = {name: max(most.get(name, Fraction(0)), wanted.get(name, Fraction(0))) for name in {*most, *wanted}}
    total = {name: max(total.get(name, Fraction(0)), most.get(name, Fraction(0))) for name in {*total, *most}}
    overhead = _quantities(spec.get("overhead"))
    _add(total, overhead if part == "requests" else {key: overhead[key] for key in overhead if key in total})
    return total


def side_by_side(spec: Mapping[str, Any], part: str) -> Iterator[Mapping[str, Fraction]]:
    """Yield the requests or limits of each container that runs while the pod does, sidecars too."""
    for container in spec.get("containers") or ():
        yield _part(container, part)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield _part(container, part)


def _add(total: dict[str, Fraction], more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def _part(container: Mapping[str, Any], part: str) -> dict[str, Fraction]:
    return _quantities((container.get("resources") or {}).get(part))


def _quantities(given: Mapping[str, Any] | None) -> dict[str, Fraction]:
    return {name: quantity.capped(value) for name, value in (given or {}).items()}


def _flat(container: Mapping[str, Any]) -> dict[str, Fraction]:
    """Requests and limits in the kubelet's words; a limit without a request is one."""
    limits, requests = _part(container, "limits"), _part(container, "requests")
    return {f"limits.{name}": value for name, value in limits.items()} | {
        f"requests.{name}": value for name, value in (limits | requests).items()
    }
