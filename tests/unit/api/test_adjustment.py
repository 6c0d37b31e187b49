"""What a plugin author sees of `Adjustment`, `Update` and `Eviction`."""

import json
import pydoc

import pytest

from nri.api import messages as m
from nri.api.adjustment import Adjustment
from nri.api.eviction import Eviction
from nri.api.update import Update


def test_setters_chain_and_readers_show_what_was_set() -> None:
    adjustment = Adjustment().add_env("A", "1").add_annotation("k", "v").set_memory_limit(64 << 20)
    assert adjustment.env == {"A": "1"}
    assert adjustment.annotations == {"k": "v"}
    assert adjustment.memory_limit == 64 << 20
    assert adjustment.memory_swap is None


def test_a_new_adjustment_is_empty_and_reading_keeps_it_so() -> None:
    adjustment = Adjustment()
    values = (adjustment.env, adjustment.mounts, adjustment.cpu_shares, adjustment.cpuset_cpus, adjustment.unified)
    assert values == ({}, {}, None, None, {})
    assert adjustment.removed() == {}
    assert adjustment.is_empty()
    assert not adjustment.has_resources
    assert adjustment.message == m.ContainerAdjustment()


def test_zero_is_a_value_and_not_unset() -> None:
    adjustment = Adjustment().set_cpu_shares(0).set_pids_limit(0).set_oom_score_adj(0).set_memory_use_hierarchy(False)
    again = Adjustment.from_bytes(adjustment.to_bytes())
    assert (again.cpu_shares, again.pids_limit, again.oom_score_adj, again.memory_use_hierarchy) == (0, 0, 0, False)


def test_an_empty_class_is_a_value_too() -> None:
    again = Update.from_bytes(Update("c").set_rdt_class("").set_blockio_class("").to_bytes())
    assert again.rdt_class == again.blockio_class == ""


def test_removals_are_marked_and_listed_apart() -> None:
    adjustment = (
        Adjustment()
        .remove_annotation("a")
        .remove_env("E")
        .remove_mount("/m")
        .remove_device("/dev/d")
        .remove_namespace("pid")
        .remove_net_device("eth0")
        .remove_sysctl("net.x")
        .add_env("F", "1")
    )
    assert adjustment.removed() == {
        "annotations": ["a"],
        "env": ["E"],
        "mounts": ["/m"],
        "devices": ["/dev/d"],
        "namespaces": ["pid"],
        "net_devices": ["eth0"],
        "sysctl": ["net.x"],
    }
    assert adjustment.env == {"F": "1"}
    assert adjustment.mounts == adjustment.devices == adjustment.namespaces == adjustment.sysctl == {}
    assert adjustment.message.env[0].key == "-E"


def test_args_read_without_the_mark_of_taking_over() -> None:
    adjustment = Adjustment().update_args(["a", "b"])
    assert list(adjustment.message.args) == ["", "a", "b"]
    assert adjustment.args == ["a", "b"]
    assert adjustment.set_args(["c"]).args == ["c"]


def test_whole_messages_are_copied() -> None:
    mount = m.Mount(destination="/a", source="/b", options=["ro"])
    adjustment = Adjustment().add_mount(mount)
    mount.options.append("late")
    assert list(adjustment.mounts["/a"].options) == ["ro"]


def test_keywords_make_the_same_message_as_whole_messages() -> None:
    by_keywords = (
        Adjustment()
        .add_mount("/a", source="/b", type="bind", options=["ro"])
        .add_device("/dev/x", "b", 8, 1, file_mode=0o660, uid=0)
        .add_hook("poststop", "/bin/h", ["h", "x"], ["A=b"], timeout_s=2)
        .set_scheduler("FIFO", priority=5, flags=["RECLAIM"])
        .add_net_device("eth0", "e0")
        .add_cdi_device("v/c=d")
    )
    device = m.LinuxDevice(path="/dev/x", type="b", major=8, minor=1)
    device.file_mode.value = 0o660
    device.uid.value = 0
    device.uid.SetInParent()
    hook = m.Hook(path="/bin/h", args=["h", "x"], env=["A=b"], timeout=m.OptionalInt(value=2))
    by_messages = (
        Adjustment()
        .add_mount(m.Mount(destination="/a", source="/b", type="bind", options=["ro"]))
        .add_device(device)
        .add_hooks(m.Hooks(poststop=[hook]))
        .set_scheduler(m.LinuxScheduler(policy="SCHED_FIFO", priority=5, flags=["SCHED_FLAG_RECLAIM"]))
        .add_net_device("eth0", m.LinuxNetDevice(name="e0"))
        .add_cdi_device(m.CDIDevice(name="v/c=d"))
    )
    assert by_keywords == by_messages


@pytest.mark.parametrize("spelling", ["IOPRIO_CLASS_BE", "BE", "be", 2])
def test_an_enum_is_given_by_name_short_name_or_number(spelling: str | int) -> None:
    adjustment = Adjustment().set_io_priority(spelling, 3)
    assert getattr(adjustment.message.linux.io_priority, "class") == m.IOPrioClass.IOPRIO_CLASS_BE


def test_short_names_of_every_enum_are_known() -> None:
    adjustment = (
        Adjustment().set_scheduler("OTHER", flags=["RESET_ON_FORK"]).set_memory_policy("BIND", "0", ["STATIC_NODES"])
    )
    linux = adjustment.message.linux
    assert linux.scheduler.policy == m.LinuxSchedulerPolicy.SCHED_OTHER
    assert list(linux.scheduler.flags) == [m.LinuxSchedulerFlag.SCHED_FLAG_RESET_ON_FORK]
    assert linux.memory_policy.mode == m.MpolMode.MPOL_BIND
    assert list(linux.memory_policy.flags) == [m.MpolFlag.MPOL_F_STATIC_NODES]


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


def test_a_builder_compares_by_content_and_kind() -> None:
    assert Update("c").set_cpu_shares(1) == Update("c").set_cpu_shares(1)
    assert Update("c").set_cpu_shares(1) != Update("c").set_cpu_shares(2)
    assert Adjustment() != m.ContainerAdjustment()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Adjustment())


def test_a_copy_is_independent() -> None:
    first = Adjustment().add_env("A", "1")
    second = first.copy().add_env("B", "2")
    assert first.env == {"A": "1"}
    assert second.env == {"A": "1", "B": "2"}


def test_a_builder_reads_as_what_was_set() -> None:
    update = Update("id2").set_cpu_shares(0).set_cpuset_cpus("0-3").set_ignore_failure()
    assert repr(update) == (
        "Update(container_id='id2', linux.resources.cpu.shares=0, linux.resources.cpu.cpus='0-3', ignore_failure=True)"
    )
    adjustment = Adjustment().remove_env("A").add_annotation("k", "v").set_io_priority("BE").set_rdt_schemata(["x"])
    assert repr(adjustment) == (
        "Adjustment(annotations={'k': 'v'}, env=[{key='-A'}], linux.io_priority.class=IOPRIO_CLASS_BE, "
        "linux.rdt.schemata=['x'])"
    )
    assert repr(Adjustment()) == "Adjustment()"


def test_json_has_the_names_of_the_wire() -> None:
    adjustment = Adjustment().add_cdi_device("v/c=d").set_oom_score_adj(5)
    assert json.loads(adjustment.to_json()) == {
        "CDIDevices": [{"name": "v/c=d"}],
        "linux": {"oomScoreAdj": {"value": "5"}},
    }


def test_a_builder_on_a_message_changes_that_message() -> None:
    message = m.ContainerUpdate(container_id="c")
    Update.of(message).set_cpu_shares(5)
    assert message.linux.resources.cpu.shares.value == 5
    with pytest.raises(TypeError, match=r"Adjustment.of\(\) takes a ContainerAdjustment"):
        Adjustment.of(message)


def test_an_update_names_its_container_by_id_or_by_the_container_itself() -> None:
    assert Update(m.Container(id="c1")).container_id == Update("c1").container_id == "c1"
    assert Update("a").set_container_id("b").container_id == "b"
    with pytest.raises(ValueError, match="container_id must not be empty"):
        Update("")
    with pytest.raises(TypeError, match="container_id must be a str, not 5"):
        Update(5)


def test_an_update_tells_whether_it_has_resources() -> None:
    assert not Update("c").has_resources
    assert not Update("c").set_ignore_failure().has_resources
    assert Update("c").set_ignore_failure().ignore_failure
    assert Update("c").set_cpu_shares(0).has_resources


def test_an_eviction_has_a_container_and_a_reason() -> None:
    eviction = Eviction(m.Container(id="c1"), "too hot")
    assert eviction.message == m.ContainerEviction(container_id="c1", reason="too hot")
    assert (eviction.container_id, eviction.reason) == ("c1", "too hot")
    assert eviction == Eviction("c1", "too hot")
    assert repr(eviction) == "Eviction(container_id='c1', reason='too hot')"
    with pytest.raises(ValueError, match="container_id"):
        Eviction("")


def test_help_works_on_the_builders() -> None:
    text = pydoc.plain(pydoc.render_doc(Adjustment))
    assert "set_memory_limit(self, limit_bytes" in text
    assert "Most memory in bytes" in text
