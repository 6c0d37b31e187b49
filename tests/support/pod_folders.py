"""The cgroup of a pod as Kubernetes lists it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.pods import manifest

__all__ = ["pod_folder"]


def pod_folder(pod: Mapping[str, Any], driver: str = paths.SYSTEMD) -> str:
    """Return the folder that the kubelet makes for a pod."""
    return paths.pod_path(manifest.kube_class(pod), (pod.get("metadata") or {}).get("uid", ""), driver)
