"""The rule for CPU sets from a NodeResourceTopology's annotations: share pools, kubelet's policy, CPUs of the system.

Next: `nri.agent.koordinator.cpuset`, which decides by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from nri.agent.koordinator import names
from nri.agent.koordinator.pod_annotations import read
from nri.agent.koordinator.quirks import Quirks
from nri.api import cpuset
from nri.kube.quantity import ceil
from nri.policies.shapes import INT32, QUANTITY, Items, Record, Table

__all__ = ["SHAPES", "CpusetRule", "SharePool", "parse", "reserved_milli"]

_POOLS = Items(Record({"socket": INT32, "node": INT32, "cpuset": str}))
_POLICY = Record({"policy": str, "options": Table(str), "reservedCPUs": str})
_SYSTEM = Record({"cpuset": str, "cpusetExclusive": bool})
#: Resources that a node keeps from pods, by an annotation of its own or of its topology.
_RESERVATION = Record({"resources": Table(QUANTITY), "reservedCPUs": str, "applyPolicy": str})
#: The keys that are read of each annotation.
SHAPES = {
    names.ANNOTATION_SHARE_POOLS: _POOLS,
    names.ANNOTATION_BE_SHARE_POOLS: _POOLS,
    names.ANNOTATION_CPU_MANAGER: _POLICY,
    names.ANNOTATION_SYSTEM_QOS: _SYSTEM,
    names.ANNOTATION_RESERVATION: _RESERVATION,
}


class SharePool(NamedTuple):
    """The CPUs of one memory node that pods without CPUs of their own share."""

    socket: int
    node: int
    cpus: str


class CpusetRule(NamedTuple):
    """The owners of CPUs. `kubelet_policy` is `static`, `none` or "" for not known.

    `withheld` are the CPUs that no batch pod gets: those reserved by node or kubelet, and those of SYSTEM pods alone.
    """

    share_pools: tuple[SharePool, ...] = ()
    batch_pools: tuple[SharePool, ...] = ()
    kubelet_policy: str = ""
    system_cpus: str = ""
    withheld: frozenset[int] = frozenset()

    def shared(self) -> str:
        """All CPUs of the share pools, in their order."""
        return ",".join(pool.cpus for pool in self.share_pools)


def parse(topology: Any, quirks: Quirks = Quirks.DEFAULT) -> CpusetRule:
    """Read a NodeResourceTopology. Raises ValueError naming the annotation that cannot be read."""
    if not isinstance(topology, dict):
        raise ValueError("there is no NodeResourceTopology")  # noqa: TRY004  (a bad source, not a bad call)
    annotations: Mapping[str, str] = (topology.get("metadata") or {}).get("annotations") or {}
    system = read(annotations, names.ANNOTATION_SYSTEM_QOS, _SYSTEM) or {}
    system_cpus = system.get("cpuset", "")
    own = _checked(system_cpus, names.ANNOTATION_SYSTEM_QOS)
    kubelet = read(annotations, names.ANNOTATION_CPU_MANAGER, _POLICY) or {}
    reservation = read(annotations, names.ANNOTATION_RESERVATION, _RESERVATION) or {}
    reserved = _checked(reservation.get("reservedCPUs", ""), names.ANNOTATION_RESERVATION)
    return CpusetRule(
        share_pools=_pools(annotations, names.ANNOTATION_SHARE_POOLS, quirks),
        batch_pools=_pools(annotations, names.ANNOTATION_BE_SHARE_POOLS, quirks),
        kubelet_policy=kubelet.get("policy", ""),
        system_cpus=system_cpus,
        withheld=(own if system.get("cpusetExclusive", True) else frozenset())
        | reserved
        | _checked(kubelet.get("reservedCPUs", ""), names.ANNOTATION_CPU_MANAGER),
    )


def reserved_milli(annotations: Mapping[str, str]) -> int:
    """Return the thousandths of CPUs that a node keeps from pods by its annotation; 0 if that cannot be read."""
    try:
        found = read(annotations, names.ANNOTATION_RESERVATION, _RESERVATION) or {}
        if found.get("reservedCPUs"):
            return 1000 * len(cpuset.parse(found["reservedCPUs"]))
        return ceil(found.get("resources", {}).get("cpu", Fraction(0)) * 1000)
    except ValueError:
        return 0


def _pools(annotations: Mapping[str, str], key: str, quirks: Quirks) -> tuple[SharePool, ...]:
    pools = tuple(
        SharePool(each.get("socket", 0), each.get("node", 0), each.get("cpuset", ""))
        for each in read(annotations, key, _POOLS) or ()
    )
    if quirks.bad_share_pool_refused:
        for pool in pools:
            _checked(pool.cpus, key)
    return pools


def _checked(cpus: str, key: str) -> frozenset[int]:
    try:
        return cpuset.parse(cpus)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None
