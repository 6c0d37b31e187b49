"""The rules of a node before the first document: settings, caches and RDMA devices of the machine.

Unreadable values are None; a hook that needs such a value then makes no decision.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from nri import host
from nri.agent.hooks import Hook
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.quirks import Quirks
from nri.agent.settings.values import AgentSettings

#: The gate for share pools of batch pods.
BATCH_POOLS: Final = "BECPUManager"

_PCI: Final = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


class RdmaDevices:
    """The RDMA devices of a machine (`nri.agent.koordinator.node.Devices`)."""

    def __init__(self, root: host.Root) -> None:
        self._root = root

    def verbs(self, pci_address: str) -> Sequence[str]:
        """Return the names in `infiniband_verbs` of a PCI function. Raises OSError if the folder is missing."""
        if _PCI.fullmatch(pci_address) is None:
            raise OSError(errno.EINVAL, f"{pci_address[:40]!r} is not a PCI address; write for example 0000:81:00.1")
        folder = f"/sys/bus/pci/devices/{pci_address}/infiniband_verbs"
        if not self._root.exists(folder):
            raise OSError(errno.ENOENT, f"PCI function {pci_address} has no verbs")
        return self._root.names(folder)

    def numbers(self, path: str) -> tuple[int, int]:
        """Return the major and minor number of a device node. Raises OSError if the node is missing."""
        descriptor = self._root.open(path, os.O_PATH)
        try:
            device = os.fstat(descriptor).st_rdev
        finally:
            os.close(descriptor)
        return os.major(device), os.minor(device)


def cache_of(root: host.Root) -> Cache | None:
    """Return the last-level cache of a machine, or None if it cannot be partitioned."""
    try:
        abilities = host.Resctrl(root).capabilities()
    except ValueError:
        return None
    if isinstance(abilities, host.Unsupported) or (cache := abilities.caches.get("L3")) is None:
        return None
    return Cache(abilities.domains.get("L3", ()), cache.mask, _vendor(root))


def node_of(settings: AgentSettings, root: host.Root, hooks: Iterable[Hook]) -> Node:
    """Return a node without documents, from the settings and the machine."""
    gates = settings.gates
    return Node(
        gates=frozenset(row.name for row in hooks if gates.get(row.name, row.default)),
        disabled_stages=frozenset(settings.disabled_stages),
        fail=settings.failure_policy == "Fail",
        batch_pools=gates.get(BATCH_POOLS, False),
        keep_quota=settings.keep_quota,
        gpu_library=settings.gpu.library,
        gpu_monitor=settings.gpu.monitor,
        quirks=Quirks.REFERENCE if settings.compat == "reference" else Quirks.DEFAULT,
        cache=cache_of(root),
        devices=RdmaDevices(root),
    )


def _vendor(root: host.Root) -> str:
    for line in (root.find("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "vendor_id":
            return value.strip()
    return ""
