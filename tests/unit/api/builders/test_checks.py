"""What no runtime could apply is refused where it is written, by the name of the argument."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment

WRONG = [
    (lambda a: a.set_cpu_shares(-1), ValueError, "shares must be between 0 and 18446744073709551615, not -1"),
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
    (lambda a: a.add_mount("/x", options="ro"), TypeError, "options must be a list of texts, not the one text 'ro'"),
    (lambda a: a.add_mount("-/x"), ValueError, r"'-/x'; use remove_mount\(\)"),
    (lambda a: a.remove_mount(""), ValueError, "destination must not be empty"),
    (lambda a: a.add_env("A=B", "1"), ValueError, "name must not contain '=': 'A=B'"),
    (lambda a: a.add_env("-A", "1"), ValueError, r"use remove_env\(\)"),
    (lambda a: a.add_env("A", "x\0y"), ValueError, "must not contain NUL"),
    (lambda a: a.add_env("A", "\ud800"), ValueError, "is not valid Unicode"),
    (lambda a: a.add_annotation("k", 5), TypeError, r"annotations\['k'\] must be a str, not 5"),
    (lambda a: a.set_args("ls -l"), TypeError, "args must be a list of texts, not the one text 'ls -l'"),
    (lambda a: a.set_args([]), ValueError, "args must not be empty"),
    (lambda a: a.set_args(["a", 1]), TypeError, r"args\[1\] must be a str, not 1"),
    (lambda a: a.add_hook("before", "/x"), ValueError, "stage must be one of prestart, .* not 'before'"),
    (lambda a: a.add_hooks(m.Hook()), TypeError, "hooks must be a Hooks message"),
    (lambda a: a.add_rlimit("RLIMIT_NOFILE", -1, 5), ValueError, "hard must be between"),
    (lambda a: a.add_device("/dev/x", "z"), ValueError, "type must be one of c, b, u, p, not 'z'"),
    (lambda a: a.add_device("/dev/x", uid=-1), ValueError, "uid must be between"),
    (lambda a: a.add_or_replace_namespace("net"), ValueError, "type must be one of network, .* not 'net'"),
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
