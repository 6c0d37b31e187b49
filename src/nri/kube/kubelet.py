"""The kubelet's share in a container: its class of service, its resources and cgroup, and the folders of its volumes.

Pure. Values are those of a kubelet with its defaults, on a node of which no more than its memory is
known. Next: `nri.kube.quantity`.
"""

from __future__ import annotations

import hashlib
import re
from fractions import Fraction
from typing import TYPE_CHECKING

from nri.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nri.api import messages as m

    #: Quantities of one container by ``requests.cpu``, ``limits.memory`` and so on.
    Quantities = Mapping[str, Fraction]


def make_id(*names: str) -> str:
    """Make an id from names, such as a runtime would draw: the same names give the same id."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()


def make_uid(*names: str) -> str:
    """Make a pod's uid from its names, in the form that the apiserver gives to one."""
    digest = make_id(*names)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def qos_class(containers: Sequence[Quantities]) -> str:
    """Return the pod's class of service by the kubelet's rule: Guaranteed, Burstable or BestEffort."""
    keys = ("cpu", "memory")
    if not any(one.get(f"requests.{key}") for one in containers for key in keys):
        return "BestEffort"
    sure = all(
        one.get(f"limits.{key}") and one[f"limits.{key}"] == one[f"requests.{key}"]
        for one in containers
        for key in keys
    )
    return "Guaranteed" if sure else "Burstable"


def cgroup_parent(qos: str, uid: str) -> str:
    """Return the cgroup of a pod, as the cgroupfs driver names it."""
    return "/kubepods" + {"Guaranteed": "", "Burstable": "/burstable"}.get(qos, "/besteffort") + f"/pod{uid}"


def set_resources(linux: m.LinuxContainer, wanted: Quantities, qos: str, node_bytes: int = 0) -> None:
    """Set the resources that the kubelet asks the runtime for; 0 where it asks for nothing, as it does.

    `node_bytes` is the node's memory, 0 if it is not known.
    """
    resources = linux.resources
    resources.cpu.shares.value = quantity.cpu_shares(wanted.get("requests.cpu", Fraction(0)))
    resources.cpu.period.value = quantity.CPU_PERIOD_US
    limit = wanted.get("limits.cpu")
    resources.cpu.quota.value = quantity.cpu_quota_us(limit) if limit else 0
    resources.memory.limit.value = quantity.ceil(wanted.get("limits.memory", Fraction(0)))
    for key, value in wanted.items():
        if key.startswith("limits.hugepages-"):
            size = key.removeprefix("limits.hugepages-").removesuffix("i")
            resources.hugepage_limits.add(page_size=f"{size}B", limit=quantity.ceil(value))
    burstable = _oom_score(wanted.get("requests.memory", Fraction(0)), node_bytes)
    linux.oom_score_adj.value = {"Guaranteed": -997, "BestEffort": 1000}.get(qos, burstable)


def _oom_score(memory: Fraction, node_bytes: int) -> int:
    """The score of a Burstable container: the larger its part of the node's memory, the lower."""
    if not node_bytes:
        return 999  # the kubelet's upper end is the best guess
    return min(max(1000 - quantity.ceil(memory) * 1000 // node_bytes, 3), 999)


def volume_folder(uid: str, kind: str, name: str) -> str:
    """Return the folder in which the kubelet prepares a pod's volume; `kind` is its key in a manifest (emptyDir)."""
    dashed = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()
    return f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~{dashed}/{name}"
