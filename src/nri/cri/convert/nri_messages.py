"""Build the messages of pods and containers that plugins receive from the CRI's requests and OCI specs.

A container's message combines the request's configuration, the CRI's status, and the OCI spec, a plain dict. Unknown
names of enums become 0, as in containerd.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from nri.api import messages as m
from nri.api.optional import put
from nri.cri.convert.dropped import Conversion, left_over
from nri.cri.convert.resources import from_oci, to_nri
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

#: NRI's state for each state of the CRI. The CRI does not have a state for paused containers.
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
# Most fields reach plugins through the spec: command and args are the process's args, for example.
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
) -> Conversion[m.Container]:
    """Build the message of a container.

    `spec` is complete: process, mounts, devices, namespaces and resources come from it. The request's annotations
    override the spec's annotations. `status` provides the id, state, times (Unix, nanoseconds), exit and image:
    `image_ref` is the image's digest, `image_id` the digest of its configuration.

    Raises:
        RequestError: the kind of the request's seccomp profile is unknown.
    """
    message = m.Container(
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
    message.CDI_devices.extend(m.CDIDevice(name=device.name) for device in config.CDI_devices)
    describe(message, spec)
    security = config.linux.security_context
    if security.HasField("seccomp"):
        profile = _PROFILES.get(security.seccomp.profile_type)
        if profile is None:
            raise RequestError(f"{_SECURITY}.seccomp.profile_type", security.seccomp.profile_type, "is unknown")
        message.linux.seccomp_profile.profile_type = profile
        message.linux.seccomp_profile.localhost_ref = security.seccomp.localhost_ref
    return Conversion(message, partial(left_over, config, _CONTAINER_FIELDS, _NO_CONTAINER))


def _reason(status: pb.ContainerStatus) -> str:
    """The reason for the end of a container, in containerd's words."""
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
) -> Conversion[m.PodSandbox]:
    """Build the message of a pod.

    `status` provides the id, the runtime handler and the addresses, the primary address first. `spec` may be partial,
    for a pod without a pause container. Its annotations override the request's annotations. Callers omit namespaces
    with a path that no longer exists.
    """
    spec = spec or {}
    linux = spec.get("linux") or {}
    message = m.PodSandbox(
        id=status.id,
        name=config.metadata.name,
        uid=config.metadata.uid,
        namespace=config.metadata.namespace,
        labels=config.labels,
        annotations={**config.annotations, **(spec.get("annotations") or {})},
        runtime_handler=status.runtime_handler,
        pid=pid,
        ips=[ip for ip in (status.network.ip, *(dropped.ip for dropped in status.network.additional_ips)) if ip],
    )
    message.linux.cgroup_parent = config.linux.cgroup_parent
    message.linux.cgroups_path = linux.get("cgroupsPath") or ""
    message.linux.namespaces.extend(namespaces(linux))
    message.linux.resources.CopyFrom(from_oci(linux.get("resources") or {}).value)
    parts = []
    if config.linux.HasField("overhead"):
        parts.append(_set_pod(message.linux.pod_overhead, config.linux.overhead, "linux.overhead"))
    if config.linux.HasField("resources"):
        parts.append(_set_pod(message.linux.pod_resources, config.linux.resources, "linux.resources"))
    return Conversion(
        message,
        lambda: [*left_over(config, _POD_FIELDS, _NO_POD), *(dropped for part in parts for dropped in part.dropped)],
    )


def _set_pod(
    target: m.LinuxResources, requested: pb.LinuxContainerResources, path: str
) -> Conversion[m.LinuxResources]:
    """Set the pod's overhead or resources."""
    converted = to_nri(requested, path)
    target.CopyFrom(converted.value)
    return converted


_PROPAGATION = {
    pb.PROPAGATION_PRIVATE: "rprivate",
    pb.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    pb.PROPAGATION_BIDIRECTIONAL: "rshared",
}
#: The fields of the CRI's message, with object and key in the spec.
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
    """Build a spec from the request alone: arguments, variables, user, mounts, resources, OOM score.

    It does not have the image's command, variables and user, nor the fields that a runtime adds.
    """
    security = config.linux.security_context
    process: dict[str, Any] = {
        "args": [*config.command, *config.args],
        "env": [f"{variable.key}={variable.value.decode(errors='replace')}" for variable in config.envs],
        "user": {
            "uid": max(security.run_as_user.value, 0),
            "gid": max(security.run_as_group.value, 0),
            "additionalGids": [gid for gid in security.supplemental_groups if gid >= 0],
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


def _resources(requested: pb.LinuxContainerResources) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for name, part, key in _RESOURCES:
        value = getattr(requested, name)
        if value and not (key in ("shares", "period") and value < 0):
            resources.setdefault(part, {})[key] = value
    if requested.hugepage_limits:
        resources["hugepageLimits"] = [
            {"pageSize": limit.page_size, "limit": limit.limit} for limit in requested.hugepage_limits
        ]
    if requested.unified:
        resources["unified"] = dict(requested.unified)
    return resources


#: An OCI runtime spec, or a part of one.
Spec = dict[str, Any]
#: The fields of NRI's message, with the key in the spec.
HOOKS = {
    "prestart": "prestart", "create_runtime": "createRuntime", "create_container": "createContainer",
    "start_container": "startContainer", "poststart": "poststart", "poststop": "poststop",
}  # fmt: skip


def describe(message: m.Container, spec: Spec) -> None:
    """Set every field of `message` that the spec provides."""
    process = spec.get("process") or {}
    message.args.extend(process.get("args") or ())
    message.env.extend(process.get("env") or ())
    user = process.get("user") or {}
    message.user.uid, message.user.gid = user.get("uid", 0), user.get("gid", 0)
    message.user.additional_gids.extend(user.get("additionalGids") or ())
    for limit in process.get("rlimits") or ():
        message.rlimits.add(type=limit["type"], hard=limit["hard"], soft=limit["soft"])
    for mount in spec.get("mounts") or ():
        message.mounts.add(
            destination=mount["destination"],
            type=mount.get("type") or "",
            source=mount.get("source") or "",
            options=mount.get("options") or (),
        )
    for field, key in HOOKS.items():
        for hook in (spec.get("hooks") or {}).get(key) or ():
            added = getattr(message.hooks, field).add(
                path=hook["path"], args=hook.get("args") or (), env=hook.get("env") or ()
            )
            put(added, "timeout", hook.get("timeout"))
    _linux(message.linux, spec.get("linux") or {}, process)


def _linux(message: m.LinuxContainer, linux: Spec, process: Spec) -> None:
    message.namespaces.extend(namespaces(linux))
    for device in linux.get("devices") or ():
        added = message.devices.add(
            path=device["path"], type=device["type"], major=device.get("major", 0), minor=device.get("minor", 0)
        )
        for field, key in (("file_mode", "fileMode"), ("uid", "uid"), ("gid", "gid")):
            put(added, field, device.get(key))
    message.resources.CopyFrom(from_oci(linux.get("resources") or {}).value)
    message.cgroups_path = linux.get("cgroupsPath") or ""
    message.sysctl.update(linux.get("sysctl") or {})
    for host, device in (linux.get("netDevices") or {}).items():
        message.net_devices[host].name = (device or {}).get("name") or ""
    put(message, "oom_score_adj", process.get("oomScoreAdj"))
    if seccomp := linux.get("seccomp"):
        _seccomp(message.seccomp_policy, seccomp)
    if rdt := linux.get("intelRdt"):
        put(message.rdt, "clos_id", rdt.get("closID"))
        put(message.rdt, "schemata", rdt.get("schemata"))
        put(message.rdt, "enable_monitoring", rdt.get("enableMonitoring"))
    if priority := process.get("ioPriority"):
        message.io_priority.priority = priority.get("priority", 0)
        setattr(message.io_priority, "class", _number(m.IOPrioClass, priority.get("class")))
    if scheduler := process.get("scheduler"):
        _scheduler(message.scheduler, scheduler)


def namespaces(linux: Spec) -> list[m.LinuxNamespace]:
    """The namespaces in a spec's ``linux``."""
    return [
        m.LinuxNamespace(type=entry["type"], path=entry.get("path") or "") for entry in linux.get("namespaces") or ()
    ]


def _seccomp(message: m.LinuxSeccomp, policy: Spec) -> None:
    message.default_action = policy.get("defaultAction", "")
    put(message, "default_errno", policy.get("defaultErrnoRet"))
    message.architectures.extend(policy.get("architectures") or ())
    message.flags.extend(policy.get("flags") or ())
    message.listener_path = policy.get("listenerPath") or ""
    message.listener_metadata = policy.get("listenerMetadata") or ""
    for call in policy.get("syscalls") or ():
        added = message.syscalls.add(names=call.get("names") or (), action=call["action"])
        put(added, "errno_ret", call.get("errnoRet"))
        for arg in call.get("args") or ():
            added.args.add(index=arg["index"], value=arg["value"], value_two=arg.get("valueTwo") or 0, op=arg["op"])


def _scheduler(message: m.LinuxScheduler, scheduler: Spec) -> None:
    message.policy = _number(m.LinuxSchedulerPolicy, scheduler.get("policy"))
    for field in ("nice", "priority", "runtime", "deadline", "period"):
        setattr(message, field, scheduler.get(field) or 0)
    message.flags.extend(_number(m.LinuxSchedulerFlag, flag) for flag in scheduler.get("flags") or ())


def _number(enum: Any, name: str | None) -> Any:
    return dict(enum.items()).get(name or "", 0)
