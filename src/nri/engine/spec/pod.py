"""The OCI spec of a pod's pause process, with as few rights as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import namespaces, security
from nri.engine.spec.container import OCI_VERSION
from nri.engine.spec.devices import devices
from nri.engine.spec.inputs import Options, Result
from nri.engine.spec.process import PATH
from nri.engine.spec.resources import cgroups_path, oom_score
from nri.engine.spec.sysctls import pod_sysctls
from nri.engine.spec.user import checked_id, supplemental_groups
from nri.errors import RequestError
from nri.text import plain

#: The OOM score of a pause process, as set by the kubelet, so that it is nearly never killed.
OOM_SCORE = -998
_SHARES = 2  # the minimum
_MASKED = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
)  # fmt: skip
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def pod_spec(pod_id: str, config: pb.PodSandboxConfig, args: Sequence[str], options: Options) -> Result:
    """Build the spec of a pause process. `options.container_id` is the name of its cgroup.

    Raises:
        RequestError: the request is invalid or cannot be fulfilled; the error names field, value and reason.
    """
    context = config.linux.security_context
    notes: list[str] = []
    if config.HasField("windows"):
        notes.append("windows: is ignored on Linux")
    security.check_selinux(context.selinux_options, False, options.machine, notes)
    spec: dict[str, Any] = {
        "ociVersion": OCI_VERSION,
        "root": {"path": options.rootfs, "readonly": True},
        "process": _process(config, args, options, notes),
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
            },
        ],
        "annotations": {**options.base.annotations, **options.annotations, **_annotations(pod_id, config)},
        "linux": _linux(config, options),
    }
    if config.hostname and context.namespace_options.network != pb.NODE:
        spec["hostname"] = config.hostname
    profile = security.seccomp(context, options.machine, (), options.localhost_seccomp, options.default_seccomp)
    if profile:
        spec["linux"]["seccomp"] = profile
    return Result(spec, tuple(map(plain, notes)))


def _process(config: pb.PodSandboxConfig, args: Sequence[str], options: Options, notes: list[str]) -> dict[str, Any]:
    context = config.linux.security_context
    if context.HasField("run_as_group") and not context.HasField("run_as_user"):
        value = context.run_as_group.value
        raise RequestError("linux.security_context.run_as_group", value, "requires run_as_user")
    gid = checked_id(context.run_as_group.value, "run_as_group")
    nothing: list[str] = []
    return {
        "terminal": False,
        "user": {
            "uid": checked_id(context.run_as_user.value, "run_as_user"),
            "gid": gid,
            "additionalGids": list(dict.fromkeys([gid, *supplemental_groups(context)])),
        },
        "args": list(args),
        "env": [f"PATH={PATH}"],
        "cwd": "/",
        "capabilities": {"bounding": nothing, "effective": nothing, "permitted": nothing},
        "noNewPrivileges": True,
        # Raised here, because a note about it would not help the author of a pod.
        "oomScoreAdj": oom_score(max(OOM_SCORE, options.machine.oom_score_floor), options.machine, notes),
    }


def _linux(config: pb.PodSandboxConfig, options: Options) -> dict[str, Any]:
    _, rules = devices(pb.ContainerConfig(), options)
    parent = config.linux.cgroup_parent
    return {
        "namespaces": namespaces.pod_namespaces(config, options.machine),
        "cgroupsPath": cgroups_path(parent, options.container_id, systemd=options.systemd_cgroup),
        "resources": {"devices": rules, "cpu": {"shares": _SHARES}},
        "sysctl": {sysctl.name: sysctl.value for sysctl in pod_sysctls(config)},
        "maskedPaths": list(_MASKED),
        "readonlyPaths": list(_READ_ONLY),
        **namespaces.id_mappings(config.linux.security_context.namespace_options),
    }


def _annotations(pod_id: str, config: pb.PodSandboxConfig) -> dict[str, str]:
    metadata = config.metadata
    values = {
        "container-type": "sandbox",
        "sandbox-id": pod_id,
        "sandbox-name": metadata.name,
        "sandbox-namespace": metadata.namespace,
        "sandbox-uid": metadata.uid,
        "sandbox-log-directory": config.log_directory,
    }
    return {f"io.kubernetes.cri.{key}": value for key, value in values.items()}
