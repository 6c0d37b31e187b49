"""The namespaces of a container: joined ones, new ones, and those shared with the node.

The mode NODE uses the host's (without an entry in the spec). Of network and IPC, every other mode joins the pod's, as
in containerd; it is the node's if the pod shares that. Of processes, POD joins the pod's, CONTAINER creates a new one,
TARGET joins another container's. The host name belongs to the network: a pod on the node's network has the node's name.
"""

from __future__ import annotations

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Machine, Options, Pod
from nri.errors import RequestError

FIELD = "linux.security_context.namespace_options"
_MAX_IDS = 2**32 - 1  # the last number means "no id"
#: The kinds of namespaces that have a mode: fields of the CRI's message, and types of the spec.
_KINDS = ("network", "ipc", "pid")


def namespaces(config: pb.ContainerConfig, pod: Pod, options: Options) -> list[dict[str, str]]:
    """Return the ``linux.namespaces`` of a container.

    Raises:
        RequestError: the mode is unknown, or the pod has no such namespace.
    """
    requested = options_of(config, pod)
    check_modes(requested)
    rows: list[dict[str, str]] = []
    for kind in _KINDS:
        mode = getattr(requested, kind)
        if kind == "pid" and mode == pb.CONTAINER:
            rows.append({"type": kind})
        elif kind == "pid" and mode == pb.TARGET:
            rows.append({"type": kind, "path": _target(requested, options)})
        elif mode != pb.NODE and getattr(pod.config.linux.security_context.namespace_options, kind) != pb.NODE:
            rows.append({"type": kind, "path": _pod_namespace(pod, kind, f"{FIELD}.{kind}")})
    if requested.network != pb.NODE and "uts" in pod.namespaces:
        rows.append({"type": "uts", "path": pod.namespaces["uts"]})
    rows.append({"type": "mount"})
    if _has_own_cgroups(config.linux.security_context.privileged, options.machine):
        rows.append({"type": "cgroup"})
    if uses_user_namespace(requested):
        rows.append({"type": "user", "path": _pod_namespace(pod, "user", f"{FIELD}.userns_options.mode")})
    return rows


def options_of(config: pb.ContainerConfig, pod: Pod) -> pb.NamespaceOption:
    """Return the namespace options of a container, or those of its pod if the container has no options."""
    security = config.linux.security_context
    if security.HasField("namespace_options"):
        return security.namespace_options
    return pod.config.linux.security_context.namespace_options


def check_modes(options: pb.NamespaceOption) -> None:
    """Raise RequestError if a mode is unknown."""
    for kind in _KINDS:
        if (mode := getattr(options, kind)) not in pb.NamespaceMode.values():
            raise RequestError(f"{FIELD}.{kind}", mode, "is not a mode of namespaces")


def pod_namespaces(config: pb.PodSandboxConfig, machine: Machine) -> list[dict[str, str]]:
    """Return the ``linux.namespaces`` of a pause process. A namespace that the pod's containers share is new."""
    security = config.linux.security_context
    requested = security.namespace_options
    rows = [{"type": kind} for kind in _KINDS if getattr(requested, kind) != pb.NODE]
    if requested.network != pb.NODE:
        rows.append({"type": "uts"})
    rows.append({"type": "mount"})
    if _has_own_cgroups(security.privileged, machine):
        rows.append({"type": "cgroup"})
    if uses_user_namespace(requested):
        rows.append({"type": "user"})
    return rows


def uses_user_namespace(options: pb.NamespaceOption) -> bool:
    """Return whether IDs are mapped. Raises RequestError if the mode is neither POD nor NODE."""
    if not options.HasField("userns_options"):
        return False
    mode = options.userns_options.mode
    if mode not in (pb.POD, pb.NODE):
        raise RequestError(f"{FIELD}.userns_options.mode", _mode_name(mode), "must be POD or NODE")
    return mode == pb.POD


def id_mappings(options: pb.NamespaceOption) -> dict[str, list[dict[str, int]]]:
    """Return ``linux.uidMappings`` and ``linux.gidMappings``, or {} without a user namespace.

    Raises:
        RequestError: the request does not have exactly one mapping of users and one of groups, or a mapping is empty.
    """
    if not uses_user_namespace(options):
        return {}
    mappings = {}
    for key, field in (("uidMappings", "uids"), ("gidMappings", "gids")):
        rows = getattr(options.userns_options, field)
        if len(rows) != 1 or not rows[0].length:
            raise RequestError(
                f"{FIELD}.userns_options.{field}", len(rows), "must be exactly one mapping that is not empty"
            )
        if rows[0].container_id:
            raise RequestError(f"{FIELD}.userns_options.{field}", rows[0].container_id, "must start at id 0")
        if rows[0].host_id + rows[0].length > _MAX_IDS:
            raise RequestError(
                f"{FIELD}.userns_options.{field}", rows[0].length, f"exceeds the {_MAX_IDS} existing IDs"
            )
        mappings[key] = [{"containerID": row.container_id, "hostID": row.host_id, "size": row.length} for row in rows]
    return mappings


def _pod_namespace(pod: Pod, kind: str, field: str) -> str:
    if kind not in pod.namespaces:
        raise RequestError(field, "POD", f"pod {pod.id} has no separate {kind} namespace")
    return pod.namespaces[kind]


def _target(requested: pb.NamespaceOption, options: Options) -> str:
    if not requested.target_id or not options.target_pid_namespace:
        raise RequestError(f"{FIELD}.target_id", requested.target_id, "no running container of this pod has this id")
    return options.target_pid_namespace


def _has_own_cgroups(privileged: bool, machine: Machine) -> bool:
    """Return whether a container gets a cgroup namespace.

    With cgroup v1 it does not, because the namespace would show one controller only. A privileged container does not
    get one either.
    """
    return machine.cgroup_v2 and not privileged


def _mode_name(mode: int) -> str:
    return pb.NamespaceMode.Name(mode) if mode in pb.NamespaceMode.values() else str(mode)  # type: ignore[arg-type]
