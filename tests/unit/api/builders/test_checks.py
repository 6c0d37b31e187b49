"""What no runtime could apply is refused where it is written, by the name of the argument."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment

WRONG = [
    (lambda a: a.set_cpu_shares(-1), ValueError, "shares must be between 2 and 262144, not -1"),
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
    (lambda a: a.add_mount("/x", options="ro"), TypeError, "options must be a list of texts, not the text 'ro'"),
    (lambda a: a.add_mount("-/x"), ValueError, r"'-/x'; use remove_mount\(\)"),
    (lambda a: a.remove_mount(""), ValueError, "destination must not be empty"),
    (lambda a: a.add_env("A=B", "1"), ValueError, "name must not contain '=': 'A=B'"),
    (lambda a: a.add_env("-A", "1"), ValueError, r"use remove_env\(\)"),
    (lambda a: a.add_env("A", "x\0y"), ValueError, "must not contain NUL"),
    (lambda a: a.add_env("A", "\ud800"), ValueError, "is not valid Unicode"),
    (lambda a: a.add_annotation("k", 5), TypeError, r"annotations\['k'\] must be a str, not 5"),
    (lambda a: a.set_args("ls -l"), TypeError, "args must be a list of texts, not the text 'ls -l'"),
    (lambda a: a.set_args([]), ValueError, "args must not be empty"),
    (lambda a: a.set_args(["", "ls"]), ValueError, r"args must not begin with an empty text; .* update_args\(\)"),
    (lambda a: a.update_args("ls -l"), TypeError, r"args must be a list of texts, .* 'ls -l': write \['ls -l'\]"),
    (lambda a: a.update_args(None), TypeError, "args must be a list of texts, not None"),
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
    (lambda a: a.set_memory_swappiness(101), ValueError, "swappiness must be between 0 and 100, not 101"),
    (lambda a: a.set_cpu_shares(1), ValueError, "shares must be between 2 and 262144, not 1"),
    (lambda a: a.set_cpu_shares(262145), ValueError, "shares must be between 2 and 262144, not 262145"),
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
def test_an_impossible_value_is_named_and_changes_nothing(call, error: type[Exception], text: str) -> None:
    adjustment = Adjustment()
    with pytest.raises(error, match=text):
        call(adjustment)
    assert adjustment.is_empty(), "half a change was left behind"


@pytest.mark.parametrize("spelling", ["IOPRIO_CLASS_BE", "BE", "be", 2])
def test_an_enum_is_given_by_name_short_name_or_number(spelling: str | int) -> None:
    adjustment = Adjustment().set_io_priority(spelling, 3)
    assert getattr(adjustment.message.linux.io_priority, "class") == m.IOPrioClass.IOPRIO_CLASS_BE


@pytest.mark.parametrize(
    "name", ["v/c=d", "vendor.com/net=eth0", "nvidia.com/gpu=all", "a-b.c/d_e=0", "v/c=GPU-1:2", "v/c.d=0"]
)
def test_names_of_cdi_devices_are_those_of_the_interface(name: str) -> None:
    assert Adjustment().add_cdi_device(name).cdi_devices == (name,)


@pytest.mark.parametrize(
    "name", ["v=d", "v/c", "/c=d", "v/=d", "v/c=", "1v/c=d", "v/1c=d", "v-/c=d", "v/c=d-", "v/c=-d", "v/c=d e", "v/ç=d"]
)
def test_what_is_no_name_of_a_cdi_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="device must be vendor/class=device"):
        Adjustment().add_cdi_device(name)


def test_the_greatest_and_smallest_values_that_are_possible_are_taken() -> None:
    adjustment = Adjustment().set_memory_limit(-1).set_memory_swap(-1).set_memory_swappiness(100).set_cpu_shares(262144)
    assert (adjustment.memory_limit, adjustment.memory_swappiness, adjustment.cpu_shares) == (-1, 100, 262144)
    assert adjustment.add_rlimit("RLIMIT_CORE", 0, 0).rlimits == {"RLIMIT_CORE": (0, 0)}
    assert adjustment.set_cpuset_cpus(" 0-3, 8,").cpuset_cpus == " 0-3, 8,", "as the kernel takes it"
    assert adjustment.set_cpu_shares(2).cpu_shares == 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a.add_device("/dev/x", file_mode=666), r"not 666 \(0o1232\); write 0o666"),
        (lambda a: a.add_device("/dev/x", file_mode=0o20666), "must have only permission bits"),
        (lambda a: a.add_hugepage_limit("2M", 1), "for example 2MB or 1GB, not '2M'"),
        (lambda a: a.add_hugepage_limit("2Mi", 1), "not '2Mi'"),
        (lambda a: a.add_mount("/d", "/srv"), "type must be given"),
        (lambda a: a.add_mount("/d", type="bind"), "options must contain bind or rbind"),
        (lambda a: a.add_mount("/d", type="bind", options=["rbind"]), "source must be an absolute path"),
        (lambda a: a.add_mount("/d", "srv", options=["bind"]), "source must be an absolute path .* not 'srv'"),
        (lambda a: a.add_mount("/d", "/srv", "bind", ["bind", "readonly"]), "write 'ro', not 'readonly'"),
        (lambda a: a.add_mount("/d", "/srv", "bind", ["bind,ro"]), r"write \['bind', 'ro'\], not 'bind,ro'"),
        (lambda a: a.add_mount(m.Mount(destination="/d", source="a\0b")), "mount.source must not contain NUL"),
        (lambda a: a.set_sysctl("kernel/shmmax", "1"), "written with dots, kernel.shmmax"),
        (lambda a: a.set_sysctl("net/ipv4/conf/eth0.5/x", "1"), "net.ipv4.conf.eth0/5.x"),
        (lambda a: a.set_rdt_class("a/b"), "must be a name without '/'"),
        (lambda a: a.set_rdt_clos_id(".."), "must be a name without '/'"),
        (lambda a: a.add_unified("memory.hihg", "1"), "did you mean memory.high"),
        (lambda a: a.add_unified("memory.current", "1"), "only reports"),
        (lambda a: a.set_cpu_period(5), "between 1000 and 1000000 microseconds, not 5"),
        (lambda a: a.set_cpu_quota(1), "1000 or more microseconds, not 1"),
        (lambda a: a.set_memory_limit(64 << 20).set_memory_swap(1 << 20), "must be at least the limit of memory"),
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
        (lambda a: a.set_cgroups_path("/a/../b"), r"must not contain '\.\.'"),
    ],
)
def test_a_value_that_no_runtime_can_apply_is_refused_and_nothing_is_set(
    call: Callable[[Adjustment], object], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        call(Adjustment())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a.set_memory_limit(65), "limit_bytes is 65: the kernel rounds it down"),
        (lambda a: a.set_sysctl("vm.swappiness", "1"), "vm.swappiness belongs to no namespace of a container"),
        (lambda a: a.set_sysctl("kernel.pid_max", "1"), "kernel.pid_max belongs to no namespace"),
        (lambda a: a.add_annotation("my key", "v"), "annotation 'my key' contains a blank"),
        (lambda a: a.add_env("A B", "v"), "environment variable 'A B' contains a blank"),
        (lambda a: a.add_unified("cpu.qos_level", "1"), "has no file 'cpu.qos_level'"),
        (lambda a: a.set_cgroups_path("relative"), "cgroup path 'relative' is relative"),
    ],
)
def test_a_value_that_some_runtime_accepts_is_logged_once(
    call: Callable[[Adjustment], object], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    call(Adjustment())
    call(Adjustment())
    assert [text in message for message in caplog.messages] == [True]


def test_values_that_runtimes_accept_are_not_doubted(caplog: pytest.LogCaptureFixture) -> None:
    adjustment = Adjustment().set_cgroups_path("system.slice:cri-containerd:abc").set_sysctl("net.ipv4.conf.a/b.x", "1")
    adjustment.set_memory_limit(0).set_memory_swap(-1).set_cpu_quota(-1).set_cpu_period(0).add_unified("cpu.max", "max")
    adjustment.add_mount("/scratch", "tmpfs", "tmpfs", ["size=1m,mode=1777"]).set_scheduler("RR", priority=1)
    assert not caplog.messages
