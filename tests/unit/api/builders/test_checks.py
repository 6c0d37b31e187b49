"""Values that no runtime can apply are refused by the setter, with the name of the argument."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri.api import messages as m
from nri.api.builders import checks
from nri.api.builders.adjustment import Adjustment


@pytest.fixture(autouse=True)
def forget_doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each test the first user of the process, because a process logs each doubt once, and at most 100."""
    monkeypatch.setattr(checks, "doubts", set())


WRONG = [
    (lambda a: a.set_cpu_shares(-1), ValueError, "shares must be between 1 and 18446744073709551615, not -1"),
    (lambda a: a.set_cpu_shares("512"), TypeError, "shares must be an int, not '512'"),
    (lambda a: a.set_cpu_shares(None), TypeError, "shares must be an int, not None"),
    (lambda a: a.set_memory_limit(True), TypeError, "limit_bytes must be an int, not True"),
    (lambda a: a.set_memory_limit(1 << 63), ValueError, "limit_bytes must be between"),
    (lambda a: a.set_memory_disable_oom_killer(1), TypeError, "disable must be a bool, not 1"),
    (lambda a: a.set_cpuset_cpus(""), ValueError, "cpus must not be empty"),
    (lambda a: a.set_cpuset_cpus(3), TypeError, "cpus must be a str, not 3"),
    (lambda a: a.set_pids_limit(1.5), TypeError, "limit must be an int, not 1.5"),
    (lambda a: a.add_hugepage_limit("2MB", -1), ValueError, "limit_bytes must be between"),
    (lambda a: a.add_hugepage_limit("", 1), ValueError, "page_size must not be empty"),
    (lambda a: a.add_unified("", "1"), ValueError, "key must not be empty"),
    (lambda a: a.add_unified("memory.high", 1), TypeError, r"unified\['memory.high'\] must be a str, not 1"),
    (lambda a: a.add_device_rule(True, "x"), ValueError, "type must be one of a, b, c, not 'x'"),
    (lambda a: a.add_device_rule(True, access="rx"), ValueError, "access must consist of r, w and m, not 'rx'"),
    (lambda a: a.add_mount("", source="/x"), ValueError, "mount must not be empty"),
    (lambda a: a.add_mount(m.Mount(source="/x")), ValueError, "mount.destination must not be empty"),
    (lambda a: a.add_mount("/x", options="ro"), TypeError, "options must be a list of strings, not the string 'ro'"),
    (lambda a: a.add_mount("-/x"), ValueError, r"'-/x'; use remove_mount\(\)"),
    (lambda a: a.remove_mount(""), ValueError, "destination must not be empty"),
    (lambda a: a.add_env("A=B", "1"), ValueError, "name must not contain '=': 'A=B'"),
    (lambda a: a.add_env("-A", "1"), ValueError, r"use remove_env\(\)"),
    (lambda a: a.add_env("A", "x\0y"), ValueError, "must not contain NUL"),
    (lambda a: a.add_env("A", "\ud800"), ValueError, "is not valid Unicode"),
    (lambda a: a.add_annotation("k", 5), TypeError, r"annotations\['k'\] must be a str, not 5"),
    (lambda a: a.set_args("ls -l"), TypeError, "args must be a list of strings, not the string 'ls -l'"),
    (lambda a: a.set_args([]), ValueError, "args must not be empty"),
    (lambda a: a.set_args(["", "ls"]), ValueError, r"args must not begin with an empty string; update_args\(\)"),
    (lambda a: a.update_args("ls -l"), TypeError, r"args must be a list of strings, .* 'ls -l': write \['ls', '-l'\]"),
    (lambda a: a.update_args(None), TypeError, "args must be a list of strings, not None"),
    (lambda a: a.update_args(["a", 1]), TypeError, r"args\[1\] must be a str, not 1"),
    (lambda a: a.set_args(["a", 1]), TypeError, r"args\[1\] must be a str, not 1"),
    (lambda a: a.add_hook("before", "/x"), ValueError, "stage must be one of prestart, .* not 'before'"),
    (lambda a: a.add_hooks(m.Hook()), TypeError, "hooks must be a Hooks message"),
    (lambda a: a.add_rlimit("RLIMIT_NOFILE", -1, 5), ValueError, "hard must be between"),
    (lambda a: a.add_device("/dev/x", "z"), ValueError, "type must be one of c, b, u, p, not 'z'"),
    (lambda a: a.add_device("/dev/x", uid=-1), ValueError, "uid must be between"),
    (lambda a: a.set_namespace("net"), ValueError, "type must be one of network, .* not 'net'"),
    (lambda a: a.remove_namespace("-pid"), ValueError, "type must be one of"),
    (lambda a: a.set_oom_score_adj(2000), ValueError, "score must be between -1000 and 1000, not 2000"),
    (lambda a: a.set_io_priority("BEST"), ValueError, "io_class must be one of NONE, RT, BE, IDLE, not 'BEST'"),
    (lambda a: a.set_io_priority(9), ValueError, "io_class must be one of .* not 9"),
    (lambda a: a.set_io_priority(None), TypeError, "io_class must be a name or a number, not None"),
    (lambda a: a.set_io_priority("BE", 8), ValueError, "priority must be between 0 and 7, not 8"),
    (lambda a: a.set_scheduler("FIFO", flags="RECLAIM"), TypeError, "flags must be a list"),
    (lambda a: a.set_scheduler("FIFO", flags=["RECLAIM", "X"]), ValueError, r"flags\[1\] must be one of"),
    (lambda a: a.set_seccomp_policy({}), TypeError, "policy must be a LinuxSeccomp"),
    (lambda a: a.set_sysctl("-net.x", ""), ValueError, r"use remove_sysctl\(\)"),
    (lambda a: a.set_rdt_schemata("L3:0=f"), TypeError, "schemata must be a list"),
    (lambda a: a.set_cgroups_path(""), ValueError, "path must not be empty"),
    (lambda a: a.set_memory_limit(-2), ValueError, "limit_bytes must be between -1 and 9223372036854775807, not -2"),
    (lambda a: a.set_memory_reservation(-2), ValueError, "reservation_bytes must be between -1"),
    (lambda a: a.set_memory_swap(-2), ValueError, "swap_bytes must be between -1"),
    (lambda a: a.set_memory_kernel(-2), ValueError, "kernel_bytes must be between -1"),
    (lambda a: a.set_memory_kernel_tcp(-2), ValueError, "kernel_tcp_bytes must be between -1"),
    (lambda a: a.set_memory_swappiness(201), ValueError, "swappiness must be between 0 and 200, not 201"),
    (lambda a: a.set_cpu_shares(0), ValueError, "shares must be between 1"),
    (
        lambda a: a.set_cpuset_cpus("0-3,x"),
        ValueError,
        "cpus must be a list like 0-3,8, not '0-3,x': 'x' is not a number",
    ),
    (lambda a: a.set_cpuset_cpus(" , "), ValueError, "cpus must not be empty: ' , '"),
    (lambda a: a.set_cpuset_mems("3-0"), ValueError, "mems must be a list .* '3-0' ends before it begins"),
    (lambda a: a.set_memory_policy("BIND", "a"), ValueError, "nodes must be a list like 0-3,8, not 'a'"),
    (lambda a: a.add_mount("data"), ValueError, "mount must be an absolute path, not 'data'"),
    (
        lambda a: a.add_mount(m.Mount(destination="d")),
        ValueError,
        "mount.destination must be an absolute path, not 'd'",
    ),
    (lambda a: a.add_device("dev/x"), ValueError, "device must be an absolute path, not 'dev/x'"),
    (lambda a: a.add_device(m.LinuxDevice(path="x")), ValueError, "device.path must be an absolute path, not 'x'"),
    (lambda a: a.add_hook("poststop", "hook.sh"), ValueError, "path must be an absolute path, not 'hook.sh'"),
    (
        lambda a: a.add_hooks(m.Hooks(prestart=[m.Hook(path="/a"), m.Hook(path="b")])),
        ValueError,
        r"hooks.prestart\[1\].path must be an absolute path, not 'b'",
    ),
    (
        lambda a: a.add_rlimit("RLIMIT_NOFILE", 1, 2),
        ValueError,
        r"soft limit 2 exceeds hard limit 1; arguments are",
    ),
    (lambda a: a.add_rlimit("NOFILE", 2, 1), ValueError, "type must be RLIMIT_ followed by one of AS, .* not 'NOFILE'"),
    (
        lambda a: a.add_unified("../memory.high", "1"),
        ValueError,
        "key must be the name of a file without '/', .* not '../memory.high'",
    ),
    (lambda a: a.add_cdi_device("net0"), ValueError, "device must be vendor/class=device, .* not 'net0'"),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=[row[2][:50] for row in WRONG])
def test_an_invalid_value_is_an_error_with_its_name_and_changes_no_field(
    call, error: type[Exception], text: str
) -> None:
    adjustment = Adjustment()
    with pytest.raises(error, match=text):
        call(adjustment)
    assert adjustment.is_empty(), "half a change was left behind"


@pytest.mark.parametrize("spelling", ["IOPRIO_CLASS_BE", "BE", "be", 2])
def test_an_enum_is_accepted_by_name_short_name_or_number(spelling: str | int) -> None:
    adjustment = Adjustment().set_io_priority(spelling, 3)
    assert getattr(adjustment.message.linux.io_priority, "class") == m.IOPrioClass.IOPRIO_CLASS_BE


@pytest.mark.parametrize(
    "name", ["v/c=d", "vendor.com/net=eth0", "nvidia.com/gpu=all", "a-b.c/d_e=0", "v/c=GPU-1:2", "v/c.d=0"]
)
def test_valid_names_of_cdi_devices_are_accepted(name: str) -> None:
    assert Adjustment().add_cdi_device(name).cdi_devices == (name,)


@pytest.mark.parametrize(
    "name", ["v=d", "v/c", "/c=d", "v/=d", "v/c=", "1v/c=d", "v/1c=d", "v-/c=d", "v/c=d-", "v/c=-d", "v/c=d e", "v/ç=d"]
)
def test_an_invalid_name_of_a_cdi_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="device must be vendor/class=device"):
        Adjustment().add_cdi_device(name)


def test_the_largest_and_smallest_possible_values_are_accepted() -> None:
    adjustment = Adjustment().set_memory_limit(-1).set_memory_swap(-1).set_memory_swappiness(100).set_cpu_shares(262144)
    assert (adjustment.memory_limit, adjustment.memory_swappiness, adjustment.cpu_shares) == (-1, 100, 262144)
    assert adjustment.add_rlimit("RLIMIT_CORE", 0, 0).rlimits == {"RLIMIT_CORE": (0, 0)}
    assert adjustment.set_cpuset_cpus(" 0-3, 8,").cpuset_cpus == " 0-3, 8,", "as the kernel takes it"
    assert adjustment.set_cpu_shares(2).cpu_shares == 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a.add_hugepage_limit("2M", 1), "for example 2MB or 1GB, not '2M'"),
        (lambda a: a.add_hugepage_limit("2Mi", 1), "not '2Mi'"),
        (lambda a: a.add_mount("/d", "/srv"), "type must be given"),
        (lambda a: a.add_mount("/d", type="bind"), "options must contain bind or rbind"),
        (lambda a: a.add_mount("/d", "/srv", "bind", ["bind", "readonly"]), "write 'ro', not 'readonly'"),
        (lambda a: a.add_mount("/d", "/srv", "bind", ["bind,ro"]), r"write \['bind', 'ro'\], not 'bind,ro'"),
        (lambda a: a.add_mount(m.Mount(destination="/d", source="a\0b")), "mount.source must not contain NUL"),
        (lambda a: a.set_rdt_class("a/b"), "must be a name without '/'"),
        (lambda a: a.set_rdt_clos_id(".."), "must be a name without '/'"),
        (lambda a: a.add_unified("memory.current", "1"), "is read-only"),
        (lambda a: a.add_unified("pids.peak", "1"), "is read-only"),
        (lambda a: a.add_unified("hugetlb.2MB.rsvd.current", "1"), "is read-only"),
        (lambda a: a.set_cpu_period(5), "between 1000 and 1000000 microseconds, not 5"),
        (lambda a: a.set_cpu_quota(1), "1000 or more microseconds, not 1"),
        (lambda a: a.set_memory_limit(64 << 20).set_memory_swap(1 << 20), "must be at least the memory limit"),
        (lambda a: a.set_memory_swap(1 << 20).set_memory_limit(64 << 20), "must not exceed memory and swap together"),
        (lambda a: a.set_pids_limit(-2), "limit must be between -1"),
        (lambda a: a.set_scheduler("FIFO"), "between 1 and 99 for FIFO, not 0"),
        (lambda a: a.set_scheduler("OTHER", priority=5), "priority must be 0 for OTHER"),
        (lambda a: a.set_scheduler("DEADLINE", runtime_ns=5, deadline_ns=4), "at most deadline_ns"),
        (lambda a: a.set_io_priority("NONE", 3), "priority must be 0 for the class NONE"),
        (lambda a: a.set_memory_policy("BIND"), "nodes must not be empty for BIND"),
        (lambda a: a.set_memory_policy("LOCAL", "0"), "nodes must be empty for LOCAL"),
        (lambda a: a.set_namespace("network", "netns"), "path must be an absolute path"),
        (lambda a: a.add_net_device("eth0", "a-name-that-is-too-long"), "device must have at most 15 bytes"),
        (lambda a: a.add_hook("poststart", "/bin/"), "not the folder '/bin/'"),
        (lambda a: a.add_hook("poststart", "/bin/x", timeout_s=0), "timeout_s must be between 1"),
    ],
)
def test_a_value_that_no_runtime_can_apply_is_refused(call: Callable[[Adjustment], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(Adjustment())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a.set_memory_limit(65), "limit_bytes is 65: the kernel rounds it down"),
        (lambda a: a.set_sysctl("vm.swappiness", "1"), "refuse the kernel parameter vm.swappiness"),
        (lambda a: a.set_sysctl("kernel.pid_max", "1"), "refuse the kernel parameter kernel.pid_max"),
        (lambda a: a.add_annotation("my key", "v"), "annotation 'my key' contains a space"),
        (lambda a: a.add_env("A B", "v"), "environment variable 'A B' contains a space"),
        (lambda a: a.add_unified("cpu.qos_level", "1"), "has no file 'cpu.qos_level'"),
        (lambda a: a.set_cgroups_path("relative"), "cgroup path 'relative' is relative"),
        (lambda a: a.set_cgroups_path("/a/../b"), "cgroup path '/a/../b' contains '..'"),
        (
            lambda a: a.add_device("/dev/x", "c", 1, 3, file_mode=666),
            "666 (0o1232) has more than the permission bits",
        ),
        (lambda a: a.add_device("/dev/y", "c", 1, 3, file_mode=646), "write 0o646"),
        (lambda a: a.add_mount("/d", type="bind", options=["rbind"]), "the source '' of a bind mount"),
        (lambda a: a.add_mount("/d", "srv", options=["bind"]), "the source 'srv' of a bind mount"),
        (lambda a: a.set_sysctl("kernel/shmmax", "1"), "a conflict with kernel.shmmax,"),
        (lambda a: a.set_sysctl("net/ipv4/conf/eth0.5/x", "1"), "a conflict with net.ipv4.conf.eth0/5.x,"),
        (lambda a: a.set_sysctl("user.max_user_namespaces", "1"), "refuse the kernel parameter user.max_user"),
        (lambda a: a.add_unified("memory.hihg", "1"), "did you mean memory.high"),
        (lambda a: a.set_cpu_shares(1), "shares is 1: runc refuses it, others use 2"),
        (lambda a: a.set_cpu_shares(1 << 20), "shares is 1048576: runc refuses it, others use 262144"),
        (lambda a: a.set_memory_swappiness(150), "swappiness is 150: runc refuses values above 100"),
        (lambda a: a.add_mount("/a/../b", "/s", "bind", ["bind"]), "'/a/../b' contains '..'"),
        (lambda a: a.add_mount("/d", "/s", "bind", ["bind", "ro", "rw"]), "contradict each other: runtimes apply 'rw'"),
        (lambda a: a.add_mount("/d", "t", "tmpfs", ["noexec", "exec"]), "contradict each other"),
        (lambda a: a.add_mount("/d", "/s", "bind", ["rbind", "rslave", "private"]), "contradict each other"),
        (
            lambda a: a.add_mount("/d", "/s", "bind", ["rbind", "rslaves"]),
            "'rslaves' of a bind mount; did you mean",
        ),
        (
            lambda a: a.add_mount("/d", "/s", "bind", ["rbind", " nodev"]),
            "mount; did you mean 'nodev'",
        ),
        (lambda a: a.add_mount("/d", "/s", "bind", ["rbind", "size=5m"]), "runtimes ignore the option 'size=5m'"),
        (lambda a: a.add_device("/dev/a", "b"), "device /dev/a has the numbers 0:0, which no driver has"),
        (lambda a: a.add_device("/dev/a", "c", 5000, 1), "device /dev/a has the numbers 5000:1: Linux has no majors"),
        (lambda a: a.add_hook("poststart", "/bin/x", ["--all"]), "args of the hook /bin/x begin with '--all'"),
        (lambda a: a.add_hook("poststart", "/bin/y", ["y"], ["FOO"]), "env of the hook /bin/y has 'FOO'"),
        (lambda a: a.add_hook("poststart", "/bin/y", ["y"], ["=v"]), "env of the hook /bin/y has '=v'"),
        (lambda a: a.add_unified("hugetlb.2M.max", "1"), "for example, hugetlb.2MB.max"),
        (lambda a: a.set_args(["ls -la"]), "args begin with 'ls -la': a program whose name has a space"),
        (lambda a: a.set_rdt_schemata(["L3"]), "the schemata line 'L3' is not RESOURCE:DOMAIN=VALUE"),
        (lambda a: a.set_io_priority("IDLE", 7), "priority 7 has no effect in the I/O class IDLE"),
    ],
)
def test_a_value_that_some_runtime_accepts_is_logged_once(
    call: Callable[[Adjustment], object], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    call(Adjustment())
    call(Adjustment())
    assert [text in message for message in caplog.messages] == [True]


UNIFIED = {
    "cgroup.freeze": (["0", "1"], ["2", "yes"]),
    "cpu.idle": (["1"], ["true"]),
    "cpu.max": (["max", "max 100000", "50000 100000", " 5000 "], ["50%", "", "50000/100000", "1 2 3"]),
    "cpu.max.burst": (["0", "1000"], ["max", "1ms"]),
    "cpu.uclamp.max": (["max", "12.50", "100"], ["50%", "101", "1.x"]),
    "cpu.weight": (["1", "10000"], ["0", "10001", "high", "100000000"]),
    "cpuset.cpus": (["", "0-3,8"], ["a-b"]),
    "io.max": (["8:0 rbps=1048576 wiops=max"], ["/dev/sda rbps=5", "8:0", "rbps=5"]),
    "memory.high": (["max", "1G", "1048576", "0x1000", "0x10K", "5e"], ["1Gi", "50%", "-1", "", "0x", "G"]),
    "memory.oom.group": (["1"], ["yes"]),
    "pids.max": (["max", "5"], ["-1", "1.5"]),
}


@pytest.mark.parametrize("key", UNIFIED)
def test_a_value_of_another_form_than_documented_for_a_file_of_cgroup_v2_is_logged(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    documented, others = UNIFIED[key]
    for value in [*documented, *others]:
        assert Adjustment().add_unified(key, value).unified == {key: value}
    beginnings = [f"unified[{key!r}] is {value!r}: the kernel expects " for value in others]
    assert len(caplog.messages) == len(beginnings)
    assert all(text.startswith(begin) for text, begin in zip(caplog.messages, beginnings, strict=True))


def test_a_doubt_about_a_long_value_is_short(caplog: pytest.LogCaptureFixture) -> None:
    Adjustment().add_unified("memory.max", "x" * 100_000)
    assert [len(text) < 300 for text in caplog.messages] == [True]


@pytest.mark.parametrize("key", ["cgroup.kill", "cgroup.procs", "cgroup.threads", "irq.pressure", "hugetlb.1GB.max"])
def test_a_file_that_accepts_a_value_is_not_logged(key: str, caplog: pytest.LogCaptureFixture) -> None:
    Adjustment().add_unified(key, "1")
    assert caplog.messages == []


@pytest.mark.parametrize("path", ["/", "//", "/.", "/..", "/./../"])
def test_a_mount_at_the_root_of_a_container_is_refused(path: str) -> None:
    for mount in (path, m.Mount(destination=path, source="/s", options=["bind"])):
        with pytest.raises(ValueError, match="must be a path below the container's root"):
            Adjustment().add_mount(mount, "/s", "bind", ["bind"])


def test_an_environment_of_a_hook_as_a_dict_is_refused() -> None:
    with pytest.raises(TypeError, match="env must be a list of strings NAME=value, not a dict"):
        Adjustment().add_hook("poststart", "/bin/x", ["x"], {"A": "b"})  # type: ignore[arg-type]


def test_a_wrong_type_of_an_option_is_reported_by_its_position() -> None:
    with pytest.raises(TypeError, match=r"options\[1\] must be a str, not \[\]"):
        Adjustment().add_mount("/d", "/s", "bind", ["bind", []])  # type: ignore[list-item]


def test_valid_values_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    adjustment = Adjustment().set_cgroups_path("system.slice:cri-containerd:abc").set_sysctl("net.ipv4.conf.a/b.x", "1")
    adjustment.set_memory_limit(0).set_memory_swap(-1).set_cpu_quota(-1).set_cpu_period(0).add_unified("cpu.max", "max")
    adjustment.add_mount("/once", "tmpfs", "tmpfs", ["ro,size=1m"])
    adjustment.add_mount("/scratch", "tmpfs", "tmpfs", ["size=1m,mode=1777"]).set_scheduler("RR", priority=1)
    adjustment.add_mount("/rec", "/s", "bind", ["rbind", "rro", "nosymfollow", "idmap=uids=0-1-1", "rslave"])
    adjustment.add_device("/dev/p", "p").add_hook("poststart", "/usr/bin/x", ["/bin/x", "run"], ["A=b", "C="])
    adjustment.add_unified("hugetlb.1GB.max", "max").set_rdt_schemata(["L3:0=ff;1=ff", "MB:0=50"])
    assert not caplog.messages
