"""Adjustments in config.json by the generator: runc runs the container, and its view is read back."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.config import Source
from nri.oci import BlockIoClasses, CdiDevices, Generator, RdtClasses, validate
from tests.real.bundles import V1, Bundles, rootfs
from tests.support.needs import need_machine, need_root, need_tool


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    need_root()
    need_tool("runc")
    folder = tmp_path_factory.mktemp("bundles")
    return Bundles(folder, rootfs(folder / "rootfs"))


def file(v1: str, v2: str) -> str:
    """Print a file of the container's own cgroup."""
    return f"cat /sys/fs/cgroup/{v1 if V1 else v2}"


MIB = 1 << 20
#: What is asked for, the command that reads it back inside, and what it prints. On cgroup v2 where that differs.
CASES: dict[str, tuple[nri.Adjustment, str, str]] = {
    "variable": (nri.Adjustment().add_env("A", "b=c").add_env("FROM", "plugin"), "echo $A $FROM", "b=c plugin"),
    "variable removed": (nri.Adjustment().remove_env("FROM"), "echo ${FROM-none}", "none"),
    "arguments": (nri.Adjustment().set_args(["echo", "other"]), "echo own", "other"),
    "tmpfs": (
        nri.Adjustment().add_mount("/data", "tmpfs", "tmpfs", ["size=1m"]),
        "busybox grep ' /data ' /proc/mounts",
        "tmpfs /data tmpfs rw,relatime,size=1024k 0 0",
    ),
    "mount removed": (nri.Adjustment().remove_mount("/sys/fs/cgroup"), "ls /sys/fs/cgroup | head -n 1", ""),
    "device": (
        nri.Adjustment().add_device("/dev/mine", "c", 1, 5, file_mode=0o640, uid=5, gid=6),
        "stat -c '%t:%T %a %u:%g' /dev/mine; busybox head -c 1 /dev/mine | busybox wc -c",
        "1:5 640 5:6\n1",
    ),
    "read-only device": (
        nri.Adjustment().add_device("/dev/mine", "c", 10, 229, file_mode=0o444),
        "(echo > /dev/mine) 2>/dev/null || echo refused; cat /sys/fs/cgroup/devices/devices.list"
        if V1
        else "(echo > /dev/mine) 2>/dev/null || echo refused",
        "refused",
    ),
    "cpu shares": (nri.Adjustment().set_cpu_shares(512), file("cpu/cpu.shares", "cpu.weight"), "512" if V1 else "20"),
    "cpu quota": (
        nri.Adjustment().set_cpu_quota(20000).set_cpu_period(50000),
        file("cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us", "cpu.max"),
        "20000\n50000" if V1 else "20000 50000",
    ),
    "cpuset": (
        nri.Adjustment().set_cpuset_cpus("0").set_cpuset_mems("0"),
        file("cpuset/cpuset.cpus /sys/fs/cgroup/cpuset/cpuset.mems", "cpuset.cpus /sys/fs/cgroup/cpuset.mems"),
        "0\n0",
    ),
    "memory limit": (
        nri.Adjustment().set_memory_limit(64 * MIB),
        file("memory/memory.limit_in_bytes", "memory.max"),
        str(64 * MIB),
    ),
    "memory reservation": (
        nri.Adjustment().set_memory_reservation(32 * MIB),
        file("memory/memory.soft_limit_in_bytes", "memory.low"),
        str(32 * MIB),
    ),
    "processes": (nri.Adjustment().set_pids_limit(77), file("pids/pids.max", "pids.max"), "77"),
    "processes without limit": (nri.Adjustment().set_pids_limit(-1), file("pids/pids.max", "pids.max"), "max"),
    "OOM score": (nri.Adjustment().set_oom_score_adj(321), "cat /proc/self/oom_score_adj", "321"),
    "resource limit": (nri.Adjustment().add_rlimit("RLIMIT_NOFILE", 99, 98), "ulimit -Sn; ulimit -Hn", "98\n99"),
    "sysctl": (
        nri.Adjustment().set_sysctl("net.ipv4.ip_forward", "1").set_sysctl("kernel.shm_rmid_forced", "1"),
        "cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shm_rmid_forced",
        "1\n1",
    ),
    "namespace removed": (
        nri.Adjustment().remove_namespace("network"),
        "readlink /proc/self/ns/net",
        os.readlink("/proc/self/ns/net"),
    ),
    "seccomp": (
        nri.Adjustment.of(
            m.ContainerAdjustment(
                linux=m.LinuxContainerAdjustment(
                    seccomp_policy=m.LinuxSeccomp(
                        default_action="SCMP_ACT_ALLOW",
                        syscalls=[
                            m.LinuxSyscall(
                                names=["mkdir", "mkdirat"],
                                action="SCMP_ACT_ERRNO",
                                errno_ret=m.OptionalUInt32(value=38),
                            )
                        ],
                    )
                )
            )
        ),
        "busybox mkdir /tmp/x 2>&1; busybox grep Seccomp: /proc/self/status",
        "mkdir: can't create directory '/tmp/x': Function not implemented\nSeccomp:\t2",
    ),
    "RDT class": (nri.Adjustment().set_rdt_class("gold"), "echo runs", "runs"),
}  # fmt: skip
if V1:
    CASES |= {
        "memory and swap": (
            nri.Adjustment().set_memory_limit(64 * MIB).set_memory_swap(96 * MIB),
            "cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
            str(96 * MIB),
        ),
        "swappiness": (
            nri.Adjustment().set_memory_swappiness(7), "cat /sys/fs/cgroup/memory/memory.swappiness", "7",
        ),
        "OOM killer": (
            nri.Adjustment().set_memory_disable_oom_killer(True),
            "busybox grep oom_kill_disable /sys/fs/cgroup/memory/memory.oom_control",
            "oom_kill_disable 1",
        ),
    }  # fmt: skip


def adjusted(bundles: Bundles, command: str, adjustment: Any, **parts: Any) -> dict[str, Any]:
    container = Generator(bundles.spec(command), rdt=RdtClasses().resolve, **parts).adjust(adjustment)
    assert validate(container) == []
    return container


@pytest.mark.parametrize("name", CASES)
def test_an_adjustment_is_visible_inside_the_container(bundles: Bundles, name: str) -> None:
    adjustment, command, expected = CASES[name]
    printed = bundles.run(adjusted(bundles, command, adjustment)).strip()
    if name == "read-only device" and V1:
        printed, rules = printed.split("\n", 1)
        assert "c 10:229 r" in rules.splitlines()
    if name == "tmpfs":  # newer kernels say more of it
        printed = printed.replace(",inode64", "")
    assert printed == expected


def test_hooks_receive_the_containers_annotations(bundles: Bundles, tmp_path: Path) -> None:
    observed = tmp_path / "seen.json"
    hook = m.Hook(path="/bin/sh", args=["sh", "-c", f"cat > {observed}"])
    adjustment = nri.Adjustment().add_annotation("who", "plugin").add_hooks(m.Hooks(create_runtime=[hook]))
    bundles.run(adjusted(bundles, "true", adjustment))
    assert json.loads(observed.read_text())["annotations"] == {"who": "plugin"}


def test_a_cgroup_path_is_applied(bundles: Bundles) -> None:
    name = f"/nri-oci-path-{os.getpid()}"
    adjustment = nri.Adjustment().set_cgroups_path(name).remove_namespace("cgroup")
    printed = bundles.run(adjusted(bundles, "cat /proc/self/cgroup", adjustment))
    assert any(line.endswith(name) for line in printed.splitlines())


def test_a_block_io_class_throttles_a_disk(bundles: Bundles) -> None:
    disks = sorted(f"/dev/{disk.name}" for disk in Path("/sys/block").iterdir() if Path(f"/dev/{disk.name}").exists())
    need_machine(disks, "block device")
    config = f"Classes: {{slow: [{{Devices: [{disks[0]}], ThrottleReadBps: 3Mi}}]}}"
    classes = BlockIoClasses(Source("test", config))
    command = file("blkio/blkio.throttle.read_bps_device", "io.max")
    adjustment = nri.Adjustment().set_blockio_class("slow")
    printed = bundles.run(adjusted(bundles, command, adjustment, blockio=classes.resolve))
    number = os.stat(disks[0]).st_rdev
    limit = f"{3 * MIB}" if V1 else f"rbps={3 * MIB} wbps=max riops=max wiops=max"
    assert printed.strip() == f"{os.major(number)}:{os.minor(number)} {limit}"


def test_a_cdi_device_is_added_with_all_its_edits(bundles: Bundles, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/file").write_text("from the host\n")
    observed = tmp_path / "hook-ran"
    edits = {
        "env": ["CDI=yes"],
        "deviceNodes": [{"path": "/dev/cdi", "hostPath": "/dev/null", "permissions": "rw"}],
        "mounts": [{"hostPath": f"{tmp_path}/shared", "containerPath": "/data", "options": ["bind", "ro"]}],
        "hooks": [{"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", f"touch {observed}"]}],
        "additionalGids": [4711],
    }
    full = {"cdiVersion": "0.7.0", "kind": "test.com/d", "devices": [{"name": "one", "containerEdits": edits}]}
    (tmp_path / "test.json").write_text(json.dumps(full))
    command = "echo $CDI; stat -c %t:%T /dev/cdi; echo x > /dev/cdi && cat /data/file; id -G"
    adjustment = nri.Adjustment().add_cdi_device("test.com/d=one")
    printed = bundles.run(adjusted(bundles, command, adjustment, cdi=CdiDevices([str(tmp_path)]).inject))
    assert printed.splitlines() == ["yes", "1:3", "from the host", "0 4711"]
    assert observed.exists()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A mount of the host that passes mounts on."""
    need_root()
    place = tmp_path / "mount"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "nri-oci", str(place)], check=True)
    try:
        subprocess.run(["mount", "--make-shared", str(place)], check=True)
        (place / "inner").mkdir()
        yield place
    finally:
        subprocess.run(["umount", "-R", str(place)], check=True)


def test_a_mount_in_a_container_reaches_the_host_only_if_shared(bundles: Bundles, shared: Path) -> None:
    def run(option: str) -> bool:
        adjustment = nri.Adjustment().add_mount("/data", str(shared), "bind", ["rbind", "rw", option])
        spec = adjusted(bundles, "mount -t tmpfs x /data/inner && touch /data/inner/here", adjustment)
        bundles.run(spec)
        return (shared / "inner/here").exists()

    assert run("rslave") is False
    assert run("rshared") is True


def test_an_update_reaches_a_running_container(bundles: Bundles) -> None:
    generator = Generator(bundles.spec("sleep 60"))
    adjustment = nri.Adjustment().set_memory_limit(64 * MIB).set_cpu_shares(100).set_pids_limit(50)
    spec = generator.adjust(adjustment)
    name = spec["linux"]["cgroupsPath"].lstrip("/")
    bundle = str(bundles.bundle(name, spec))
    bundles.start(bundle, name)
    try:
        update = nri.Update(name).set_memory_limit(32 * MIB).set_cpu_shares(200).set_pids_limit(40).set_cpuset_cpus("0")
        updated = generator.update(update)
        bundles.call("update", "--resources", "-", name, stdin=json.dumps(updated))
        command = "; ".join(
            [
                file("memory/memory.limit_in_bytes", "memory.max"),
                file("cpu/cpu.shares", "cpu.weight"),
                file("pids/pids.max", "pids.max"),
                file("cpuset/cpuset.cpus", "cpuset.cpus"),
            ]
        )
        printed = bundles.call("exec", name, "sh", "-c", command).split()
        assert printed == [str(32 * MIB), "200" if V1 else "8", "40", "0"]
        assert generator.spec["linux"]["resources"]["memory"] == {"limit": 32 * MIB, "swap": 32 * MIB}
    finally:
        bundles.call("delete", "--force", name)
    deadline = time.monotonic() + 10
    while (cgroups := bundles.cgroups(spec)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cgroups == [], "the container's cgroup is left"


def test_a_removed_device_cannot_be_opened(bundles: Bundles) -> None:
    command = (
        "busybox mknod /tmp/x c 10 229; (: < /tmp/x) 2>/dev/null && echo opened || echo refused; busybox rm /tmp/x"
    )
    spec = bundles.spec(command)
    spec["linux"]["devices"] = [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}]
    rule = {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rwm"}
    spec["linux"]["resources"]["devices"].append(rule)
    need_machine(Path("/dev/fuse").exists(), "/dev/fuse")
    assert bundles.run(spec).strip() == "opened"
    assert bundles.run(Generator(spec).adjust(nri.Adjustment().remove_device("/dev/fuse"))).strip() == "refused"
