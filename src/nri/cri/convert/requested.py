"""The part of an OCI spec that a request of the CRI says by itself, before a runtime has made the spec.

One job: `requested`, for what sees requests only. Rules: pure; what comes from the image (its command, variables and
user) and what runtimes add is not there. Next: `nri.cri.convert.container`, which shows a spec to plugins.
"""

from __future__ import annotations

from typing import Any

from nri.cri.convert.spec_fields import Spec
from nri.cri.pb import api_pb2 as pb

__all__ = ["requested"]

_PROPAGATION = {
    pb.PROPAGATION_PRIVATE: "rprivate",
    pb.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    pb.PROPAGATION_BIDIRECTIONAL: "rshared",
}
#: Of the CRI's message; object and key of the spec's.
_RESOURCES = (
    ("cpu_shares", "cpu", "shares"),
    ("cpu_quota", "cpu", "quota"),
    ("cpu_period", "cpu", "period"),
    ("cpuset_cpus", "cpu", "cpus"),
    ("cpuset_mems", "cpu", "mems"),
    ("memory_limit_in_bytes", "memory", "limit"),
    ("memory_swap_limit_in_bytes", "memory", "swap"),
)


def requested(config: pb.ContainerConfig) -> Spec:
    """Make a spec of a container's configuration alone: arguments, variables, user, mounts, resources, OOM score."""
    security = config.linux.security_context
    process: dict[str, Any] = {
        "args": [*config.command, *config.args],
        "env": [f"{each.key}={each.value.decode(errors='replace')}" for each in config.envs],
        "user": {
            "uid": max(security.run_as_user.value, 0),
            "gid": max(security.run_as_group.value, 0),
            "additionalGids": [each for each in security.supplemental_groups if each >= 0],
        },
        "oomScoreAdj": config.linux.resources.oom_score_adj,
    }
    mounts = [
        {
            "destination": mount.container_path,
            "type": "bind",
            "source": mount.host_path,
            "options": [
                "rbind",
                _PROPAGATION.get(mount.propagation, "rprivate"),
                ("rro" if mount.recursive_read_only else "ro") if mount.readonly else "rw",
            ],
        }
        for mount in config.mounts
    ]
    return {"process": process, "mounts": mounts, "linux": {"resources": _resources(config.linux.resources)}}


def _resources(asked: pb.LinuxContainerResources) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, part, key in _RESOURCES:
        value = getattr(asked, name)
        if value and not (key in ("shares", "period") and value < 0):
            made.setdefault(part, {})[key] = value
    if asked.hugepage_limits:
        made["hugepageLimits"] = [{"pageSize": each.page_size, "limit": each.limit} for each in asked.hugepage_limits]
    if asked.unified:
        made["unified"] = dict(asked.unified)
    return made
