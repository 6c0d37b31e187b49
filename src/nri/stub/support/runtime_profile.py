"""Answers in a form that Docker Engine and iSulad can apply.

Both support only a part of NRI. Docker Engine fails a creation for changes other than variables and mounts. iSulad
fails creations, drops changes or ends its daemon. A profile leaves out such changes, and logs each field once. If the
operator prefers a failed creation to a container without the change, it raises an error instead.

Docker Engine: its source, `daemon/internal/nri/nri.go` of release 29. iSulad: measured with release 2.1.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nri.api import messages as m
from nri.errors import NriError
from nri.stub.support import logs
from nri.text import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The files in which the kernel lists the CPUs and the memory nodes that are online.
_ONLINE = {"cpus": "/sys/devices/system/cpu/online", "mems": "/sys/devices/system/node/online"}
#: Mount options that Docker Engine does not need: it names a bind mount by its type.
_IMPLIED_MOUNT_OPTIONS = frozenset({"bind", "rbind", "rw", "rprivate"})
_DOCKER_MOUNT_OPTIONS = frozenset({"ro", "readonly"})
_DOCKER_MOUNT_TYPES = frozenset({"bind", "tmpfs", "volume"})
#: The messages of an adjustment whose fields a profile lists one by one.
_GROUPS = ("linux", "linux.resources")


class _Row(NamedTuple):
    """The changes that a runtime applies.

    Attributes:
        title: the name that people use.
        fields: the fields of an adjustment that the runtime applies.
        entries: for a repeated field, a function that names what the runtime cannot apply in an entry; it returns ""
            if the runtime applies the entry.
        complete_request: corrects a pod and a container of a request, in place.
        complete: adds the fields that the runtime requires next to the set fields.
    """

    title: str
    fields: frozenset[str]
    entries: dict[str, Callable[[Any], str]]
    complete: Callable[[m.ContainerAdjustment, m.Container | None], None]
    complete_request: Callable[[Any], None] = lambda message: None  # noqa: ARG005


def _is_removal(entry: Any) -> str:
    name = getattr(entry, "key", "") or getattr(entry, "destination", "")
    return "removal" if name.startswith("-") else ""


def _docker_mount(mount: m.Mount) -> str:
    if _is_removal(mount):
        return "removal"
    if mount.type not in _DOCKER_MOUNT_TYPES and not _is_bind(mount):
        return f'type "{mount.type}"'
    unsupported = [option for option in mount.options if option not in _DOCKER_MOUNT_OPTIONS | _IMPLIED_MOUNT_OPTIONS]
    return f'option "{unsupported[0]}"' if unsupported else ""


def _is_bind(mount: m.Mount) -> bool:
    return mount.type in ("", "none") and not {"bind", "rbind"}.isdisjoint(mount.options)


def _equal_limits(rlimit: m.POSIXRlimit) -> str:
    return "" if rlimit.hard == rlimit.soft else "soft limit below hard limit"


def _write_mounts_for_docker(adjustment: m.ContainerAdjustment, container: m.Container | None) -> None:  # noqa: ARG001
    for mount in adjustment.mounts:
        if _is_bind(mount):
            mount.type = "bind"
        mount.options[:] = [option for option in mount.options if option not in _IMPLIED_MOUNT_OPTIONS]


def _fill_in_cpuset(adjustment: m.ContainerAdjustment, container: m.Container | None) -> None:
    """Set cpus and mems next to other CPU settings: the container's, or else all that are online."""
    if not adjustment.linux.resources.HasField("cpu"):
        return
    cpu = adjustment.linux.resources.cpu
    requested = container.linux.resources.cpu if container is not None else m.LinuxCPU()
    for field, path in _ONLINE.items():
        if not getattr(cpu, field):
            setattr(cpu, field, getattr(requested, field) or _online(path))


def _complete_isulad_message(message: Any) -> None:
    """Give a pod or a container of iSulad the names that Kubernetes uses, and a container its state.

    iSulad names both as the kubelet named Docker's containers, k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT, and sends no
    states; a container that runs has a pid.
    """
    parts = message.name.split("_")
    is_docker_name = len(parts) == 6 and parts[0] == "k8s"
    if isinstance(message, m.PodSandbox):
        annotations = message.annotations
        name, namespace = (parts[2], parts[3]) if is_docker_name else (message.name, message.namespace)
        message.name = annotations.get("io.kubernetes.cri.sandbox-name") or name
        message.namespace = annotations.get("io.kubernetes.cri.sandbox-namespace") or namespace
        return
    if is_docker_name:
        message.name = parts[1]
    if message.state == m.ContainerState.CONTAINER_UNKNOWN and message.pid:
        message.state = m.ContainerState.CONTAINER_RUNNING


def _online(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(4096).strip()
    except (OSError, UnicodeDecodeError):
        return "0"


_ROWS = {
    "docker": _Row(
        "Docker Engine",
        frozenset({"env", "mounts"}),
        {"env": _is_removal, "mounts": _docker_mount},
        _write_mounts_for_docker,
    ),
    "isulad": _Row(
        "iSulad",
        frozenset({
            "annotations", "mounts", "rlimits", "linux.devices", "linux.oom_score_adj", "linux.resources.memory",
            "linux.resources.cpu", "linux.resources.hugepage_limits", "linux.resources.unified",
            "linux.resources.devices",
        }),
        {"mounts": _is_removal, "rlimits": _equal_limits},
        _fill_in_cpuset,
        _complete_isulad_message,
    ),
}  # fmt: skip


class RuntimeProfile:
    """Shapes the answers of a plugin for a runtime that supports only a part of NRI.

    Args:
        name: "docker" or "isulad".
        label: the plugin's ``NN-name``.
        is_strict: unsupported changes in an answer are errors.

    Attributes:
        title: the runtime's name that people use.
    """

    __slots__ = ("_is_strict", "_label", "_reported", "_row", "title")

    def __init__(self, name: str, label: str, *, is_strict: bool) -> None:
        self._row = _ROWS[name]
        self._label, self._is_strict = label, is_strict
        self.title = self._row.title
        self._reported: set[str] = set()

    def complete(self, *messages: m.PodSandbox | m.Container | None) -> None:
        """Correct pods and containers of a request, in place."""
        for message in messages:
            if message is not None:
                self._row.complete_request(message)

    def adjustment(self, message: m.ContainerAdjustment, container: m.Container | None) -> m.ContainerAdjustment:
        """Return a copy of an adjustment with the changes that the runtime applies.

        Raises NriError for other changes if they are refused.
        """
        shaped = m.ContainerAdjustment()
        shaped.CopyFrom(message)
        for path, owner, name in list(_set_fields(shaped)):
            if path not in self._row.fields:
                owner.ClearField(name)
                self.leave_out(f"the adjustment's {path}")
            elif path in self._row.entries:
                self._filter(path, getattr(owner, name))
        self._row.complete(shaped, container)
        return shaped

    def _filter(self, path: str, entries: Any) -> None:
        reasons = [self._row.entries[path](entry) for entry in entries]
        for number in reversed(range(len(reasons))):
            if reasons[number]:
                del entries[number]
        for reason in dict.fromkeys(filter(None, reasons)):
            self.leave_out(f"the adjustment's {path} ({cut(reason, 128)})")

    def leave_out(self, what: str, *, may_refuse: bool = True) -> None:
        """Log that a part of an answer is left out, once for each part. Raises NriError if it is refused.

        Without `may_refuse` it is always left out: a plugin whose Synchronize fails would never be connected.
        """
        if self._is_strict and may_refuse:
            raise NriError(f"{self.title} cannot apply {what}")
        if what in self._reported or len(self._reported) >= 64:  # reasons quote the plugin's values
            return
        self._reported.add(what)
        logs.adapter("stub").warning("plugin %s: left out %s: %s cannot apply it", self._label, what, self.title)


def _set_fields(adjustment: m.ContainerAdjustment) -> Iterable[tuple[str, Any, str]]:
    """Yield the set fields of an adjustment: path, the message that has the field, and the field's name."""
    pending: list[tuple[str, Any]] = [("", adjustment)]
    while pending:
        prefix, message = pending.pop()
        for descriptor, value in message.ListFields():
            path = prefix + descriptor.name
            if path in _GROUPS:
                pending.append((f"{path}.", value))
            else:
                yield path, message, descriptor.name
