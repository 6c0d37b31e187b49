"""Apply a hook server's response to a CRI request, by the rules of Koordinator's proxy.

All values are dicts with the protocol's field names. 0 and "" mean "not set", with one exception: if a response has ""
as CPUs or memory nodes, the request's CPUs or memory nodes are cleared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POSITIVE = ("cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")
_CPUSETS = ("cpuset_cpus", "cpuset_mems")

Fields = Mapping[str, Any]


def merged_map(first: Mapping[str, str] | None, second: Mapping[str, str] | None) -> dict[str, str]:
    """Merge two maps. The second map's values override the first map's."""
    return {**(first or {}), **(second or {})}


def resources_after_response(stored: Fields | None, response: Fields | None) -> dict[str, Any] | None:
    """Return resources with the changes of a response. Nothing changes if either side has no resources."""
    if stored is None or response is None:
        return None if stored is None else dict(stored)
    merged = _with_changes(stored, response)
    if -1000 <= response.get("oom_score_adj", 0) <= 1000:
        merged["oom_score_adj"] = response.get("oom_score_adj", 0)
    merged.update({name: response.get(name, "") for name in _CPUSETS})
    return merged


def resources_after_update(stored: Fields | None, update: Fields | None) -> dict[str, Any] | None:
    """Return stored resources with the changes of an update over the CRI, except for the OOM score."""
    if stored is None or update is None:
        return None if stored is None else dict(stored)
    merged = _with_changes(stored, update)
    merged.update({name: update[name] for name in _CPUSETS if update.get(name)})
    return merged


def pod_after_response(pod: Fields, response: Fields) -> dict[str, Any]:
    """Return a pod's stored request with the changes of a response. The result becomes the CRI request."""
    after = dict(pod)
    for name in ("annotations", "labels"):
        after[name] = merged_map(pod.get(name), response.get(name))
    if response.get("cgroup_parent"):
        after["cgroup_parent"] = response["cgroup_parent"]
    return after


def container_after_response(container: Fields, response: Fields) -> dict[str, Any]:
    """Return a container's stored request with the changes of a response.

    An environment in the response replaces the stored environment.
    """
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


def _with_changes(stored: Fields, changes: Fields) -> dict[str, Any]:
    merged = dict(stored)
    merged.update({name: changes[name] for name in _POSITIVE if changes.get(name, 0) > 0})
    if changes.get("cpu_quota"):  # also -1, which means no limit
        merged["cpu_quota"] = changes["cpu_quota"]
    merged["unified"] = merged_map(stored.get("unified"), changes.get("unified"))
    return merged
