"""The mounts of a container: default mounts, the pod's shared files, and requested mounts.

A requested mount replaces a default mount with the same destination. Mounts are sorted by depth, so that no mount hides
another. Mounts of equal depth keep the request's order.
"""

from __future__ import annotations

import posixpath
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.base import Base
from nri.engine.spec.inputs import ImageConfig, Machine, Options, Pod
from nri.engine.spec.limits import check_path
from nri.engine.spec.namespaces import id_mappings, options_of
from nri.engine.spec.process import image_name
from nri.errors import RequestError

Mount = dict[str, Any]
#: ``uidMappings`` and ``gidMappings`` of a spec.
IdMappings = dict[str, list[dict[str, int]]]

_PROPAGATION = {
    pb.PROPAGATION_PRIVATE: "rprivate",
    pb.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    pb.PROPAGATION_BIDIRECTIONAL: "rshared",
}
_SHM = "/dev/shm"  # noqa: S108
#: The most volumes of an image; each is copied.
_MAX_VOLUMES = 128
#: The propagations that a mount's source may have for each propagation of the mount.
_NEEDS = {"rprivate": None, "rslave": ("rshared", "rslave"), "rshared": ("rshared",)}
#: The supported `mount_options`: those that bind mounts have, and that no other field sets.
_OPTIONS = {
    "noexec", "nosuid", "nodev", "noatime", "nodiratime", "relatime", "strictatime", "nosymfollow", "exec", "suid",
    "dev",
}  # fmt: skip


def mounts(config: pb.ContainerConfig, pod: Pod, options: Options) -> tuple[list[Mount], str]:
    """Return the ``mounts`` of a container, and its ``linux.rootfsPropagation``.

    Raises:
        RequestError: a mount is invalid, or this machine does not support it.
    """
    mappings = id_mappings(options_of(config, pod))
    requested = [_requested_mount(index, mount, options, mappings) for index, mount in enumerate(config.mounts)]
    default_mounts = _mounts_without_request(config, pod, options.base, writable_cgroup=options.writable_cgroup)
    if mappings and pod.config.linux.security_context.namespace_options.network == pb.NODE:
        default_mounts["/sys"] = _node_sys(options.machine)
    for destination, source in options.volumes.items():
        default_mounts.setdefault(destination, _mount(destination, "bind", source, ["rbind", "rprivate", "rw"]))
    for mount in requested:
        default_mounts.pop(mount["destination"], None)
    propagation = ""
    for mount in requested:
        # The root file system needs the strongest propagation: bidirectional includes host to container.
        if "rshared" in mount["options"]:
            propagation = "rshared"
        elif "rslave" in mount["options"] and not propagation:
            propagation = "rslave"
    return sorted([*default_mounts.values(), *requested], key=_depth), propagation


def _mounts_without_request(
    config: pb.ContainerConfig, pod: Pod, base: Base, *, writable_cgroup: bool = False
) -> dict[str, Mount]:
    """Return the mounts that a container of a pod has without a request, by destination.

    The pod's shared files replace mounts of `base`, and these replace the engine's default mounts. In a privileged
    container the default mounts replace those of `base`, because they have other options.
    """
    privileged = config.linux.security_context.privileged
    base_mounts = {mount["destination"]: dict(mount) for mount in base.mounts}
    default_mounts = {mount["destination"]: mount for mount in _default_mounts(privileged, writable_cgroup)}
    pod_mounts = {mount["destination"]: mount for mount in _pod_mounts(config, pod)}
    if privileged:
        return {**base_mounts, **default_mounts, **pod_mounts}
    return {**default_mounts, **base_mounts, **pod_mounts}


def image_volumes(config: pb.ContainerConfig, pod: Pod, image: ImageConfig, base: Base) -> list[str]:
    """Return the sorted paths of the image's volumes, without paths at which the request or the engine mounts a file.

    A relative path starts at the root, as in containerd.

    Raises:
        RequestError: there are too many volumes, or one of them is the root, contains ``..`` or is too long.
    """
    field = f"the volumes of image {image_name(config)}"
    if len(image.volumes) > _MAX_VOLUMES:
        raise RequestError(field, len(image.volumes), f"an image can have at most {_MAX_VOLUMES}")
    for path in image.volumes:
        check_path(field, path)
        if ".." in path.split("/") or not path.strip("/."):
            raise RequestError(field, path, "must be below the root, without '..'")
    paths = {_clean(path) for path in image.volumes}
    mounted_paths = {_clean(mount.container_path) for mount in config.mounts}
    mounted_paths |= _mounts_without_request(config, pod, base).keys()
    return sorted(paths - mounted_paths)


def _clean(path: str) -> str:
    """Return an absolute path without superfluous slashes and dots."""
    return posixpath.normpath(f"/{path}").replace("//", "/")


def _depth(mount: Mount) -> int:
    destination: str = mount["destination"]
    return 0 if destination == "/" else destination.count("/")


def _default_mounts(privileged: bool, writable_cgroup: bool) -> list[Mount]:
    """Return the default mounts of a container: /proc, /dev, terminals, message queues, /sys and cgroups."""
    safe = ["nosuid", "noexec", "nodev"]
    access, cgroup_access = ("rw" if writable else "ro" for writable in (privileged, privileged or writable_cgroup))
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
        _mount("/sys/fs/cgroup", "cgroup", "cgroup", [*safe, "relatime", cgroup_access]),
    ]


def _node_sys(machine: Machine) -> Mount:
    """Return the mount of the node's /sys, for a pod with a user namespace on the node's network.

    The kernel allows a new sysfs only to the user namespace that owns the network. The bind mount includes the mounts
    below, because the kernel refuses to uncover what is under them.
    """
    read_only = "rro" if machine.recursive_read_only else "ro"
    return _mount("/sys", "bind", "/sys", ["rbind", "rprivate", "nosuid", "noexec", "nodev", read_only])


def _pod_mounts(config: pb.ContainerConfig, pod: Pod) -> list[Mount]:
    """Return the mounts that the containers of a pod share: /etc/hosts and similar files, and shared memory."""
    files = "ro" if config.linux.security_context.readonly_rootfs else "rw"
    shm = ["nosuid", "noexec", "nodev", "rw"]
    return [
        _mount(destination, "bind", source, ["rbind", "rprivate", *(shm if destination == _SHM else [files])])
        for destination, source in pod.files.items()
    ]


def _requested_mount(index: int, mount: pb.Mount, options: Options, mappings: IdMappings) -> Mount:
    """Convert a requested mount. `mappings` are the ID mappings of the container."""
    field = f"mounts[{index}]"
    destination = _destination(mount, field)
    source = _source(index, mount, field, options)
    propagation = _propagation(mount, source, field, options)
    oci_mount = _mount(destination, "bind", source, ["rbind", propagation])
    oci_mount["options"].append(_access(mount, propagation, field, options.machine))
    for place, option in enumerate(mount.mount_options):
        if option not in _OPTIONS:
            raise RequestError(f"{field}.mount_options[{place}]", option, "is not an option of a bind mount")
        if option not in oci_mount["options"]:
            oci_mount["options"].append(option)
    if mount.uidMappings or mount.gidMappings:
        requested = _id_mappings(mount, field)
        if index not in options.image_folders:
            if not options.machine.idmapped_mounts:
                reason = "ID-mapped mounts are not supported by the OCI runtime"
                raise RequestError(f"{field}.uidMappings", len(mount.uidMappings), reason)
            oci_mount |= requested
        elif requested != mappings:  # the engine maps images itself, for the whole pod
            reason = "differs from the mapping of the pod, which an image gets"
            raise RequestError(f"{field}.uidMappings", len(mount.uidMappings), reason)
    return oci_mount


def _destination(mount: pb.Mount, field: str) -> str:
    """Return the path in the container. A relative path starts at the container's root."""
    path = mount.container_path
    if not path:
        raise RequestError(f"{field}.container_path", path, "is required")
    check_path(f"{field}.container_path", path)
    clean = _clean(path)
    if clean == "/":
        raise RequestError(f"{field}.container_path", path, "must not be the root of the container")
    return clean


def _source(index: int, mount: pb.Mount, field: str, options: Options) -> str:
    """Return the path on the host: the host path of the request, or the folder of a mounted image."""
    if mount.HasField("image") and (mount.image.image or mount.image.image_ref):
        if mount.host_path:
            raise RequestError(f"{field}.host_path", mount.host_path, "must not be given together with an image")
        if not mount.readonly:
            raise RequestError(f"{field}.readonly", "false", "must be set for an image, which is mounted read-only")
        if index not in options.image_folders:
            raise RequestError(f"{field}.image", mount.image.image, "is not on this node; pull it first")
        return options.image_folders[index]
    if mount.image_sub_path:
        raise RequestError(f"{field}.image_sub_path", mount.image_sub_path, "requires an image")
    if not mount.host_path.startswith("/"):
        raise RequestError(f"{field}.host_path", mount.host_path, "must be an absolute path")
    check_path(f"{field}.host_path", mount.host_path)
    return mount.host_path


def _propagation(mount: pb.Mount, source: str, field: str, options: Options) -> str:
    """Return the mount option for the requested propagation."""
    requested = _PROPAGATION.get(mount.propagation)
    if requested is None:
        raise RequestError(f"{field}.propagation", mount.propagation, "is unknown")
    needed = _NEEDS[requested]
    if needed and options.propagation is not None and options.propagation(source) not in needed:
        name = pb.MountPropagation.Name(mount.propagation)
        raise RequestError(f"{field}.propagation", name, f"{source} must be on a mount that is {' or '.join(needed)}")
    return requested


def _access(mount: pb.Mount, propagation: str, field: str, machine: Machine) -> str:
    """Return the mount option for write access: ``rw``, ``ro``, or ``rro`` if mounts below are read-only, too."""
    if not mount.recursive_read_only:
        return "ro" if mount.readonly else "rw"
    for problem, reason in (
        (not mount.readonly, "requires readonly"),
        (propagation != "rprivate", "requires PROPAGATION_PRIVATE"),
        (not machine.recursive_read_only, "is not supported by the OCI runtime"),
    ):
        if problem:
            raise RequestError(f"{field}.recursive_read_only", "true", reason)
    return "rro"


def _id_mappings(mount: pb.Mount, field: str) -> IdMappings:
    """Return the ID mappings for the owners of a mount's files, as in a spec."""
    result: IdMappings = {}
    for key, mappings in (("uidMappings", mount.uidMappings), ("gidMappings", mount.gidMappings)):
        if not mappings:
            raise RequestError(f"{field}.{key}", "", "both uidMappings and gidMappings are required")
        result[key] = [{"containerID": row.container_id, "hostID": row.host_id, "size": row.length} for row in mappings]
    return result


def _mount(destination: str, kind: str, source: str, options: list[str]) -> Mount:
    return {"destination": destination, "type": kind, "source": source, "options": options}
