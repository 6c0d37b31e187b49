"""Build a container's OCI spec with the functions of the other modules."""

from __future__ import annotations

from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import process, security
from nri.engine.spec.capabilities import capabilities
from nri.engine.spec.devices import devices
from nri.engine.spec.inputs import ImageConfig, Options, Pod, Result
from nri.engine.spec.mounts import mounts
from nri.engine.spec.namespaces import id_mappings, namespaces, options_of
from nri.engine.spec.resources import cgroups_path, container_resources, oom_score
from nri.engine.spec.user import user
from nri.errors import RequestError
from nri.text import plain

OCI_VERSION = "1.0.2"  # the newest version that runc 1.1 and crun 1.8 support


def container_spec(pod: Pod, config: pb.ContainerConfig, image: ImageConfig, options: Options) -> Result:
    """Build the spec of a container, before plugins adjust it and CDI devices are added.

    Raises:
        RequestError: the request is invalid or cannot be fulfilled; the error names field, value and reason.
    """
    context = config.linux.security_context
    notes: list[str] = []
    if context.privileged and not pod.config.linux.security_context.privileged:
        raise RequestError("linux.security_context.privileged", "true", "requires a privileged pod")
    if config.HasField("windows"):
        notes.append("windows: is ignored on Linux")
    security.check_selinux(
        context.selinux_options, any(mount.selinux_relabel for mount in config.mounts), options.machine, notes
    )
    mount_rows, propagation = mounts(config, pod, options)
    spec: dict[str, Any] = {
        "ociVersion": OCI_VERSION,
        "root": {"path": options.rootfs, "readonly": context.readonly_rootfs},
        "process": _process(pod, config, image, options, notes),
        "mounts": mount_rows,
        "annotations": {**options.base.annotations, **options.annotations, **_annotations(pod, config)},
        "linux": _linux(pod, config, options, notes),
    }
    if options.base.hooks:
        spec["hooks"] = {stage: [*hooks] for stage, hooks in options.base.hooks.items()}
    if propagation:
        spec["linux"]["rootfsPropagation"] = propagation
    return Result(spec, tuple(map(plain, notes)))


def _annotations(pod: Pod, config: pb.ContainerConfig) -> dict[str, str]:
    """Return the annotations of the spec. Their keys are containerd's, which plugins and OCI runtimes expect."""
    metadata = pod.config.metadata
    values = {
        "container-type": "container",
        "container-name": config.metadata.name,
        "image-name": config.image.user_specified_image or config.image.image,
        "sandbox-id": pod.id,
        "sandbox-name": metadata.name,
        "sandbox-namespace": metadata.namespace,
        "sandbox-uid": metadata.uid,
    }
    return {f"io.kubernetes.cri.{key}": value for key, value in values.items()}


def _process(
    pod: Pod, config: pb.ContainerConfig, image: ImageConfig, options: Options, notes: list[str]
) -> dict[str, Any]:
    context = config.linux.security_context
    spec: dict[str, Any] = {
        "terminal": config.tty,
        "user": user(config, image, options.account),
        "args": process.args(config, image),
        "env": process.environment(config, image, pod.config.hostname or options.machine.hostname, options.base.env),
        "cwd": process.cwd(config, image),
        "capabilities": capabilities(context, options.machine.capabilities, options.base.capabilities),
        "noNewPrivileges": context.no_new_privs,
        "oomScoreAdj": oom_score(config.linux.resources.oom_score_adj, options.machine, notes),
    }
    if options.umask is not None:
        spec["user"]["umask"] = options.umask
    if options.base.rlimits:
        spec["rlimits"] = [dict(row) for row in options.base.rlimits]
    if profile := security.apparmor(context, options.machine, options.apparmor_default, notes):
        spec["apparmorProfile"] = profile
    return spec


def _linux(pod: Pod, config: pb.ContainerConfig, options: Options, notes: list[str]) -> dict[str, Any]:
    context = config.linux.security_context
    nodes, rules = devices(config, options)
    resources = {"devices": rules, **container_resources(config.linux.resources, options.machine, notes)}
    if options.pids_limit > 0:
        resources["pids"] = {"limit": options.pids_limit}
    spec: dict[str, Any] = {
        "namespaces": namespaces(config, pod, options),
        "cgroupsPath": cgroups_path(
            pod.config.linux.cgroup_parent, options.container_id, systemd=options.systemd_cgroup
        ),
        "resources": resources,
        "devices": nodes,
        **id_mappings(options_of(config, pod)),
        **security.paths(context),
    }
    bounding = capabilities(context, options.machine.capabilities, options.base.capabilities)["bounding"]
    profiles = options.localhost_seccomp, options.default_seccomp
    if profile := security.seccomp(context, options.machine, bounding, *profiles):
        spec["seccomp"] = profile
    return spec
