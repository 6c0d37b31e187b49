"""A pod sandbox of the CRI as NRI's PodSandbox.

One job: `pod_sandbox` joins the configuration that made the pod, its status, and the spec of what holds it. Next:
`nri.cri.convert.container`.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.cri.convert.dropped import Converted, left_over
from nri.cri.convert.resources import from_oci, to_nri
from nri.cri.convert.spec_fields import Spec, namespaces
from nri.cri.pb import api_pb2 as pb

__all__ = ["pod_sandbox"]

_CARRIED = {
    "metadata.name", "metadata.uid", "metadata.namespace", "labels", "annotations", "linux.cgroup_parent",
    "linux.overhead", "linux.resources",
}  # fmt: skip
_NO_FIELD = "NRI's PodSandbox has no field for it"


def pod_sandbox(
    status: pb.PodSandboxStatus, config: pb.PodSandboxConfig, spec: Spec | None = None, *, pid: int = 0
) -> Converted[m.PodSandbox]:
    """Make the message of a pod that plugins get.

    From `status` come the id, the runtime handler and the addresses, the primary one first. `spec` may be a part of an
    OCI spec, for a pod without a container of its own; its annotations win over those of the request. Namespaces whose
    path is gone are the caller's to leave out: this function looks at no file.
    """
    spec = spec or {}
    linux = spec.get("linux") or {}
    made = m.PodSandbox(
        id=status.id,
        name=config.metadata.name,
        uid=config.metadata.uid,
        namespace=config.metadata.namespace,
        labels=config.labels,
        annotations={**config.annotations, **(spec.get("annotations") or {})},
        runtime_handler=status.runtime_handler,
        pid=pid,
        ips=[ip for ip in (status.network.ip, *(one.ip for one in status.network.additional_ips)) if ip],
    )
    made.linux.cgroup_parent = config.linux.cgroup_parent
    made.linux.cgroups_path = linux.get("cgroupsPath") or ""
    made.linux.namespaces.extend(namespaces(linux))
    made.linux.resources.CopyFrom(from_oci(linux.get("resources") or {}).value)
    parts = []
    if config.linux.HasField("overhead"):
        parts.append(_resources(made.linux.pod_overhead, config.linux.overhead, "linux.overhead"))
    if config.linux.HasField("resources"):
        parts.append(_resources(made.linux.pod_resources, config.linux.resources, "linux.resources"))
    return Converted(
        made, lambda: [*left_over(config, _CARRIED, _NO_FIELD), *(one for part in parts for one in part.dropped)]
    )


def _resources(target: m.LinuxResources, asked: pb.LinuxContainerResources, path: str) -> Converted[m.LinuxResources]:
    """Set a part of the pod's resources."""
    found = to_nri(asked, path)
    target.CopyFrom(found.value)
    return found
