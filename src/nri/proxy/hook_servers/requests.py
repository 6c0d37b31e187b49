"""Create hook requests from CRI requests and stored requests. All values are dicts with the protocol's field names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.proxy.hook_servers.merge import resources_after_update

#: Pods with this label are never passed to hook servers, because a hook server could block its own pod.
SKIP_LABEL = ("runtimeproxy.koordinator.sh/skip-hookserver", "true")

Fields = Mapping[str, Any]


def pod_of_run(request: Fields) -> dict[str, Any]:
    """Return the hook request for a RunPodSandbox request."""
    config = request.get("config") or {}
    pod = _pod(config, config, request)
    return pod | _without_none(cgroup_parent=(config.get("linux") or {}).get("cgroup_parent"))


def container_of_create(request: Fields, pod: Fields) -> dict[str, Any]:
    """Return the hook request for a CreateContainer request of a stored pod."""
    config = request.get("config") or {}
    parent = ((request.get("sandbox_config") or {}).get("linux") or {}).get("cgroup_parent")
    return _without_none(
        pod_meta=pod.get("pod_meta"),
        pod_resources=pod.get("resources"),
        pod_annotations=pod.get("annotations"),
        pod_labels=pod.get("labels"),
        container_meta=_container_meta(config),
        container_annotations=config.get("annotations"),
        container_resources=(config.get("linux") or {}).get("resources") or {},
        pod_cgroup_parent=parent,
        container_envs=env_of_cri(config.get("envs")),
    )


def container_of_update(request: Fields, stored: Fields) -> dict[str, Any]:
    """Return the hook request for an UpdateContainerResources request of a stored container."""
    merged = resources_after_update(stored.get("container_resources"), request.get("linux") or {})
    return {**stored, **_without_none(container_resources=merged)}


def skipped(labels: Mapping[str, str] | None, label: tuple[str, str] = SKIP_LABEL) -> bool:
    """Whether a pod is not passed to hook servers."""
    return (labels or {}).get(label[0]) == label[1]


def env_of_cri(entries: Any) -> dict[str, str]:
    """Return the environment of a CRI request, whose values may be bytes, as a map."""
    pairs = ((entry.get("key", ""), entry.get("value", "")) for entry in entries or ())
    return {key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for key, value in pairs}


def _pod(meta: Fields, config: Fields, request: Fields) -> dict[str, Any]:
    pod_meta = {
        key: value for key, value in (meta.get("metadata") or {}).items() if key in ("name", "uid", "namespace")
    }
    return _without_none(
        pod_meta=pod_meta,
        runtime_handler=request.get("runtime_handler"),
        annotations=config.get("annotations"),
        labels=config.get("labels"),
    )


def _container_meta(config: Fields) -> dict[str, Any]:
    return {key: value for key, value in (config.get("metadata") or {}).items() if key in ("name", "attempt")}


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
