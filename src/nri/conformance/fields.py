"""The fields that a plugin may set, each with an adjustment and the source from which its effect is read.

An effect is read inside the container, from its process or its cgroup. If this machine cannot show it, the effect is
read from the OCI spec that the runtime reports.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment

#: The annotations of a pod that contain the folder of the test on this machine, and the pod's cgroup.
FOLDER, CGROUP_PARENT = "probe.nri.example/folder", "probe.nri.example/cgroup"


class View(Protocol):
    """A container whose effects are read. `dir` is the folder of the test; `pid` is 0 if the container does not run."""

    id: str
    pid: int
    dir: Path

    def exec(self, *command: str) -> str:
        """Run a command inside the container. Returns its output."""

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        """Read a file of the container's cgroup, by its name in each version."""

    def spec(self, *path: str) -> Any:
        """Read a value of the OCI spec that the runtime reports."""

    def remove(self) -> None:
        """Remove the container."""


@dataclass(frozen=True, slots=True)
class Case:
    """A field. `adjust` creates the answer, and `read` returns `effect` if the runtime applies the answer.

    With `start` False, the container is only created, because runc or this machine cannot run it; its OCI spec is read.
    """

    text: str
    where: str
    adjust: Callable[[m.PodSandbox], Adjustment]
    read: Callable[[View], str]
    effect: str
    start: bool = True


def _env(view: View, name: str) -> str:
    lines = [line.split("=", 1) for line in view.exec("/bin/env").splitlines()]
    return dict(line for line in lines if len(line) == 2).get(name, "none")


def _limits(view: View, title: str) -> str:
    lines = Path(f"/proc/{view.pid}/limits").read_text().splitlines()
    return " ".join(next(line for line in lines if line.startswith(title)).removeprefix(title).split()[:2])


def _device(view: View, name: str) -> str:
    try:
        node = os.stat(f"/proc/{view.pid}/root/dev/{name}")
    except FileNotFoundError:
        return "none"
    return f"{os.major(node.st_rdev)}:{os.minor(node.st_rdev)} {stat.filemode(node.st_mode)}"


def namespace(view: View, kind: str) -> str:
    """Whether the container has the host's namespace of this type ("host"), or another namespace ("own")."""
    return "host" if os.readlink(f"/proc/{view.pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}") else "own"


def _mount_type(view: View, target: str) -> str:
    for line in Path(f"/proc/{view.pid}/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[4] == target:
            return f"{line.split(' - ')[1].split()[0]} {fields[5].split(',')[0]}"
    return "none"


def _host_file(name: str) -> Callable[[View], str]:
    def read(view: View) -> str:
        path = view.dir / name
        return path.read_text().strip() if path.exists() else "none"

    return read


def _after_removal(name: str) -> Callable[[View], str]:
    def read(view: View) -> str:
        view.remove()
        return _host_file(name)(view)

    return read


def _folder(pod: m.PodSandbox) -> str:
    return pod.annotations[FOLDER]


def _hook(pod: m.PodSandbox, stage: str) -> Adjustment:
    """A hook that writes a file from its stdin, which contains the container's state as JSON."""
    script = f"/bin/grep -c ociVersion > {_folder(pod)}/hook-{stage}"
    return Adjustment().add_hook(stage, "/bin/sh", ["sh", "-c", script])


def _seccomp() -> m.LinuxSeccomp:
    """A policy that permits everything except mkdir, which fails with error 99."""
    rule = m.LinuxSyscall(names=["mkdir", "mkdirat"], action="SCMP_ACT_ERRNO")
    rule.errno_ret.value = 99
    return m.LinuxSeccomp(default_action="SCMP_ACT_ALLOW", syscalls=[rule])


def _spec(*path: str) -> Callable[[View], str]:
    return lambda view: str(view.spec(*path))


def _spec_devices(view: View) -> str:
    """The access rules for the device 1:11."""
    rules = view.spec("linux", "resources", "devices") or []
    return str([rule["access"] for rule in rules if (rule.get("major"), rule.get("minor")) == (1, 11)])


#: The CDI file of the case `cdi`.
CDI_SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nri.test/thing",
    "devices": [{"name": "one", "containerEdits": {"env": ["FROM_CDI=one"]}}],
}
A = Adjustment
INSIDE, PROCESS, CGROUP, SPEC = "inside", "process", "cgroup", "OCI spec"

CASES: dict[str, Case] = {
    "env": Case("add_env", INSIDE, lambda _: A().add_env("ADDED", "yes"), lambda v: _env(v, "ADDED"), "yes"),
    "env-replace": Case(
        "add_env that replaces a variable of the pod",
        INSIDE,
        lambda _: A().add_env("OF_POD", "new"),
        lambda v: _env(v, "OF_POD"),
        "new",
    ),
    "env-remove": Case(
        "remove_env of a variable of the pod",
        INSIDE,
        lambda _: A().remove_env("OF_POD"),
        lambda v: _env(v, "OF_POD"),
        "none",
    ),
    "annotation": Case(
        "add_annotation",
        SPEC,
        lambda _: A().add_annotation("added", "yes"),
        lambda v: str((v.spec("annotations") or {}).get("added")),
        "yes",
    ),
    "annotation-remove": Case(
        "remove_annotation",
        SPEC,
        lambda _: A().remove_annotation("io.kubernetes.cri.image-name"),
        lambda v: str((v.spec("annotations") or {}).get("io.kubernetes.cri.image-name")),
        "None",
    ),
    "mount": Case(
        "add_mount",
        INSIDE,
        lambda pod: A().add_mount("/added", _folder(pod), "bind", ["rbind", "ro"]),
        lambda v: v.exec("/bin/sh", "-c", "cat /added/hello 2>/dev/null || echo none").strip(),
        "hello",
    ),
    "mount-tmpfs": Case(
        "add_mount of a tmpfs",
        PROCESS,
        lambda _: A().add_mount("/scratch", "tmpfs", "tmpfs", ["nosuid", "size=1m"]),
        lambda v: _mount_type(v, "/scratch"),
        "tmpfs rw",
    ),
    "mount-remove": Case(
        "remove_mount",
        PROCESS,
        lambda _: A().remove_mount("/dev/mqueue"),
        lambda v: _mount_type(v, "/dev/mqueue"),
        "none",
    ),
    "args": Case(
        "set_args",
        PROCESS,
        lambda _: A().set_args(["/bin/sleep", "4242"]),
        lambda v: Path(f"/proc/{v.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip(),
        "/bin/sleep 4242",
    ),
    "rlimit": Case(
        "add_rlimit",
        PROCESS,
        lambda _: A().add_rlimit("RLIMIT_NOFILE", 1000, 900),
        lambda v: _limits(v, "Max open files"),
        "900 1000",
    ),
    "device": Case(
        "add_device",
        PROCESS,
        lambda _: A().add_device("/dev/added", "c", 1, 3, file_mode=0o640),
        lambda v: _device(v, "added"),
        "1:3 crw-r-----",
    ),
    "device-use": Case(
        "add_device grants access",
        INSIDE,
        # /dev/kmsg exists in every kernel, and the default rules do not allow it: opening it shows that the device's
        # rule was added. No mode is set, because the kernel has its own.
        lambda _: A().add_device("/dev/added", "c", 1, 11),
        # `test -c`, because without the device the redirection would create a file.
        lambda v: v.exec(
            "/bin/sh", "-c", "test -c /dev/added && (exec 3>/dev/added) 2>/dev/null && echo open || echo none"
        ).strip(),
        "open",
    ),
    "device-rule": Case(
        "add_device_rule",
        SPEC,
        lambda _: A().add_device_rule(True, "c", major=1, minor=11, access="r"),
        _spec_devices,
        "['r']",
    ),
    "cdi": Case(
        "add_cdi_device",
        INSIDE,
        lambda _: A().add_cdi_device("nri.test/thing=one"),
        lambda v: _env(v, "FROM_CDI"),
        "one",
    ),
    "cpu-shares": Case(
        "set_cpu_shares",
        CGROUP,
        lambda _: A().set_cpu_shares(300),
        lambda v: v.cgroup("cpu", "cpu.shares", ""),
        "300",
    ),
    "cpu-quota": Case(
        "set_cpu_quota, set_cpu_period",
        CGROUP,
        lambda _: A().set_cpu_quota(30_000).set_cpu_period(60_000),
        lambda v: v.cgroup("cpu", "cpu.cfs_quota_us", "cpu.max").split()[0],
        "30000",
    ),
    "cpuset": Case(
        "set_cpuset_cpus",
        CGROUP,
        lambda _: A().set_cpuset_cpus("0"),
        lambda v: v.cgroup("cpuset", "cpuset.cpus", "cpuset.cpus"),
        "0",
    ),
    "cpuset-mems": Case(
        "set_cpuset_mems",
        SPEC,
        lambda _: A().set_cpuset_mems("0"),
        _spec("linux", "resources", "cpu", "mems"),
        "0",
    ),
    "memory": Case(
        "set_memory_limit",
        CGROUP,
        lambda _: A().set_memory_limit(48 << 20),
        lambda v: v.cgroup("memory", "memory.limit_in_bytes", "memory.max"),
        str(48 << 20),
    ),
    "memory-inside": Case(
        "set_memory_limit, as seen inside the container",
        INSIDE,
        lambda _: A().set_memory_limit(48 << 20),
        lambda v: v.exec(
            "/bin/sh", "-c", "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes || cat memory.max"
        ).strip(),
        str(48 << 20),
    ),
    "memory-reservation": Case(
        "set_memory_reservation",
        SPEC,
        lambda _: A().set_memory_limit(48 << 20).set_memory_reservation(32 << 20),
        _spec("linux", "resources", "memory", "reservation"),
        str(32 << 20),
    ),
    "hugepages": Case(
        "add_hugepage_limit",
        SPEC,
        lambda _: A().add_hugepage_limit("2MB", 4 << 20),
        lambda v: str([page["limit"] for page in v.spec("linux", "resources", "hugepageLimits") or []]),
        str([4 << 20]),
        start=False,
    ),
    "pids": Case(
        "set_pids_limit",
        CGROUP,
        lambda _: A().set_pids_limit(77),
        lambda v: v.cgroup("pids", "pids.max", "pids.max"),
        "77",
    ),
    "unified": Case(
        "add_unified",
        SPEC,
        lambda _: A().add_unified("memory.high", "33554432"),
        _spec("linux", "resources", "unified", "memory.high"),
        "33554432",
        start=False,
    ),
    "blockio": Case(
        "set_blockio_class, no classes configured",
        SPEC,
        lambda _: A().set_blockio_class("gold"),
        _spec("linux", "resources", "blockIO"),
        "applied",
        start=False,
    ),
    "rdt-class": Case(
        "set_rdt_class",
        SPEC,
        lambda _: A().set_rdt_class("gold"),
        _spec("linux", "intelRdt", "closID"),
        "gold",
        start=False,
    ),
    "rdt": Case(
        "set_rdt_clos_id",
        SPEC,
        lambda _: A().set_rdt_clos_id("gold"),
        _spec("linux", "intelRdt", "closID"),
        "gold",
        start=False,
    ),
    "oom-score": Case(
        "set_oom_score_adj",
        PROCESS,
        lambda _: A().set_oom_score_adj(777),
        lambda v: Path(f"/proc/{v.pid}/oom_score_adj").read_text().strip(),
        "777",
    ),
    "cgroups-path": Case(
        "set_cgroups_path",
        PROCESS,
        lambda pod: A().set_cgroups_path(f"{pod.annotations[CGROUP_PARENT]}/moved"),
        lambda v: str("/moved" in Path(f"/proc/{v.pid}/cgroup").read_text()),
        "True",
    ),
    "hook-create-runtime": Case(
        "add_hook create_runtime",
        PROCESS,
        lambda pod: _hook(pod, "create_runtime"),
        _host_file("hook-create_runtime"),
        "1",
    ),
    "hook-prestart": Case(
        "add_hook prestart", PROCESS, lambda pod: _hook(pod, "prestart"), _host_file("hook-prestart"), "1"
    ),
    "hook-poststart": Case(
        "add_hook poststart", PROCESS, lambda pod: _hook(pod, "poststart"), _host_file("hook-poststart"), "1"
    ),
    "hook-create-container": Case(
        "add_hook create_container",
        PROCESS,
        lambda pod: _hook(pod, "create_container"),
        _host_file("hook-create_container"),
        "1",
    ),
    "hook-start-container": Case(
        "add_hook start_container",
        INSIDE,
        # This hook runs inside the container.
        lambda _: A().add_hook("start_container", "/bin/sh", ["sh", "-c", "/bin/grep -c ociVersion > /tmp/hook"]),
        lambda v: v.exec("/bin/sh", "-c", "cat /tmp/hook 2>/dev/null || echo none").strip(),
        "1",
    ),
    "hook-poststop": Case(
        "add_hook poststop", PROCESS, lambda pod: _hook(pod, "poststop"), _after_removal("hook-poststop"), "1"
    ),
    "namespace-add": Case(
        "set_namespace",
        PROCESS,
        lambda _: A().set_namespace("cgroup"),
        lambda v: namespace(v, "cgroup"),
        "own",
    ),
    "namespace-replace": Case(
        "set_namespace at a path",
        PROCESS,
        lambda _: A().set_namespace("ipc", f"/proc/{os.getpid()}/ns/ipc"),
        lambda v: namespace(v, "ipc"),
        "host",
    ),
    "namespace-remove": Case(
        "remove_namespace", PROCESS, lambda _: A().remove_namespace("ipc"), lambda v: namespace(v, "ipc"), "host"
    ),
    "sysctl": Case(
        "set_sysctl",
        INSIDE,
        lambda _: A().set_sysctl("kernel.shm_rmid_forced", "1"),
        lambda v: v.exec("/bin/cat", "/proc/sys/kernel/shm_rmid_forced").strip(),
        "1",
    ),
    "seccomp": Case(
        "set_seccomp_policy",
        INSIDE,
        lambda _: A().set_seccomp_policy(_seccomp()),
        lambda v: v.exec("/bin/sh", "-c", "mkdir /tmp/made 2>/dev/null && echo made || echo refused").strip(),
        "refused",
    ),
    "scheduler": Case(
        "set_scheduler",
        SPEC,
        lambda _: A().set_scheduler("BATCH", nice=5),
        _spec("process", "scheduler", "policy"),
        "SCHED_BATCH",
        start=False,
    ),
    "io-priority": Case(
        "set_io_priority",
        SPEC,
        lambda _: A().set_io_priority("BE", 6),
        _spec("process", "ioPriority", "class"),
        "IOPRIO_CLASS_BE",
        start=False,
    ),
    "net-device": Case(
        "add_net_device",
        SPEC,
        lambda _: A().add_net_device("nri-none", "eth9"),
        _spec("linux", "netDevices", "nri-none", "name"),
        "eth9",
        start=False,
    ),
    "memory-policy": Case(
        "set_memory_policy",
        SPEC,
        lambda _: A().set_memory_policy("BIND", "0"),
        _spec("linux", "memoryPolicy", "mode"),
        "MPOL_BIND",
        start=False,
    ),
}
"""Case by name, in the order of the documentation."""


class Setter(NamedTuple):
    """An update of a running container: a setter of `nri.Update`, and the file in which its effect is read.

    Attributes:
        value: the setter's argument.
        controller: the controller of the cgroup.
        v1_file, v2_file: the controller's file, by cgroup version.
        text: the content of the file afterwards; on version 2, the CPU weight is another number.
    """

    value: Any
    controller: str
    v1_file: str
    v2_file: str
    text: str


SETTERS: dict[str, Setter] = {
    "set_memory_limit": Setter(80 << 20, "memory", "memory.limit_in_bytes", "memory.max", str(80 << 20)),
    "set_cpu_quota": Setter(40_000, "cpu", "cpu.cfs_quota_us", "cpu.max", "40000"),
    "set_cpu_shares": Setter(333, "cpu", "cpu.shares", "cpu.weight", "333"),
    "set_cpuset_cpus": Setter("0", "cpuset", "cpuset.cpus", "cpuset.cpus", "0"),
    "set_pids_limit": Setter(55, "pids", "pids.max", "pids.max", "55"),
    "set_memory_reservation": Setter(32 << 20, "memory", "memory.soft_limit_in_bytes", "memory.low", str(32 << 20)),
}
