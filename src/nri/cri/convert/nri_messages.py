"""A pod and a container of the CRI as the messages that plugins get, and a request of the CRI as a part of a spec.

`pod_sandbox` and `container` join the configuration that was asked for, the status, and the OCI spec that was made, a
plain dict as JSON has it; `describe` fills a Container from a spec; `requested` makes of a request alone what a spec
would say. Pure. Fields of the spec that NRI does not have are not looked at: they are the runtime's own. Texts of
enums that the API does not know become its 0, as in the reference. The image's command,
variables and user, and additions of runtimes, are not in `requested`. Next: `nri.cri.convert.resources`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from nri.api import messages as m
from nri.api.optional import put
from nri.cri.convert.dropped import Converted, left_over
from nri.cri.convert.resources import from_oci, to_nri
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

__all__ = ["STATES", "Spec", "container", "describe", "namespaces", "pod_sandbox", "requested"]


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
_CONTAINER_FIELDS = {
    "metadata.name", "image.image", "image.user_specified_image", "command", "args", "envs[]", "devices[]", "labels",
    "annotations", "mounts[].container_path", "mounts[].host_path", "mounts[].readonly", "mounts[].propagation",
    "mounts[].recursive_read_only", "mounts[].mount_options", "linux.resources", "CDI_devices[]",
    f"{_SECURITY}.namespace_options", f"{_SECURITY}.run_as_user", f"{_SECURITY}.run_as_group",
    f"{_SECURITY}.run_as_username", f"{_SECURITY}.supplemental_groups", f"{_SECURITY}.supplemental_groups_policy",
    f"{_SECURITY}.seccomp",
}  # fmt: skip
_NO_CONTAINER = "NRI's Container has no field for it"


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
    return Converted(made, partial(left_over, config, _CONTAINER_FIELDS, _NO_CONTAINER))


def _reason(status: pb.ContainerStatus) -> str:
    """Say how a container ended, in containerd's words."""
    if status.state != pb.CONTAINER_EXITED:
        return ""
    return "Error" if status.exit_code else "Completed"


_POD_FIELDS = {
    "metadata.name", "metadata.uid", "metadata.namespace", "labels", "annotations", "linux.cgroup_parent",
    "linux.overhead", "linux.resources",
}  # fmt: skip
_NO_POD = "NRI's PodSandbox has no field for it"


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
        parts.append(_set_pod(made.linux.pod_overhead, config.linux.overhead, "linux.overhead"))
    if config.linux.HasField("resources"):
        parts.append(_set_pod(made.linux.pod_resources, config.linux.resources, "linux.resources"))
    return Converted(
        made,
        lambda: [*left_over(config, _POD_FIELDS, _NO_POD), *(one for part in parts for one in part.dropped)],
    )


def _set_pod(target: m.LinuxResources, asked: pb.LinuxContainerResources, path: str) -> Converted[m.LinuxResources]:
    """Set a part of the pod's resources."""
    found = to_nri(asked, path)
    target.CopyFrom(found.value)
    return found


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


#: An OCI runtime spec, or a part of one.
Spec = dict[str, Any]
#: Field of NRI's message, key of the spec.
HOOKS = {
    "prestart": "prestart", "create_runtime": "createRuntime", "create_container": "createContainer",
    "start_container": "startContainer", "poststart": "poststart", "poststop": "poststop",
}  # fmt: skip


def describe(made: m.Container, spec: Spec) -> None:
    """Set in `made` all that the spec says."""
    process = spec.get("process") or {}
    made.args.extend(process.get("args") or ())
    made.env.extend(process.get("env") or ())
    user = process.get("user") or {}
    made.user.uid, made.user.gid = user.get("uid", 0), user.get("gid", 0)
    made.user.additional_gids.extend(user.get("additionalGids") or ())
    for limit in process.get("rlimits") or ():
        made.rlimits.add(type=limit["type"], hard=limit["hard"], soft=limit["soft"])
    for mount in spec.get("mounts") or ():
        made.mounts.add(
            destination=mount["destination"],
            type=mount.get("type") or "",
            source=mount.get("source") or "",
            options=mount.get("options") or (),
        )
    for field, key in HOOKS.items():
        for hook in (spec.get("hooks") or {}).get(key) or ():
            added = getattr(made.hooks, field).add(
                path=hook["path"], args=hook.get("args") or (), env=hook.get("env") or ()
            )
            put(added, "timeout", hook.get("timeout"))
    _linux(made.linux, spec.get("linux") or {}, process)


def _linux(made: m.LinuxContainer, linux: Spec, process: Spec) -> None:
    made.namespaces.extend(namespaces(linux))
    for device in linux.get("devices") or ():
        added = made.devices.add(
            path=device["path"], type=device["type"], major=device.get("major", 0), minor=device.get("minor", 0)
        )
        for field, key in (("file_mode", "fileMode"), ("uid", "uid"), ("gid", "gid")):
            put(added, field, device.get(key))
    made.resources.CopyFrom(from_oci(linux.get("resources") or {}).value)
    made.cgroups_path = linux.get("cgroupsPath") or ""
    made.sysctl.update(linux.get("sysctl") or {})
    for host, device in (linux.get("netDevices") or {}).items():
        made.net_devices[host].name = (device or {}).get("name") or ""
    put(made, "oom_score_adj", process.get("oomScoreAdj"))
    if seccomp := linux.get("seccomp"):
        _seccomp(made.seccomp_policy, seccomp)
    if rdt := linux.get("intelRdt"):
        put(made.rdt, "clos_id", rdt.get("closID"))
        put(made.rdt, "schemata", rdt.get("schemata"))
        put(made.rdt, "enable_monitoring", rdt.get("enableMonitoring"))
    if priority := process.get("ioPriority"):
        made.io_priority.priority = priority.get("priority", 0)
        setattr(made.io_priority, "class", _number(m.IOPrioClass, priority.get("class")))
    if scheduler := process.get("scheduler"):
        _scheduler(made.scheduler, scheduler)


def namespaces(linux: Spec) -> list[m.LinuxNamespace]:
    """The namespaces of a spec's ``linux``."""
    return [m.LinuxNamespace(type=each["type"], path=each.get("path") or "") for each in linux.get("namespaces") or ()]


def _seccomp(made: m.LinuxSeccomp, policy: Spec) -> None:
    made.default_action = policy.get("defaultAction", "")
    put(made, "default_errno", policy.get("defaultErrnoRet"))
    made.architectures.extend(policy.get("architectures") or ())
    made.flags.extend(policy.get("flags") or ())
    made.listener_path = policy.get("listenerPath") or ""
    made.listener_metadata = policy.get("listenerMetadata") or ""
    for call in policy.get("syscalls") or ():
        added = made.syscalls.add(names=call.get("names") or (), action=call["action"])
        put(added, "errno_ret", call.get("errnoRet"))
        for arg in call.get("args") or ():
            added.args.add(index=arg["index"], value=arg["value"], value_two=arg.get("valueTwo") or 0, op=arg["op"])


def _scheduler(made: m.LinuxScheduler, scheduler: Spec) -> None:
    made.policy = _number(m.LinuxSchedulerPolicy, scheduler.get("policy"))
    for field in ("nice", "priority", "runtime", "deadline", "period"):
        setattr(made, field, scheduler.get(field) or 0)
    made.flags.extend(_number(m.LinuxSchedulerFlag, flag) for flag in scheduler.get("flags") or ())


def _number(enum: Any, name: str | None) -> Any:
    return dict(enum.items()).get(name or "", 0)
