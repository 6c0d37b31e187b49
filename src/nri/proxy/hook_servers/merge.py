"""The changes of a CRI request by a hook server's response, by the rules of Koordinator's proxy.

All values are dicts with the protocol's field names; 0 and "" are "not set". CPUs of a response always count, so that
"" clears them. Next: `nri.proxy.hook_servers.requests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "container_after_response",
    "merged_map",
    "pod_after_response",
    "resources_after_response",
    "resources_after_update",
]

_POSITIVE = ("cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")
_CPUS = ("cpuset_cpus", "cpuset_mems")

Fields = Mapping[str, Any]


def merged_map(ours: Mapping[str, str] | None, theirs: Mapping[str, str] | None) -> dict[str, str]:
    """Return both maps in one; of one key the second value counts."""
    return {**(ours or {}), **(theirs or {})}


def resources_after_response(ours: Fields | None, theirs: Fields | None) -> dict[str, Any] | None:
    """Return resources after a hook server's word on them; nothing changes if either side has none."""
    if ours is None or theirs is None:
        return None if ours is None else dict(ours)
    merged = _merged(ours, theirs)
    if -1000 <= theirs.get("oom_score_adj", 0) <= 1000:
        merged["oom_score_adj"] = theirs.get("oom_score_adj", 0)
    merged.update({name: theirs.get(name, "") for name in _CPUS})
    return merged


def resources_after_update(ours: Fields | None, theirs: Fields | None) -> dict[str, Any] | None:
    """Return stored resources after an update of the CRI: CPUs count if they are set, the oom score never."""
    if ours is None or theirs is None:
        return None if ours is None else dict(ours)
    merged = _merged(ours, theirs)
    merged.update({name: theirs[name] for name in _CPUS if theirs.get(name)})
    return merged


def pod_after_response(pod: Fields, response: Fields) -> dict[str, Any]:
    """Return a pod's stored request after a hook server's response: what the CRI request then says."""
    after = dict(pod)
    for name in ("annotations", "labels"):
        after[name] = merged_map(pod.get(name), response.get(name))
    if response.get("cgroup_parent"):
        after["cgroup_parent"] = response["cgroup_parent"]
    return after


def container_after_response(container: Fields, response: Fields) -> dict[str, Any]:
    """Return a container's stored request after a hook server's response; its environment replaces the whole one."""
    after = dict(container)
    after["container_annotations"] = merged_map(
        container.get("container_annotations"), response.get("container_annotations")
    )
    after["container_resources"] = resources_after_response(
        container.get("container_resources"), response.get("container_resources")
    )
    if response.get("pod_cgroup_parent"):
        after["pod_cgroup_parent"] = response["pod_cgroup_parent"]
    if response.get("container_envs") is not None:
        after["container_envs"] = response["container_envs"]
    return after


def _merged(ours: Fields, theirs: Fields) -> dict[str, Any]:
    merged = dict(ours)
    merged.update({name: theirs[name] for name in _POSITIVE if theirs.get(name, 0) > 0})
    if theirs.get("cpu_quota"):  # -1 is a value
        merged["cpu_quota"] = theirs["cpu_quota"]
    merged["unified"] = merged_map(ours.get("unified"), theirs.get("unified"))
    return merged
