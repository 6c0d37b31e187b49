"""The rule for CPU sets from a NodeResourceTopology's annotations: share pools, the kubelet's policy, system CPUs.

Next: `nri.policies.koordinator.hooks.cpuset`, which decides by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nri.api import cpuset
from nri.policies.koordinator import names
from nri.policies.koordinator.pod_annotations import read
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.shapes import INT32, Items, Record, Table

__all__ = ["CpusetRule", "SharePool", "parse"]

_POOLS = Items(Record({"socket": INT32, "node": INT32, "cpuset": str}))
_POLICY = Record({"policy": str, "options": Table(str), "reservedCPUs": str})
_SYSTEM = Record({"cpuset": str, "cpusetExclusive": bool})


class SharePool(NamedTuple):
    """The CPUs of one memory node that pods without CPUs of their own share."""

    socket: int
    node: int
    cpus: str


class CpusetRule(NamedTuple):
    """The owners of CPUs. `kubelet_policy` is `static`, `none` or "" for not known."""

    share_pools: tuple[SharePool, ...] = ()
    batch_pools: tuple[SharePool, ...] = ()
    kubelet_policy: str = ""
    system_cpus: str = ""

    def shared(self) -> str:
        """All CPUs of the share pools, in their order."""
        return ",".join(pool.cpus for pool in self.share_pools)


def parse(topology: Any, quirks: Quirks = Quirks.DEFAULT) -> CpusetRule:
    """Read a NodeResourceTopology. Raises ValueError naming the annotation that cannot be read."""
    if not isinstance(topology, dict):
        raise ValueError("there is no NodeResourceTopology")  # noqa: TRY004  (a bad source, not a bad call)
    annotations: Mapping[str, str] = (topology.get("metadata") or {}).get("annotations") or {}
    system = (read(annotations, names.ANNOTATION_SYSTEM_QOS, _SYSTEM) or {}).get("cpuset", "")
    _checked(system, names.ANNOTATION_SYSTEM_QOS)
    return CpusetRule(
        share_pools=_pools(annotations, names.ANNOTATION_SHARE_POOLS, quirks),
        batch_pools=_pools(annotations, names.ANNOTATION_BE_SHARE_POOLS, quirks),
        kubelet_policy=(read(annotations, names.ANNOTATION_CPU_MANAGER, _POLICY) or {}).get("policy", ""),
        system_cpus=system,
    )


def _pools(annotations: Mapping[str, str], key: str, quirks: Quirks) -> tuple[SharePool, ...]:
    pools = tuple(
        SharePool(each.get("socket", 0), each.get("node", 0), each.get("cpuset", ""))
        for each in read(annotations, key, _POOLS) or ()
    )
    if quirks.bad_share_pool_refused:
        for pool in pools:
            _checked(pool.cpus, key)
    return pools


def _checked(cpus: str, key: str) -> None:
    try:
        cpuset.parse(cpus)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None
