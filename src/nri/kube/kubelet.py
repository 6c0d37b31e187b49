"""Values that a kubelet with default settings computes: QoS class, resources, cgroups, folders of volumes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from nri.kube import pod_resources, quantity

if TYPE_CHECKING:
    from nri.api import messages as m

#: Quantities of a container, or of a pod itself, by ``requests.cpu``, ``limits.memory`` and so on.
Quantities = Mapping[str, Fraction]
#: The kubelet's folder of seccomp profiles.
SECCOMP_ROOT = "/var/lib/kubelet/seccomp"
_NONE = Fraction(0)
_COMPUTED = ("cpu", "memory")


class ContainerResources(NamedTuple):
    """The resources of a container, and its role in the pod."""

    quantities: Quantities
    initial: bool = False
    sidecar: bool = False


class PodResources(NamedTuple):
    """The resources of a pod.

    Attributes:
        containers: its containers, init containers first.
        pod: requests and limits of the pod itself (``spec.resources``), or None without that key.
        node_critical: whether the pod has the priority class ``system-node-critical``.
    """

    containers: Sequence[ContainerResources]
    pod: Quantities | None = None
    node_critical: bool = False

    def containers_total(self, part: pod_resources.Part) -> dict[str, Fraction]:
        """Return the total requests or limits of all containers, without the pod's own values and its overhead."""
        return pod_resources.containers_total(
            pod_resources.PodContainer(_part(quantities, part), initial, sidecar)
            for quantities, initial, sidecar in self.containers
        )


class Share(NamedTuple):
    """The resources that the kubelet gives a container: quantities and OOM score."""

    quantities: Quantities
    oom_score: int


def _part(quantities: Quantities, part: str) -> dict[str, Fraction]:
    return {key.removeprefix(f"{part}."): value for key, value in quantities.items() if key.startswith(f"{part}.")}


def make_id(*names: str) -> str:
    """Return an id in the format of a runtime. Equal names give equal ids."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()


def make_uid(*names: str) -> str:
    """Return a pod's uid in the format of the API server. Equal names give equal uids."""
    digest = make_id(*names)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def qos_class(resources: PodResources) -> str:
    """Return the pod's QoS class by the kubelet's rule: Guaranteed, Burstable or BestEffort.

    If the pod itself has requests and limits, only these are used.
    """
    counted = (
        [quantities.quantities for quantities in resources.containers] if resources.pod is None else [resources.pod]
    )
    if not any(
        quantities.get(f"{part}.{name}")
        for quantities in counted
        for part in ("requests", "limits")
        for name in _COMPUTED
    ):
        return "BestEffort"
    guaranteed = all(
        quantities.get(f"limits.{name}") and quantities[f"limits.{name}"] == quantities.get(f"requests.{name}")
        for quantities in counted
        for name in _COMPUTED
    )
    return "Guaranteed" if guaranteed else "Burstable"


def cgroup_parent(qos: str, uid: str) -> str:
    """Return the cgroup of a pod with the cgroupfs driver."""
    return "/kubepods" + {"Guaranteed": "", "Burstable": "/burstable"}.get(qos, "/besteffort") + f"/pod{uid}"


def set_resources(linux: m.LinuxContainer, share: Share) -> None:
    """Set the resources that the kubelet requests from the runtime. As in the kubelet, 0 means no limit."""
    quantities = share.quantities
    cpu_limit = quantities.get("limits.cpu")
    resources = linux.resources
    resources.cpu.shares.value = quantity.cpu_shares(quantities.get("requests.cpu", _NONE))
    resources.cpu.period.value = quantity.CPU_PERIOD_US
    resources.cpu.quota.value = quantity.cpu_quota_us(cpu_limit) if cpu_limit else 0
    resources.memory.limit.value = quantity.ceil(quantities.get("limits.memory", _NONE))
    for key, value in quantities.items():
        if key.startswith("limits.hugepages-"):
            size = key.removeprefix("limits.hugepages-").removesuffix("i")
            resources.hugepage_limits.add(page_size=f"{size}B", limit=quantity.ceil(value))
    linux.oom_score_adj.value = share.oom_score


def shares(resources: PodResources, node_bytes: int = 0) -> list[Share]:
    """Return the share of each container of a pod. The pod's own limit applies to containers without a limit.

    `node_bytes` is the node's memory, or 0 if unknown.
    """
    limits = {key: value for name in _COMPUTED if (value := (resources.pod or {}).get(key := f"limits.{name}"))}
    return [
        Share(
            {**limits, **{key: value for key, value in container.quantities.items() if value or key not in limits}},
            score,
        )
        for container, score in zip(resources.containers, _oom_scores(resources, node_bytes), strict=True)
    ]


def _oom_scores(resources: PodResources, node_bytes: int) -> list[int]:
    """Return the OOM score of each container of a pod.

    In a Burstable pod, containers with larger memory requests have lower scores. The pod's own request beyond its
    containers is divided evenly, and a sidecar has no higher score than the containers.
    """
    qos = qos_class(resources)
    if resources.node_critical or qos != "Burstable":
        score = 1000 if qos == "BestEffort" and not resources.node_critical else -997
        return [score] * len(resources.containers)
    if not node_bytes:
        return [999] * len(resources.containers)  # the kubelet's upper bound is the best guess
    requests = [quantity.ceil(container.quantities.get("requests.memory", _NONE)) for container in resources.containers]
    spare = _spare_memory(resources)
    smallest = min(
        (size for size, container in zip(requests, resources.containers, strict=True) if not container.initial),
        default=0,
    )
    scores = []
    for size, container in zip(requests, resources.containers, strict=True):
        counted = max(size, smallest) if container.sidecar else size
        scores.append(min(max(1000 - (counted + spare) * 1000 // node_bytes, 3), 999))
    return scores


def _spare_memory(resources: PodResources) -> int:
    """The pod's own memory request beyond its containers, divided by their number."""
    request = (resources.pod or {}).get("requests.memory", _NONE)
    if not request:
        return 0
    containers = resources.containers_total("requests").get("memory", _NONE)
    return (quantity.ceil(request) - quantity.ceil(containers)) // len(resources.containers)


def volume_folder(uid: str, kind: str, name: str) -> str:
    """Return the folder in which the kubelet prepares a pod's volume. `kind` is the volume's key, such as emptyDir."""
    dashed = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()
    return f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~{dashed}/{name}"
