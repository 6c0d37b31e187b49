"""The namespaces of a container: which it joins, which it gets for itself, which it shares with the node.

A table of modes: POD joins the pod's, CONTAINER makes a new one, NODE is the host's (no entry in the spec), TARGET
joins another container's. A container that says nothing is as its pod. The host name belongs to the network: a pod on
the node's network has the node's name.
"""

from __future__ import annotations

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Machine, Options, Pod
from nri.errors import RequestError

FIELD = "linux.security_context.namespace_options"
_MOST_IDS = 2**32 - 1  # the last is none
#: Field of the CRI's message, the spec's type, and the modes that there are for a container.
_KINDS = (
    ("network", "network", (pb.POD, pb.NODE)),
    ("ipc", "ipc", (pb.POD, pb.NODE)),
    ("pid", "pid", (pb.POD, pb.CONTAINER, pb.NODE, pb.TARGET)),
)


def namespaces(config: pb.ContainerConfig, pod: Pod, options: Options) -> list[dict[str, str]]:
    """The ``linux.namespaces`` of a container.

    Raises:
        RequestError: a mode that there is not, or a namespace that the pod does not have.
    """
    asked = options_of(config, pod)
    made: list[dict[str, str]] = []
    for field, kind, modes in _KINDS:
        mode = getattr(asked, field)
        if mode not in modes:
            raise RequestError(f"{FIELD}.{field}", _mode_name(mode), f"a container's {field} namespace is none of that")
        if mode == pb.POD:
            made.append({"type": kind, "path": _of_pod(pod, kind, f"{FIELD}.{field}")})
        elif mode == pb.CONTAINER:
            made.append({"type": kind})
        elif mode == pb.TARGET:
            made.append({"type": kind, "path": _target(asked, options)})
    if asked.network == pb.POD and "uts" in pod.namespaces:
        made.append({"type": "uts", "path": pod.namespaces["uts"]})
    made.append({"type": "mount"})
    if _has_own_cgroups(config.linux.security_context.privileged, options.machine):
        made.append({"type": "cgroup"})
    if uses_user_namespace(asked):
        made.append({"type": "user", "path": _of_pod(pod, "user", f"{FIELD}.userns_options.mode")})
    return made


def options_of(config: pb.ContainerConfig, pod: Pod) -> pb.NamespaceOption:
    """The namespace options that a container asks for; its pod's, if it asks for nothing."""
    security = config.linux.security_context
    if security.HasField("namespace_options"):
        return security.namespace_options
    return pod.config.linux.security_context.namespace_options


def of_pod(config: pb.PodSandboxConfig, machine: Machine) -> list[dict[str, str]]:
    """The ``linux.namespaces`` of what holds a pod: all that its containers are going to share is new."""
    security = config.linux.security_context
    asked = security.namespace_options
    made = []
    for field, kind, _ in _KINDS:
        mode = getattr(asked, field)
        if mode == pb.TARGET:
            raise RequestError(f"{FIELD}.{field}", _mode_name(mode), "is a mode for containers")
        if mode != pb.NODE:
            made.append({"type": kind})
    if asked.network != pb.NODE:
        made.append({"type": "uts"})
    made.append({"type": "mount"})
    if _has_own_cgroups(security.privileged, machine):
        made.append({"type": "cgroup"})
    if uses_user_namespace(asked):
        made.append({"type": "user"})
    return made


def uses_user_namespace(asked: pb.NamespaceOption) -> bool:
    """Whether ids are mapped. RequestError: a mode other than POD and NODE."""
    if not asked.HasField("userns_options"):
        return False
    mode = asked.userns_options.mode
    if mode not in (pb.POD, pb.NODE):
        raise RequestError(f"{FIELD}.userns_options.mode", _mode_name(mode), "is POD or NODE")
    return mode == pb.POD


def id_mappings(asked: pb.NamespaceOption) -> dict[str, list[dict[str, int]]]:
    """The ``linux.uidMappings`` and ``linux.gidMappings``; nothing without a user namespace.

    Raises:
        RequestError: there is not exactly one row for users and one for groups, or it maps nothing.
    """
    if not uses_user_namespace(asked):
        return {}
    made = {}
    for key, field in (("uidMappings", "uids"), ("gidMappings", "gids")):
        rows = getattr(asked.userns_options, field)
        if len(rows) != 1 or not rows[0].length:
            raise RequestError(f"{FIELD}.userns_options.{field}", len(rows), "needs one row that maps something")
        if rows[0].container_id:
            raise RequestError(f"{FIELD}.userns_options.{field}", rows[0].container_id, "has to begin with id 0")
        if rows[0].host_id + rows[0].length > _MOST_IDS:
            raise RequestError(f"{FIELD}.userns_options.{field}", rows[0].length, f"there are {_MOST_IDS} ids")
        made[key] = [{"containerID": row.container_id, "hostID": row.host_id, "size": row.length} for row in rows]
    return made


def _of_pod(pod: Pod, kind: str, field: str) -> str:
    if kind not in pod.namespaces:
        raise RequestError(field, "POD", f"pod {pod.id} has no {kind} namespace of its own")
    return pod.namespaces[kind]


def _target(asked: pb.NamespaceOption, options: Options) -> str:
    if not asked.target_id or not options.target_pid_namespace:
        raise RequestError(f"{FIELD}.target_id", asked.target_id, "there is no such container that runs in this pod")
    return options.target_pid_namespace


def _has_own_cgroups(privileged: bool, machine: Machine) -> bool:
    """Whether a cgroup namespace is made: on v1 it would show one controller; a privileged container has the host's."""
    return machine.cgroup_v2 and not privileged


def _mode_name(mode: int) -> str:
    return pb.NamespaceMode.Name(mode) if mode in pb.NamespaceMode.values() else str(mode)  # type: ignore[arg-type]
