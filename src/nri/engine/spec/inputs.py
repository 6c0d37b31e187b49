"""The arguments of `container_spec` and `pod_spec` in addition to the CRI's messages, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.base import Base
from nri.engine.support.capabilities import KNOWN

#: An OCI runtime spec, or a part of one.
Spec = dict[str, Any]


class Result(NamedTuple):
    """A spec, and a line for each value of the request that was left out, with the reason."""

    spec: Spec
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """An image's settings for its containers, named as in the OCI image specification. `user` is ``user[:group]``."""

    entrypoint: Sequence[str] = ()
    cmd: Sequence[str] = ()
    env: Sequence[str] = ()
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""
    volumes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The user of a process, looked up in the root file system.

    Attributes:
        groups: the user's groups in /etc/group, without the primary one.
    """

    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device node of the host: `type` is c or b, `mode` its permission bits."""

    path: str
    type: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """The features of kernel, engine and OCI runtime. The defaults describe a machine with all features.

    Attributes:
        architecture: the architecture, as ``uname -m`` prints it.
        hostname: the node's name, for pods on the node's network.
        cgroup_v2: whether the machine has only cgroup v2. A hybrid machine counts as cgroup v1.
        hugetlb: whether cgroups can limit huge pages.
        swap_limit: whether cgroups can limit swap.
        capabilities: the capabilities that the engine itself has.
        oom_score_floor: the lowest OOM score that the engine may set. Without CAP_SYS_RESOURCE it is the engine's own.
        seccomp: whether kernel and runtime filter system calls.
        apparmor: whether AppArmor is enabled.
        selinux: whether SELinux is enabled.
        recursive_read_only: whether the runtime supports the mount option ``rro``.
        idmapped_mounts: whether the runtime supports ID-mapped mounts.
    """

    architecture: str = "x86_64"
    hostname: str = ""
    cgroup_v2: bool = True
    hugetlb: bool = True
    swap_limit: bool = True
    capabilities: Sequence[str] = KNOWN
    oom_score_floor: int = -1000
    seccomp: bool = True
    apparmor: bool = False
    selinux: bool = False
    recursive_read_only: bool = True
    idmapped_mounts: bool = True


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a container.

    Attributes:
        namespaces: the paths of the pod's namespaces by their names in the OCI spec: network, ipc, uts, pid, user.
        files: the host path of each file that all containers of the pod share, by the path in the container, for
            example ``/etc/hosts`` and ``/dev/shm``.
    """

    id: str
    config: pb.PodSandboxConfig
    namespaces: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """The caller's inputs for one container, and the engine's settings.

    Attributes:
        container_id: the container's id.
        rootfs: the path of its root file system.
        account: the ids of `requested_user` in that root file system.
        machine: the features of the machine.
        devices: the device nodes at and below each requested host path. For a privileged container, "/dev" has all
            device nodes of the host.
        image_folders: the folder of each mounted image, by the index of the mount in the request.
        volumes: the host path of each volume of the image, by the path in the container.
        target_pid_namespace: the path of the process namespace of the container that `target_id` names.
        localhost_seccomp: the parsed profile that `localhost_profile` names.
        propagation: returns the propagation of the mount at a host path: ``rshared``, ``rslave`` or "" for private.
            If it is None, propagation is not checked.
        systemd_cgroup: whether the OCI runtime uses systemd for cgroups.
        pids_limit: the most processes of a container; 0 for no limit.
        default_seccomp: the parsed profile for requests of the runtime's default; None for the engine's.
        annotations: the annotations of pod and container that the OCI runtime gets.
        writable_cgroup: whether the container may create cgroups below its own.
        umask: the file mode creation mask of the process; None for the OCI runtime's.
        host_devices: whether a privileged container gets the devices of the host.
        all_devices_allowed: whether a privileged container may use all devices.
        owned_devices: whether requested devices belong to the requested user and group.
        apparmor_default: the AppArmor profile for requests of the runtime's default; "" for none.
        base: the defaults of the container.
    """

    container_id: str
    rootfs: str
    account: Account = Account()
    machine: Machine = Machine()
    devices: Mapping[str, Sequence[Device]] = field(default_factory=dict)
    image_folders: Mapping[int, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    target_pid_namespace: str = ""
    localhost_seccomp: Mapping[str, Any] | None = None
    default_seccomp: Mapping[str, Any] | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    writable_cgroup: bool = False
    umask: int | None = None
    host_devices: bool = True
    all_devices_allowed: bool = True
    owned_devices: bool = False
    propagation: Callable[[str], str | None] | None = None
    systemd_cgroup: bool = False
    pids_limit: int = 0
    apparmor_default: str = ""
    base: Base = field(default_factory=Base)
