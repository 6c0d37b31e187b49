"""The rules of one node, from its documents and its machine: the value that all hooks decide by.

Each rule is built by the module of its feature, and is None or off until its document was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from nri.agent.koordinator.quirks import Quirks

#: Normalization is off.
NO_RATIO: Final = -1.0


@dataclass(frozen=True, slots=True)
class GroupIdentityRule:
    """The identity (`cpu.bvt_warp_ns`) of pods by QoS class, of kube-QoS folders, and of pods without a class."""

    enabled: bool = False
    pods: Mapping[str, int] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    kube_pods: Mapping[str, int] = field(default_factory=dict)

    def of_pod(self, qos: str, kube_class: str) -> int:
        """Return the identity of a pod: by its class, else by its Kubernetes class."""
        return self.pods.get(qos, self.kube_pods.get(kube_class, 0))


@dataclass(frozen=True, slots=True)
class CoreSchedClass:
    """Core scheduling of one class. An expeller shares a core with no other class; `cpu_idle` is for its folder."""

    enabled: bool = False
    expeller: bool = False
    cpu_idle: bool = False


@dataclass(frozen=True, slots=True)
class CoreSchedRule:
    """Core scheduling by QoS class, and by Kubernetes class for pods without one."""

    enabled: bool = False
    pods: Mapping[str, CoreSchedClass] = field(default_factory=dict)
    kube_pods: Mapping[str, CoreSchedClass] = field(default_factory=dict)

    @property
    def is_configured(self) -> bool:
        """Whether a NodeSLO has been read at all."""
        return bool(self.pods) and bool(self.kube_pods)

    def of_pod(self, qos: str, kube_class: str) -> CoreSchedClass:
        """Return the rule for a pod; all off while core scheduling is off on the node."""
        if not self.enabled:
            return CoreSchedClass()
        return self.pods.get(qos) or self.kube_pods.get(kube_class) or CoreSchedClass()


class SharePool(NamedTuple):
    """The CPUs of one memory node that pods without exclusive CPUs share."""

    socket: int
    node: int
    cpus: str


class CpusetRule(NamedTuple):
    """The owners of CPUs. `kubelet_policy` is `static`, `none` or "" if unknown.

    `withheld` are the CPUs that no batch pod gets: reserved by node or kubelet, or exclusive to SYSTEM pods.
    """

    share_pools: tuple[SharePool, ...] = ()
    batch_pools: tuple[SharePool, ...] = ()
    kubelet_policy: str = ""
    system_cpus: str = ""
    withheld: frozenset[int] = frozenset()

    def shared(self) -> str:
        """All CPUs of the share pools, in their order."""
        return ",".join(pool.cpus for pool in self.share_pools)


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Whether batch pods have a quota, and the ratio that scales it; None before it was read."""

    has_quota: bool | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """The machine's caches: `mask` has a bit for each way, `ids` are the domains, `vendor` that of the CPU."""

    ids: tuple[int, ...]
    mask: int
    vendor: str


class Devices(Protocol):
    """The questions that the hook has to the machine."""

    def verbs(self, pci_address: str) -> Sequence[str]:
        """Names in `infiniband_verbs` of a PCI function; raises OSError if it has no such folder."""
        ...

    def numbers(self, path: str) -> tuple[int, int]:
        """Major and minor number of a device node; raises OSError if it is not there."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """All current rules and settings of a node.

    Attributes:
        identity: None before the first NodeSLO, or without effect.
        cpus: None before the first NodeResourceTopology.
        batch: for batch pods.
        ratio: the speed of the node's CPUs; -1 for no normalization.
        core: core scheduling.
        cache: None on a machine that cannot partition its caches.
        devices: the machine's RDMA devices, None if unavailable.
        gates: the enabled hooks; None for Koordinator's defaults.
        disabled_stages: stages at which no hook decides anything.
        fail: whether the first hook that fails stops the rest and fails the request (failure policy "Fail").
        batch_pools: whether batch pods may have separate share pools.
        keep_quota: whether pods with exclusive CPUs keep their CPU quota.
        gpu_library: HAMi-core's library.
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
