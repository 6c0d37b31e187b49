"""Requests and limits of a whole pod, by the rule of Kubernetes.

The functions `PodRequests` and `PodLimits` in k8s.io/component-helpers/resource, which the scheduler, the kubelet and
Koordinator use, have the same rule:

- containers and sidecars (init containers with ``restartPolicy: Always``) run at the same time and are added;
- another init container runs with the sidecars before it, and counts if that sum is larger;
- requests and limits of the pod itself (``spec.resources``) replace that sum for CPU, memory and huge pages;
- ``spec.overhead`` is added; to limits only if there is a limit.

A spec is the API's JSON. Results are exact fractions in the resource's unit (CPUs, bytes, pieces) by the resource's
name. Functions raise ValueError if a quantity is invalid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from nri.kube import quantity

Part = Literal["requests", "limits"]
Amounts = dict[str, Fraction]
_NONE = Fraction(0)


class PodContainer(NamedTuple):
    """The requests or the limits of a container, and its role in the pod."""

    amounts: Mapping[str, Fraction]
    initial: bool = False
    sidecar: bool = False


def containers_total(containers: Iterable[PodContainer]) -> Amounts:
    """Return the total requests or limits of a pod's containers. Init containers must be in order."""
    total, sidecars, largest = Amounts(), Amounts(), Amounts()
    for amounts, initial, sidecar in containers:
        if sidecar or not initial:
            _add(total, amounts)
        if sidecar:
            _add(sidecars, amounts)
        elif initial:
            _raise_to(largest, {name: value + sidecars.get(name, _NONE) for name, value in amounts.items()})
    _raise_to(total, largest)
    return total


def pod_total(spec: Mapping[str, Any], part: Part, *, overhead: bool = True) -> Amounts:
    """Return the requests or limits of a whole pod.

    Args:
        spec: the pod's spec.
        part: `requests` or `limits`.
        overhead: whether to include the runtime's overhead.
    """
    total = containers_total(
        PodContainer(container_amounts(container, part), initial, initial and _is_sidecar(container))
        for key, initial in (("initContainers", True), ("containers", False))
        for container in spec.get(key) or ()
    )
    total |= pod_level(spec, part)
    if overhead:
        more = _amounts(spec.get("overhead"))
        _add(total, more if part == "requests" else {name: more[name] for name in more if total.get(name)})
    return total


def pod_limit(spec: Mapping[str, Any], name: str) -> Fraction:
    """Return the kubelet's limit for the pod's cgroup. Returns 0 if a container has no limit."""
    if not pod_level(spec, "limits").get(name):
        sidecars = _NONE
        for container in spec.get("initContainers") or ():
            limit = container_amounts(container, "limits").get(name, _NONE)
            sidecars += limit if _is_sidecar(container) else _NONE
            if not sidecars and not limit:
                return _NONE
        if not all(container_amounts(container_, "limits").get(name) for container_ in spec.get("containers") or ()):
            return _NONE
    return pod_total(spec, "limits").get(name, _NONE)


def concurrent_containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the containers that run as long as the pod: the containers, then the sidecars."""
    yield from spec.get("containers") or ()
    yield from filter(_is_sidecar, spec.get("initContainers") or ())


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container runs next to the containers."""
    return container.get("restartPolicy") == "Always"


def pod_level(spec: Mapping[str, Any], part: Part) -> Amounts:
    """Return the requests or limits of the pod itself, for resources that support them."""
    amounts = _amounts((spec.get("resources") or {}).get(part))
    return {name: value for name, value in amounts.items() if has_pod_level(name)}


def container_amounts(container: Mapping[str, Any], part: Part) -> Amounts:
    """Return the requests or limits of a container."""
    return _amounts((container.get("resources") or {}).get(part))


def _amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: quantity.capped(value) for name, value in (quantities or {}).items()}


def has_pod_level(name: str) -> bool:
    """Whether a pod itself can have requests and limits of a resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _add(total: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, _NONE) + value


def _raise_to(total: Amounts, floor: Mapping[str, Fraction]) -> None:
    """Raise each amount to the amount in `floor`, and add missing amounts."""
    for name, value in floor.items():
        total[name] = max(total.get(name, value), value)
