"""A container of the CRI as NRI's Container.

One job: `container` joins the OCI spec that was made for it, the configuration that was asked for, and its status.
Next: `nri.cri.convert.spec_fields`, which reads the spec.
"""

from __future__ import annotations

from functools import partial

from nri.api import messages as m
from nri.cri.convert.dropped import Converted, left_over
from nri.cri.convert.spec_fields import Spec, describe
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

__all__ = ["STATES", "container"]

#: The CRI's state, NRI's state. The CRI has none for a paused container.
STATES = {
    pb.CONTAINER_CREATED: m.ContainerState.CONTAINER_CREATED,
    pb.CONTAINER_RUNNING: m.ContainerState.CONTAINER_RUNNING,
    pb.CONTAINER_EXITED: m.ContainerState.CONTAINER_STOPPED,
    pb.CONTAINER_UNKNOWN: m.ContainerState.CONTAINER_UNKNOWN,
}
_PROFILES = {
    pb.SecurityProfile.RuntimeDefault: m.SecurityProfile.RUNTIME_DEFAULT,
    pb.SecurityProfile.Unconfined: m.SecurityProfile.UNCONFINED,
    pb.SecurityProfile.Localhost: m.SecurityProfile.LOCALHOST,
}
_SECURITY = "linux.security_context"
# Most of it reaches plugins by way of the spec: command and args are the process's args, and so on.
_CARRIED = {
    "metadata.name", "image.image", "image.user_specified_image", "command", "args", "envs[]", "devices[]", "labels",
    "annotations", "mounts[].container_path", "mounts[].host_path", "mounts[].readonly", "mounts[].propagation",
    "mounts[].recursive_read_only", "mounts[].mount_options", "linux.resources", "CDI_devices[]",
    f"{_SECURITY}.namespace_options", f"{_SECURITY}.run_as_user", f"{_SECURITY}.run_as_group",
    f"{_SECURITY}.run_as_username", f"{_SECURITY}.supplemental_groups", f"{_SECURITY}.supplemental_groups_policy",
    f"{_SECURITY}.seccomp",
}  # fmt: skip
_NO_FIELD = "NRI's Container has no field for it"


def container(
    status: pb.ContainerStatus, config: pb.ContainerConfig, spec: Spec, *, pod_id: str, pid: int = 0
) -> Converted[m.Container]:
    """Make the message of a container that plugins get.

    `spec` is the whole one: process, mounts, devices, namespaces, resources and the rest come from it. The request's
    annotations win over the spec's. From `status` come the id, state, times (Unix, nanoseconds), exit and image; the
    image's digest is `image_ref`, the digest of its configuration `image_id`.

    Raises:
        RequestError: the request has a kind of seccomp profile that is not known here.
    """
    made = m.Container(
        id=status.id,
        pod_sandbox_id=pod_id,
        name=config.metadata.name,
        state=STATES.get(status.state, m.ContainerState.CONTAINER_UNKNOWN),
        labels=config.labels,
        annotations={**(spec.get("annotations") or {}), **config.annotations},
        pid=pid,
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        status_reason=status.reason or _reason(status),
        status_message=status.message,
        image=m.Image(
            name=config.image.user_specified_image or config.image.image,
            digest=status.image_ref,
            config_digest=status.image_id,
        ),
    )
    made.CDI_devices.extend(m.CDIDevice(name=device.name) for device in config.CDI_devices)
    describe(made, spec)
    security = config.linux.security_context
    if security.HasField("seccomp"):
        profile = _PROFILES.get(security.seccomp.profile_type)
        if profile is None:
            raise RequestError(f"{_SECURITY}.seccomp.profile_type", security.seccomp.profile_type, "is not known")
        made.linux.seccomp_profile.profile_type = profile
        made.linux.seccomp_profile.localhost_ref = security.seccomp.localhost_ref
    return Converted(made, partial(left_over, config, _CARRIED, _NO_FIELD))


def _reason(status: pb.ContainerStatus) -> str:
    """Say how a container ended, in containerd's words."""
    if status.state != pb.CONTAINER_EXITED:
        return ""
    return "Error" if status.exit_code else "Completed"
