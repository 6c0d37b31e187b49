"""The values that a spec is made of, besides the CRI's own messages, and the result.

Say what the caller has to find out first, because the functions of this room look at nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.capabilities import KNOWN

#: An OCI runtime spec, or a part of one.
Spec = dict[str, Any]


class Result(NamedTuple):
    """A spec, and what of the request is not in it and why, as lines for people."""

    spec: Spec
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """An image's settings for its process, named as in the OCI image's configuration. `user` is ``user[:group]``."""

    entrypoint: Sequence[str] = ()
    cmd: Sequence[str] = ()
    env: Sequence[str] = ()
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a process runs as, looked up in the root file system.

    Attributes:
        groups: the groups that /etc/group has this user in, without the primary one.
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
    """The abilities of kernel, engine and OCI runtime. The defaults are those of a whole machine.

    Attributes:
        architecture: as ``uname -m`` has it.
        hostname: the node's name, for pods on the node's network.
        cgroup_v2: the unified hierarchy alone; a hybrid one is v1.
        hugetlb: the cgroups have the controller that limits huge pages.
        swap_limit: the cgroups can limit swap.
        capabilities: those that the engine itself may hand on.
        oom_score_floor: the lowest OOM score that the engine may set: its own, if it has not CAP_SYS_RESOURCE.
        seccomp: kernel and runtime filter system calls.
        apparmor: AppArmor is on.
        selinux: SELinux is on.
        recursive_read_only: the runtime knows the mount option ``rro``.
        idmapped_mounts: the runtime maps the ids of mounts.
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
    """The pod that a container goes into.

    Attributes:
        namespaces: the paths of the pod's namespaces by their names in the OCI spec: network, ipc, uts, pid, user.
        files: what every container of the pod has mounted: path in the container -> path on the host, as
            ``/etc/hosts`` and ``/dev/shm``.
    """

    id: str
    config: pb.PodSandboxConfig
    namespaces: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """The caller's findings for one container, and the settings of this engine.

    Attributes:
        container_id: its id.
        rootfs: path of its root file system.
        account: the numbers of `wanted_user` in that root file system.
        machine: what the machine can do.
        devices: the device nodes at and below each host path that the request names; for a privileged container all
            of the host's under "/dev".
        image_folders: the folder of each image that is mounted, by the mount's place in the request.
        target_pid_namespace: the path of the process namespace of the container that `target_id` names.
        localhost_seccomp: the profile that `localhost_profile` names, read and parsed.
        propagation: how the mount under a host path spreads: ``rshared``, ``rslave`` or "" for private. Without it
            nothing is checked.
        systemd_cgroup: the OCI runtime asks systemd for cgroups.
        pids_limit: the most processes of a container; 0 for no limit.
        apparmor_default: the AppArmor profile of those that ask for the runtime's default; "" for none.
        annotations: more for the spec's own annotations.
    """

    container_id: str
    rootfs: str
    account: Account = Account()
    machine: Machine = Machine()
    devices: Mapping[str, Sequence[Device]] = field(default_factory=dict)
    image_folders: Mapping[int, str] = field(default_factory=dict)
    target_pid_namespace: str = ""
    localhost_seccomp: Mapping[str, Any] | None = None
    propagation: Callable[[str], str | None] | None = None
    systemd_cgroup: bool = False
    pids_limit: int = 0
    apparmor_default: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
