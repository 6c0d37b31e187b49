"""Room in a pod's folder: no quota of a pod below what the runtime makes its containers with.

On cgroup v1 the kernel refuses a quota above that of the folder above. In standalone mode the runtime knows nothing of
smaller quotas: it makes each container with what the pod asks for, also when one is started again, and under a pod with
less the container would not start. There a pod keeps what it asks for; its containers have the smaller quotas. On
cgroup v2 a child may say more than its parent. Next: :mod:`nri.agent.transports.standalone.pods`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.host.cgroups.hierarchies import Hierarchies
from nri.policies.koordinator.contexts import PodContext
from nri.policies.koordinator.writes import Write

__all__ = ["with_room"]

_QUOTA = "cpu.cfs_quota"
_WHY = "what its containers are made with, or they could not start"


def with_room(writes: Iterable[Write], context: PodContext, hierarchies: Hierarchies) -> list[Write]:
    """The writes of a pod's folder, with the quota that it asks for in place of a smaller one."""
    hierarchy = hierarchies.of("cpu")
    asked = None if context.resources is None else context.resources.cfs_quota
    if hierarchy is None or hierarchy.version != 1 or asked is None or asked <= 0:
        return list(writes)
    return [
        Write(each.folder, _QUOTA, str(asked), _WHY) if each.knob == _QUOTA and 0 < int(each.value) < asked else each
        for each in writes
    ]
