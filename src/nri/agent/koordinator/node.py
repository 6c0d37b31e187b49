"""The rules of one node, from its documents and its machine. Hooks read only this object and a pod or container.

The module of each feature builds its rule. A rule is None or off until its document was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from nri.agent.koordinator.quirks import Quirks

#: The ratio of a node without CPU normalization.
NO_RATIO: Final = -1.0


@dataclass(frozen=True, slots=True)
class GroupIdentityRule:
    """Identities (`cpu.bvt_warp_ns`): by QoS class, of Kubernetes QoS classes' cgroups, and of pods without a class."""

    enabled: bool = False
    pods: Mapping[str, int] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    kube_pods: Mapping[str, int] = field(default_factory=dict)

    def of_pod(self, qos: str, kube_class: str) -> int:
        """Return the identity of a pod by its QoS class, or else by its Kubernetes class."""
        return self.pods.get(qos, self.kube_pods.get(kube_class, 0))


@dataclass(frozen=True, slots=True)
class CoreSchedClass:
    """Core scheduling of a class.

    An expeller does not share a core with other classes; `cpu_idle` applies to the class.
    """

    enabled: bool = False
    expeller: bool = False
    cpu_idle: bool = False


@dataclass(frozen=True, slots=True)
class CoreSchedRule:
    """Core scheduling by QoS class, and by Kubernetes class for pods without a QoS class."""

    enabled: bool = False
    pods: Mapping[str, CoreSchedClass] = field(default_factory=dict)
    kube_pods: Mapping[str, CoreSchedClass] = field(default_factory=dict)

    @property
    def is_configured(self) -> bool:
        """Whether a NodeSLO has been read."""
        return bool(self.pods) and bool(self.kube_pods)

    def of_pod(self, qos: str, kube_class: str) -> CoreSchedClass:
        """Return the rule for a pod. It is off while core scheduling is off on the node."""
        if not self.enabled:
            return CoreSchedClass()
        return self.pods.get(qos) or self.kube_pods.get(kube_class) or CoreSchedClass()


class SharePool(NamedTuple):
    """The CPUs of one memory node that pods without exclusive CPUs share."""

    socket: int
    node: int
    cpus: str


class CpusetRule(NamedTuple):
    """The assignment of CPUs. `kubelet_policy` is `static`, `none`, or "" if unknown.

    Batch pods never get the CPUs in `withheld`: they are reserved by node or kubelet, or exclusive to SYSTEM pods.
    """

    share_pools: tuple[SharePool, ...] = ()
    batch_pools: tuple[SharePool, ...] = ()
    kubelet_policy: str = ""
    system_cpus: str = ""
    withheld: frozenset[int] = frozenset()

    def shared(self) -> str:
        """Return all CPUs of the share pools, in the order of the pools."""
        return ",".join(pool.cpus for pool in self.share_pools)


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Whether batch pods have a quota, and the ratio that scales the quota. None before the document was read."""

    has_quota: bool | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """The machine's last-level caches: domains, a mask with a bit for each way, and the vendor of the CPU."""

    ids: tuple[int, ...]
    mask: int
    vendor: str


class Devices(Protocol):
    """The interface by which the hook RDMADeviceInject reads the machine."""

    def verbs(self, pci_address: str) -> Sequence[str]:
        """Return the names in `infiniband_verbs` of a PCI function. Raises OSError if the folder is missing."""
        ...

    def numbers(self, path: str) -> tuple[int, int]:
        """Return the major and minor number of a device node. Raises OSError if the node is missing."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """All current rules and settings of a node.

    Attributes:
        identity: identities; None before the first NodeSLO, or if they have no effect.
        cpus: the assignment of CPUs; None before the first NodeResourceTopology.
        batch: the rule for batch pods.
        ratio: the relative speed of the node's CPUs; -1 means no normalization.
        core: core scheduling.
        cache: the caches; None if the machine cannot partition them.
        devices: the RDMA devices of the machine; None if they are unavailable.
        gates: the enabled hooks; None means Koordinator's defaults.
        disabled_stages: the stages at which no hook decides.
        fail: whether the first failing hook stops later hooks and fails the request (failure policy "Fail").
        batch_pools: whether batch pods may have separate share pools.
        keep_quota: whether pods with exclusive CPUs keep their CPU quota.
        gpu_library: the path of HAMi-core's library.
        gpu_monitor: whether HAMi's monitor is used.
        quirks: the differences from Koordinator.
    """

    identity: GroupIdentityRule | None = None
    cpus: CpusetRule | None = None
    batch: BatchRule = field(default_factory=BatchRule)
    ratio: float = NO_RATIO
    core: CoreSchedRule = field(default_factory=CoreSchedRule)
    cache: Cache | None = None
    devices: Devices | None = None
    gates: frozenset[str] | None = None
    disabled_stages: frozenset[str] = frozenset()
    fail: bool = False
    batch_pools: bool = False
    keep_quota: bool = False
    gpu_library: str = "/usr/local/vgpu/libvgpu.so"
    gpu_monitor: bool = False
    quirks: Quirks = Quirks.DEFAULT

    @property
    def stages_off(self) -> frozenset[str]:
        """The stages at which no hook decides."""
        return self.disabled_stages if self.quirks.disabled_stages_honoured else frozenset()

    @property
    def keeps_partial(self) -> bool:
        """Whether the changes of a hook before its failure are applied."""
        return not self.quirks.failed_hook_changes_nothing
