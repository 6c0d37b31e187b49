"""The mounts of a container: those that every one has, those of its pod, and those of the request.

Rules: a mount of the request takes the place of one of ours with its destination. They are sorted by depth, so that one
below another comes after it; mounts of equal depth keep the request's order. A mount that is to pass mounts on, or to
take them in, needs a source that does.
"""

from __future__ import annotations

import posixpath
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Machine, Options, Pod
from nri.engine.spec.limits import check_path
from nri.errors import RequestError

__all__ = ["mounts"]

Mount = dict[str, Any]

_PROPAGATION = {
    pb.PROPAGATION_PRIVATE: "rprivate",
    pb.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    pb.PROPAGATION_BIDIRECTIONAL: "rshared",
}
#: The propagation that the source must have for it.
_NEEDS = {"rprivate": None, "rslave": ("rshared", "rslave"), "rshared": ("rshared",)}
#: Options that `mount_options` may ask for: those that a bind mount can have of its own and that no other field sets.
_OPTIONS = {
    "noexec", "nosuid", "nodev", "noatime", "nodiratime", "relatime", "strictatime", "nosymfollow", "exec", "suid",
    "dev",
}  # fmt: skip


def mounts(config: pb.ContainerConfig, pod: Pod, options: Options) -> tuple[list[Mount], str]:
    """The ``mounts`` of a container, and its ``linux.rootfsPropagation``.

    Raises:
        RequestError: a mount cannot be made as it is asked for.
    """
    privileged = config.linux.security_context.privileged
    asked = [_asked(index, mount, options) for index, mount in enumerate(config.mounts)]
    made = {mount["destination"]: mount for mount in [*_usual(privileged), *_of_pod(config, pod)]}
    for mount in asked:
        made.pop(mount["destination"], None)
    spread = "rprivate"
    for mount in asked:
        # The root file system has to take part: bidirectional is more than host to container.
        if "rshared" in mount["options"]:
            spread = "rshared"
        elif "rslave" in mount["options"] and spread == "rprivate":
            spread = "rslave"
    ordered = sorted([*made.values(), *asked], key=lambda mount: _depth(mount["destination"]))
    return ordered, spread if spread != "rprivate" else ""


def _depth(destination: str) -> int:
    return 0 if destination == "/" else destination.count("/")


def _usual(privileged: bool) -> list[Mount]:
    """The mounts that every container has: processes, devices, terminals, queues, the system, control groups."""
    safe = ["nosuid", "noexec", "nodev"]
    access = "rw" if privileged else "ro"
    return [
        _mount("/proc", "proc", "proc", safe),
        _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount(
            "/dev/pts",
            "devpts",
            "devpts",
            ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        _mount("/dev/mqueue", "mqueue", "mqueue", safe),
        _mount("/sys", "sysfs", "sysfs", [*safe, access]),
        _mount("/sys/fs/cgroup", "cgroup", "cgroup", [*safe, "relatime", access]),
    ]


def _of_pod(config: pb.ContainerConfig, pod: Pod) -> list[Mount]:
    """The mounts that the containers of a pod share: /etc/hosts and the like, and shared memory."""
    files = "ro" if config.linux.security_context.readonly_rootfs else "rw"
    made = []
    for destination, source in pod.files.items():
        if destination == "/dev/shm":  # noqa: S108
            made.append(_mount(destination, "bind", source, ["rbind", "rprivate", "nosuid", "noexec", "nodev", "rw"]))
        else:
            made.append(_mount(destination, "bind", source, ["rbind", "rprivate", files]))
    return made


def _asked(index: int, mount: pb.Mount, options: Options) -> Mount:
    """One mount of the request."""
    field = f"mounts[{index}]"
    destination = _destination(mount, field)
    source = _source(index, mount, field, options)
    spread = _spread(mount, source, field, options)
    made = _mount(destination, "bind", source, ["rbind", spread])
    made["options"].append(_access(mount, spread, field, options.machine))
    for place, option in enumerate(mount.mount_options):
        if option not in _OPTIONS:
            raise RequestError(f"{field}.mount_options[{place}]", option, "is no option that a bind mount can have")
        if option not in made["options"]:
            made["options"].append(option)
    if mount.uidMappings or mount.gidMappings:
        _map_ids(made, mount, field, options.machine)
    return made


def _destination(mount: pb.Mount, field: str) -> str:
    path = mount.container_path
    if not path.startswith("/"):
        raise RequestError(f"{field}.container_path", path, "is no absolute path")
    check_path(f"{field}.container_path", path)
    clean = posixpath.normpath(path).replace("//", "/")
    if clean == "/":
        raise RequestError(f"{field}.container_path", path, "the root file system itself cannot be mounted over")
    return clean


def _source(index: int, mount: pb.Mount, field: str, options: Options) -> str:
    """The path on the host, also of an image, which is mounted for reading only."""
    if mount.HasField("image") and (mount.image.image or mount.image.image_ref):
        if mount.host_path:
            raise RequestError(f"{field}.host_path", mount.host_path, "cannot be given beside an image")
        if not mount.readonly:
            raise RequestError(f"{field}.readonly", "false", "an image is mounted for reading only")
        if index not in options.image_folders:
            raise RequestError(f"{field}.image", mount.image.image, "is not there: pull it first")
        return options.image_folders[index]
    if mount.image_sub_path:
        raise RequestError(f"{field}.image_sub_path", mount.image_sub_path, "needs an image beside it")
    if not mount.host_path.startswith("/"):
        raise RequestError(f"{field}.host_path", mount.host_path, "is no absolute path")
    check_path(f"{field}.host_path", mount.host_path)
    return mount.host_path


def _spread(mount: pb.Mount, source: str, field: str, options: Options) -> str:
    """The option that says how mounts below it spread."""
    asked = _PROPAGATION.get(mount.propagation)
    if asked is None:
        raise RequestError(f"{field}.propagation", mount.propagation, "is not known")
    needed = _NEEDS[asked]
    if needed and options.propagation is not None and options.propagation(source) not in needed:
        name = pb.MountPropagation.Name(mount.propagation)
        raise RequestError(f"{field}.propagation", name, f"{source} is not on a mount that is {' or '.join(needed)}")
    return asked


def _access(mount: pb.Mount, spread: str, field: str, machine: Machine) -> str:
    """The option that says who may write: ``rw``, ``ro``, or ``rro`` with all mounts below."""
    if not mount.recursive_read_only:
        return "ro" if mount.readonly else "rw"
    for problem, reason in (
        (not mount.readonly, "needs readonly beside it"),
        (spread != "rprivate", "needs PROPAGATION_PRIVATE beside it"),
        (not machine.recursive_read_only, "the OCI runtime cannot do it"),
    ):
        if problem:
            raise RequestError(f"{field}.recursive_read_only", "true", reason)
    return "rro"


def _map_ids(made: Mount, mount: pb.Mount, field: str, machine: Machine) -> None:
    """Have the files of a mount belong to other ids inside."""
    if not machine.idmapped_mounts:
        raise RequestError(f"{field}.uidMappings", len(mount.uidMappings), "the OCI runtime cannot map ids of mounts")
    for key, mappings in (("uidMappings", mount.uidMappings), ("gidMappings", mount.gidMappings)):
        if not mappings:
            raise RequestError(f"{field}.{key}", "", "both have to be there")
        made[key] = [{"containerID": one.container_id, "hostID": one.host_id, "size": one.length} for one in mappings]


def _mount(destination: str, kind: str, source: str, options: list[str]) -> Mount:
    return {"destination": destination, "type": kind, "source": source, "options": options}
