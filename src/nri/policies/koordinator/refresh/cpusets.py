"""CPUs of running containers, pause containers and host applications when the node's topology has changed.

Next: `nri.policies.koordinator.refresh.identities`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.policies import manifest
from nri.policies.koordinator.hooks import cpuset
from nri.policies.koordinator.refresh.running import Refresh
from nri.policies.koordinator.rules.node_topology import CpusetRule
from nri.policies.running import RunningPod

__all__ = ["cpus"]


def cpus(pods: Iterable[RunningPod], rule: CpusetRule | None, *, batch_pools: bool = False) -> Refresh:
    """Return the CPUs of all containers. A pod whose annotation cannot be read keeps what it has."""
    refresh = Refresh()
    for pod in pods:
        names = () if manifest.ignored(pod.pod) else manifest.containers_of(pod.pod)
        for context in (*map(pod.container, names), pod.sandbox()):
            refresh.container(context, lambda each: cpuset.container_cpus(each, rule, batch_pools=batch_pools))
    return refresh
