"""A container finds what its CRI request specifies: run by runc, read from inside."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.machine import find_devices
from nri.engine.spec import Account, Options, Pod, container_resources, pod_spec
from nri.errors import RequestError
from tests.engine.bundle import Bundles
from tests.support.needs import need, need_machine
from tools.runtimes.cgroups import read

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def bundles() -> Iterator[Bundles]:
    # Below a folder that others may pass: the ids of a user namespace are not root, and TMPDIR may be closed to them.
    with tempfile.TemporaryDirectory(prefix="nri-spec-", dir="/run") as folder:
        os.chmod(folder, 0o755)
        bundles_ = Bundles(Path(folder))
        yield bundles_
        bundles_.close()


def security(**fields: object) -> pb.ContainerConfig:
    context = pb.LinuxContainerSecurityContext(**fields)  # type: ignore[arg-type]
    return pb.ContainerConfig(linux=pb.LinuxContainerConfig(security_context=context))


def status(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


STATUS = "cat /proc/self/status"
DEFAULT_PROFILE = pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)


def test_command_environment_and_working_directory_are_applied(bundles: Bundles) -> None:
    config = pb.ContainerConfig(
        args=["one", "two"],
        envs=[pb.KeyValue(key="GREETING", value="hällo =".encode())],
        working_dir="/var/new",
    )
    output = bundles.shell('echo "$0 $1 $GREETING $PATH"; pwd', config=config)
    assert output.splitlines() == ["one two hällo = /bin", "/var/new"]


def test_user_groups_and_no_new_privileges_are_applied(bundles: Bundles) -> None:
    config = security(
        run_as_user=pb.Int64Value(value=1000),
        supplemental_groups=[7, 8],
        no_new_privs=True,
    )
    proc_status = status(bundles.shell(STATUS, config=config, account=Account(1000, 5, (9,))))
    assert (proc_status["Uid"].split()[0], proc_status["Gid"].split()[0]) == ("1000", "5")
    assert sorted(map(int, proc_status["Groups"].split())) == [5, 7, 8, 9]
    assert proc_status["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ({}, "00000000a80425fb"),
        ({"drop_capabilities": ["ALL"], "add_capabilities": ["NET_ADMIN"]}, "0000000000001000"),
        ({"drop_capabilities": ["CAP_CHOWN", "kill"]}, "00000000a80425da"),
    ],
)
def test_capabilities_are_applied(bundles: Bundles, capability: dict, expected: str) -> None:
    proc_status = status(bundles.shell(STATUS, config=security(capabilities=pb.Capability(**capability))))
    assert {proc_status["CapBnd"], proc_status["CapEff"], proc_status["CapPrm"]} == {expected}
    assert {proc_status["CapInh"], proc_status["CapAmb"]} == {"0" * 16}


def test_ambient_capabilities_reach_a_non_root_user(bundles: Bundles) -> None:
    capability = pb.Capability(drop_capabilities=["ALL"], add_ambient_capabilities=["NET_BIND_SERVICE"])
    proc_status = status(bundles.shell(STATUS, config=security(capabilities=capability), account=Account(1000, 1000)))
    assert (proc_status["CapAmb"], proc_status["CapEff"]) == ("0000000000000400", "0000000000000400")


def test_all_capabilities_means_the_capabilities_of_the_engine(bundles: Bundles) -> None:
    config = security(capabilities=pb.Capability(add_capabilities=["ALL"], drop_capabilities=["MKNOD"]))
    proc_status = status(bundles.shell(STATUS, config=config))
    engine_capabilities = int(status(Path("/proc/self/status").read_text())["CapBnd"], 16)
    assert int(proc_status["CapEff"], 16) == engine_capabilities & ~(1 << 27) & ((1 << 41) - 1)


def test_mounts_are_bound_and_can_be_recursively_read_only(bundles: Bundles, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "file").write_text("content")
    mount = {"host_path": str(tmp_path)}
    config = pb.ContainerConfig(
        mounts=[
            pb.Mount(container_path="/rw", **mount),
            pb.Mount(container_path="/ro", readonly=True, **mount),
            pb.Mount(container_path="/rro", readonly=True, recursive_read_only=True, **mount),
            pb.Mount(container_path="/safe", mount_options=["noexec", "nosuid"], **mount),
            pb.Mount(container_path="/etc/one", host_path=str(tmp_path / "file"), readonly=True),
        ]
    )
    script = "cat /etc/one; echo; touch /rw/new && echo new; for d in ro rro; do touch /$d/x 2>&1; done; cat /proc/self/mountinfo"  # noqa: E501
    output = bundles.shell(script, config=config)
    assert output.startswith("content\nnew\n")
    assert output.count("Read-only file system") == 2
    assert (tmp_path / "new").exists()
    options = {line.split()[4]: line.split()[5].split(",") for line in output.splitlines() if " - " in line}
    assert "rw" in options["/rw"] and "ro" in options["/ro"] and "ro" in options["/rro"]
    assert {"noexec", "nosuid"} <= set(options["/safe"])


@pytest.mark.parametrize(
    ("propagation", "tag"), [(pb.PROPAGATION_HOST_TO_CONTAINER, "master:"), (pb.PROPAGATION_BIDIRECTIONAL, "shared:")]
)
def test_mounts_have_the_requested_propagation(bundles: Bundles, tmp_path: Path, propagation: int, tag: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "nri-spec-test", str(shared)], check=True)
    try:
        subprocess.run(["mount", "--make-shared", str(shared)], check=True)
        config = pb.ContainerConfig(
            mounts=[pb.Mount(container_path="/shared", host_path=str(shared), propagation=propagation)]
        )
        output = bundles.shell("grep ' /shared ' /proc/self/mountinfo", config=config)
        assert tag in output.partition(" - ")[0]
    finally:
        subprocess.run(["umount", "-R", str(shared)], check=True)


def test_the_root_file_system_can_be_read_only(bundles: Bundles) -> None:
    assert "Read-only" in bundles.shell("touch /x 2>&1 || true", config=security(readonly_rootfs=True))


def test_masked_and_read_only_paths_are_applied(bundles: Bundles) -> None:
    config = security(masked_paths=["/proc/keys", "/etc"], readonly_paths=["/proc/sys"])
    output = bundles.shell(
        "cat /proc/keys | wc -c; ls /etc | wc -l; echo x 2>&1 >/proc/sys/kernel/domainname || true", config=config
    )
    assert output.splitlines()[:2] == ["0", "0"]
    assert "Read-only file system" in output


def test_requested_devices_have_their_permissions_and_others_are_forbidden(bundles: Bundles) -> None:
    config = pb.ContainerConfig(
        devices=[
            pb.Device(container_path="/dev/mine", host_path="/dev/zero", permissions="r"),
            pb.Device(container_path="/dev/tunnel", host_path="/dev/net/tun", permissions="rwm"),
        ]
    )
    need_machine(find_devices("/dev/net/tun"), "/dev/net/tun")
    script = (
        "head -c3 /dev/mine | wc -c; ls -l /dev/tunnel | tr -s ' ' | cut -d' ' -f5,6;"
        "mknod /dev/mem c 1 1 && head -c1 /dev/mem 2>&1 || true; echo > /dev/null && echo fine"
    )
    output = bundles.shell(script, config=config)
    assert output.splitlines()[:2] == ["3", "10, 200"]
    assert "not permitted" in output
    assert output.endswith("fine")


def test_a_privileged_container_has_the_host_devices_and_is_unconfined(bundles: Bundles) -> None:
    context = pb.LinuxSandboxSecurityContext(privileged=True)
    pod = bundles.pod(linux=pb.LinuxPodSandboxConfig(security_context=context))
    config = security(privileged=True, masked_paths=["/proc/keys"], seccomp=DEFAULT_PROFILE)
    script = (
        f"{STATUS}; echo devices: $(find /dev -type c -o -type b | wc -l); echo keys: $(head -c1 /proc/keys | wc -c);"
        "grep ' /sys/fs/cgroup ' /proc/mounts; mknod /dev/anything b 7 0 && rm /dev/anything && echo made: yes"
    )
    output = bundles.shell(script, pod, config)
    lines = status(output)
    assert (lines["Seccomp"], lines["CapBnd"]) == ("0", status(Path("/proc/self/status").read_text())["CapBnd"])
    devices = [device for device in find_devices("/dev") if not device.path.startswith(("/dev/pts/", "/dev/shm/"))]
    assert int(lines["devices"]) >= len(devices) - 3  # console, ptmx and tty are its own
    assert (lines["keys"], lines["made"]) == ("1", "yes")
    assert " rw," in output


def test_resources_are_set_in_the_cgroup_and_changed_by_an_update(bundles: Bundles) -> None:
    resources = pb.LinuxContainerResources(
        cpu_shares=300, cpu_quota=20000, cpu_period=50000, cpuset_cpus="0", memory_limit_in_bytes=64 << 20,
        memory_swap_limit_in_bytes=80 << 20, oom_score_adj=500,
    )  # fmt: skip
    config = pb.ContainerConfig(command=["/bin/sleep", "60"], linux=pb.LinuxContainerConfig(resources=resources))
    spec = bundles.spec(config, pids_limit=77)
    container = bundles.run(spec, "-d")
    pid = bundles.pid(container)
    try:
        assert read(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(64 << 20)
        assert read(pid, "pids", "pids.max", "pids.max") == "77"
        assert read(pid, "cpuset", "cpuset.cpus", "cpuset.cpus") == "0"
        if not bundles.machine.cgroup_v2:
            assert read(pid, "memory", "memory.memsw.limit_in_bytes", "") == str(80 << 20)
            assert read(pid, "cpu", "cpu.shares", "") == "300"
            assert read(pid, "cpu", "cpu.cfs_quota_us", "") == "20000"
            assert read(pid, "cpu", "cpu.cfs_period_us", "") == "50000"
        assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "500"
        assert f"/{bundles.parent}/c" in Path(f"/proc/{pid}/cgroup").read_text()
        change = pb.LinuxContainerResources(memory_limit_in_bytes=48 << 20, cpu_shares=222)
        update_file = bundles.folder / "update.json"
        update_file.write_text(json.dumps(container_resources(change, bundles.machine, [])))
        bundles.call("update", "--resources", str(update_file), container)
        assert read(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(48 << 20)
        if not bundles.machine.cgroup_v2:
            assert read(pid, "cpu", "cpu.shares", "") == "222"
            assert read(pid, "cpu", "cpu.cfs_quota_us", "") == "20000"
    finally:
        bundles.call("delete", "--force", container)


def test_an_oom_score_below_the_engines_minimum_is_raised(bundles: Bundles) -> None:
    need_machine(bundles.machine.oom_score_floor > -1000, "engine without CAP_SYS_RESOURCE")
    config = pb.ContainerConfig(linux=pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(oom_score_adj=-999)))
    assert int(bundles.shell("cat /proc/self/oom_score_adj", config=config)) == bundles.machine.oom_score_floor


def test_the_default_seccomp_profile_allows_usual_programs_and_blocks_dangerous_calls(bundles: Bundles) -> None:
    script = (
        f"{STATUS}; unshare -U true 2>&1; mount -t tmpfs x /tmp 2>&1; date >/dev/null && ls / >/dev/null && echo works;"
        "(sleep 0 & wait) && echo forks; chroot / /bin/true && echo chroots; hostname x 2>&1 || true"
    )
    output = bundles.shell(script, config=security(seccomp=DEFAULT_PROFILE))
    lines = status(output)
    assert lines["Seccomp"] == "2"
    assert lines["unshare"].endswith("Operation not permitted")
    assert lines["mount"].lower().endswith(("permission denied (are you root?)", "operation not permitted"))
    assert lines["hostname"].endswith("Operation not permitted")
    assert {"works", "forks", "chroots"} <= set(output.splitlines())


def test_the_default_seccomp_profile_allows_threads_children_sockets_and_files(bundles: Bundles) -> None:
    """glibc tries clone3 first and has to fall back."""
    program = (
        "import threading, subprocess, socket, tempfile, os, select, time, mmap, asyncio\n"
        "thread = threading.Thread(target=time.sleep, args=(0.01,)); thread.start(); thread.join()\n"
        "assert subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout == b'x\\n'\n"
        "one, two = socket.socketpair(); one.send(b'y'); assert two.recv(1) == b'y'\n"
        "socket.socket(socket.AF_INET).bind(('127.0.0.1', 0)); mmap.mmap(-1, 4096); select.epoll()\n"
        "with tempfile.TemporaryFile() as file: os.posix_fallocate(file.fileno(), 0, 10)\n"
        "async def main(): return (await (await asyncio.create_subprocess_exec('/bin/true')).wait())\n"
        "assert asyncio.run(main()) == 0\n"
        "try: socket.socket(40, socket.SOCK_STREAM)\n"
        "except OSError as error: print('works', error.errno)\n"
    )
    need(os.path.exists("/usr/bin/python3"), "Debian's Python at /usr/bin/python3")
    folders = [path for path in ("/usr", "/lib", "/lib64", "/bin") if os.path.exists(path)]
    config = security(seccomp=DEFAULT_PROFILE)
    config.mounts.extend(pb.Mount(container_path=path, host_path=path, readonly=True) for path in folders)
    config.command.extend([os.path.realpath("/usr/bin/python3"), "-c", program])
    assert bundles.run(bundles.spec(config)).split() == ["works", "38"]


def test_the_default_seccomp_profile_follows_capabilities(bundles: Bundles) -> None:
    capability = pb.Capability(add_capabilities=["SYS_ADMIN"], drop_capabilities=["SYS_CHROOT"])
    config = security(seccomp=DEFAULT_PROFILE, capabilities=capability)
    output = bundles.shell("mount -t tmpfs x /tmp && echo mounted; chroot / /bin/true 2>&1 || true", config=config)
    assert "mounted" in output
    assert "not permitted" in output


def test_without_a_seccomp_profile_no_call_is_filtered(bundles: Bundles) -> None:
    assert status(bundles.shell(STATUS))["Seccomp"] == "0"


def test_a_seccomp_profile_of_the_host_is_applied(bundles: Bundles) -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}],
    }
    security_profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="/p.json")
    output = bundles.shell(
        "mkdir /tmp/x 2>&1 || true", config=security(seccomp=security_profile), localhost_seccomp=profile
    )
    assert output.endswith("No space left on device")


def test_containers_share_the_namespaces_name_sysctls_and_files_of_their_pod(bundles: Bundles, tmp_path: Path) -> None:
    linux = pb.LinuxPodSandboxConfig(
        cgroup_parent=f"/{bundles.parent}",
        sysctls={"net.ipv4.ip_forward": "1", "kernel.shm_rmid_forced": "1"},
    )
    linux.security_context.namespace_options.pid = pb.POD
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="web"), hostname="web", linux=linux)
    options = Options(container_id="pause", rootfs=str(bundles.rootfs), machine=bundles.machine)
    pause = bundles.run(pod_spec("p1", config, ["/bin/sleep", "60"], options).spec, "-d")
    pid = bundles.pid(pause)
    try:
        (tmp_path / "hosts").write_text("10.9.8.7 other\n")
        (tmp_path / "shm").mkdir()
        (tmp_path / "shm/there").write_text("")
        kinds = {"network": "net", "ipc": "ipc", "uts": "uts", "pid": "pid"}
        pod = Pod(
            "p1",
            config,
            {kind: f"/proc/{pid}/ns/{name}" for kind, name in kinds.items()},
            {"/etc/hosts": str(tmp_path / "hosts"), "/dev/shm": str(tmp_path / "shm")},
        )
        shares = security(namespace_options=pb.NamespaceOption(pid=pb.POD))
        script = (
            "hostname; echo $HOSTNAME; cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shm_rmid_forced /etc/hosts;"
            "ls /dev/shm; tr '\\0' ' ' < /proc/1/cmdline; echo; readlink /proc/self/ns/net"
        )
        output = bundles.shell(script, pod, shares).splitlines()
        assert output[:6] == ["web", "web", "1", "1", "10.9.8.7 other", "there"]
        assert output[6].strip() == "/bin/sleep 60"
        assert output[7] == os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        alone = security(namespace_options=pb.NamespaceOption(pid=pb.CONTAINER))
        assert bundles.shell("echo $$", pod, alone) == "1"
        target = security(namespace_options=pb.NamespaceOption(pid=pb.TARGET, target_id="c1"))
        output_ = bundles.shell(
            "tr '\\0' ' ' < /proc/1/cmdline", pod, target, target_pid_namespace=f"/proc/{pid}/ns/pid"
        )
        assert output_.strip() == "/bin/sleep 60"
        assert status(Path(f"/proc/{pid}/status").read_text())["CapBnd"] == "0" * 16
    finally:
        bundles.call("delete", "--force", pause)


def test_a_user_namespace_of_the_pod_maps_the_ids_of_its_containers(bundles: Bundles) -> None:
    mapping = [pb.IDMapping(host_id=100000, container_id=0, length=65536)]
    linux = pb.LinuxPodSandboxConfig(cgroup_parent=f"/{bundles.parent}")
    userns = pb.UserNamespace(mode=pb.POD, uids=mapping, gids=mapping)
    linux.security_context.namespace_options.CopyFrom(pb.NamespaceOption(pid=pb.CONTAINER, userns_options=userns))
    config = pb.PodSandboxConfig(linux=linux)
    options = Options(container_id="pause", rootfs=str(bundles.rootfs), machine=bundles.machine)
    pause = bundles.run(pod_spec("p1", config, ["/bin/sleep", "60"], options).spec, "-d")
    pid = bundles.pid(pause)
    try:
        assert status(Path(f"/proc/{pid}/status").read_text())["Uid"].split()[0] == "100000"
        kinds = {"network": "net", "ipc": "ipc", "uts": "uts", "user": "user"}
        pod = Pod("p1", config, {kind: f"/proc/{pid}/ns/{name}" for kind, name in kinds.items()})
        inside = security(namespace_options=linux.security_context.namespace_options)
        output = bundles.shell("id -u; cat /proc/self/uid_map", pod, inside).split()
        assert output == ["0", "0", "100000", "65536"]
    finally:
        bundles.call("delete", "--force", pause)


def test_joining_a_missing_pod_namespace_is_an_error(bundles: Bundles) -> None:
    config = security(namespace_options=pb.NamespaceOption(network=pb.POD, ipc=pb.NODE, pid=pb.CONTAINER))
    with pytest.raises(RequestError, match=r'network: "POD": pod p1 has no separate network namespace'):
        bundles.shell("true", config=config)
