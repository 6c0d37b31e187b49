"""Convert requests of Koordinator's hook protocol to pods and containers, and changes to responses.

Requests and responses are dicts with the protocol's field names (`pod_meta`, `container_resources`). The protocol
cannot express mounts, devices and RDT classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator.batch_resource import annotated
from nri.agent.model import Changes, Container, Pod, Resources
from nri.agent.transports.messages import container_id

#: The field of the protocol for each knob.
_FIELDS = {
    "cpuset.cpus": "cpuset_cpus",
    "cpu.cfs_quota": "cpu_quota",
    "cpu.shares": "cpu_shares",
    "memory.limit": "memory_limit_in_bytes",
    "oom_score_adj": "oom_score_adj",
}


def pod_context(request: Mapping[str, Any]) -> Pod:
    """Return the pod of a PodSandboxHookRequest. The resources in the request are ignored."""
    return _pod(request, "labels", "annotations", "cgroup_parent")


def container_context(
    request: Mapping[str, Any], runtime: str = "containerd", driver: str = paths.SYSTEMD
) -> Container:
    """Return the container of a ContainerResourceHookRequest."""
    pod = _pod(request, "pod_labels", "pod_annotations", "pod_cgroup_parent")
    meta = request.get("container_meta") or {}
    number = container_id(meta.get("id", ""), pod.annotations, runtime)
    resources = request.get("container_resources")
    return Container(
        pod=pod,
        id=number,
        name=meta.get("name", ""),
        folder=paths.container_path(pod.folder, number, driver),
        env=request.get("container_envs") or {},
        resources=None if resources is None else _resources(resources),
        extended=(pod.extended or {}).get(meta.get("name", "")),
    )


def pod_response(changes: Changes, response: Mapping[str, Any]) -> dict[str, Any]:
    """Add changes to a PodSandboxHookResponse."""
    return _with_resources(changes, response, "resources")


def container_response(changes: Changes, response: Mapping[str, Any]) -> dict[str, Any]:
    """Add changes to a ContainerResourceHookResponse. An empty list of CPUs clears the CPUs."""
    answer = _with_resources(changes, response, "container_resources")
    if changes.env:
        answer["container_envs"] = {**(response.get("container_envs") or {}), **changes.env}
    return answer


def _pod(request: Mapping[str, Any], labels: str, annotations: str, parent: str) -> Pod:
    meta, pod_annotations = request.get("pod_meta") or {}, request.get(annotations) or {}
    return Pod(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        labels=request.get(labels) or {},
        annotations=pod_annotations,
        folder=request.get(parent) or "",
        extended=annotated(pod_annotations),
    )


def _resources(fields: Mapping[str, Any]) -> Resources:
    return Resources(
        cpu_shares=fields.get("cpu_shares") or None,
        cfs_quota=fields.get("cpu_quota") or None,
        cpuset=fields.get("cpuset_cpus") or None,
        memory_limit=max(fields.get("memory_limit_in_bytes") or 0, -1) or None,
    )


def _with_resources(changes: Changes, response: Mapping[str, Any], name: str) -> dict[str, Any]:
    values = {field: changes.knobs[knob] for knob, field in _FIELDS.items() if knob in changes.knobs}
    return {**response, name: {**(response.get(name) or {}), **values}} if values else dict(response)
