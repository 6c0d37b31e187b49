"""The interface of `Adjustment`, `Update` and `Eviction` for plugin authors."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from tests.unit.api.builders.setters import ADJUSTMENT_CALLS, RESOURCE_CALLS


def test_keywords_and_whole_messages_have_the_same_result() -> None:
    by_keywords = (
        Adjustment()
        .add_mount("/a", source="/b", type="bind", options=["rbind"])
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
        .add_mount(m.Mount(destination="/a", source="/b", type="bind", options=["rbind"]))
        .add_device(device)
        .add_hooks(m.Hooks(poststop=[hook]))
        .set_scheduler(m.LinuxScheduler(policy="SCHED_FIFO", priority=5, flags=["SCHED_FLAG_RECLAIM"]))
        .add_net_device("eth0", m.LinuxNetDevice(name="e0"))
        .add_cdi_device(m.CDIDevice(name="v/c=d"))
    )
    assert by_keywords == by_messages


def test_every_enum_accepts_short_names() -> None:
    adjustment = (
        Adjustment().set_scheduler("OTHER", flags=["RESET_ON_FORK"]).set_memory_policy("BIND", "0", ["STATIC_NODES"])
    )
    linux = adjustment.message.linux
    assert linux.scheduler.policy == m.LinuxSchedulerPolicy.SCHED_OTHER
    assert list(linux.scheduler.flags) == [m.LinuxSchedulerFlag.SCHED_FLAG_RESET_ON_FORK]
    assert linux.memory_policy.mode == m.MpolMode.MPOL_BIND
    assert list(linux.memory_policy.flags) == [m.MpolFlag.MPOL_F_STATIC_NODES]


def test_setters_chain_and_readers_return_the_values() -> None:
    adjustment = Adjustment().add_env("A", "1").add_annotation("k", "v").set_memory_limit(64 << 20)
    assert adjustment.env == {"A": "1"}
    assert adjustment.annotations == {"k": "v"}
    assert adjustment.memory_limit == 64 << 20
    assert adjustment.memory_swap is None


def test_a_new_adjustment_is_empty_and_reading_does_not_change_it() -> None:
    adjustment = Adjustment()
    values = (adjustment.env, adjustment.mounts, adjustment.cpu_shares, adjustment.cpuset_cpus, adjustment.unified)
    assert values == ({}, {}, None, None, {})
    assert adjustment.removed() == {}
    assert adjustment.is_empty()
    assert not adjustment.has_resources
    assert adjustment.message == m.ContainerAdjustment()


def test_removals_are_marked_and_listed_separately() -> None:
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


KEYED = [
    ("annotations", "add_annotation", ("k", "v"), "remove_annotation"),
    ("env", "add_env", ("k", "v"), "remove_env"),
    ("mounts", "add_mount", ("/k", "/s", "", ["bind"]), "remove_mount"),
    ("devices", "add_device", ("/k",), "remove_device"),
    ("namespaces", "set_namespace", ("pid", "/p"), "remove_namespace"),
    ("net_devices", "add_net_device", ("eth0", "e0"), "remove_net_device"),
    ("sysctl", "set_sysctl", ("net.x", "1"), "remove_sysctl"),
]


@pytest.mark.parametrize(("reader", "setter", "arguments", "remover"), KEYED, ids=[row[0] for row in KEYED])
def test_a_removal_after_a_set_is_only_a_removal(
    reader: str, setter: str, arguments: tuple[str, ...], remover: str
) -> None:
    key = arguments[0]
    adjustment = getattr(Adjustment(), setter)(*arguments)
    getattr(getattr(adjustment, remover)(key), remover)(key)
    assert (getattr(adjustment, reader), adjustment.removed()) == ({}, {reader: [key]})
    getattr(adjustment, setter)(*arguments)
    assert list(getattr(adjustment, reader)) == [key], "set again after it was removed: taken over"
    assert adjustment.removed() == {reader: [key]}


@pytest.mark.parametrize(("reader", "setter", "arguments", "remover"), KEYED, ids=[row[0] for row in KEYED])
def test_a_value_that_was_never_set_can_be_removed(
    reader: str, setter: str, arguments: tuple[str, ...], remover: str
) -> None:
    adjustment = getattr(Adjustment(), remover)(arguments[0])
    second = Adjustment.from_bytes(adjustment.to_bytes())
    assert (getattr(second, reader), second.removed()) == ({}, {reader: [arguments[0]]})


@pytest.mark.parametrize(
    ("clear", "read"),
    [
        (lambda a: a.set_io_priority("NONE"), lambda a: a.io_priority),
        (lambda a: a.set_scheduler("NONE"), lambda a: a.scheduler),
        (lambda a: a.set_blockio_class(""), lambda a: a.blockio_class),
        (lambda a: a.set_rdt_class(""), lambda a: a.rdt_class),
    ],
    ids=["io_priority", "scheduler", "blockio_class", "rdt_class"],
)
def test_a_clearing_value_is_set_and_serialized(clear, read) -> None:
    second = Adjustment.from_bytes(clear(Adjustment()).to_bytes())
    assert read(Adjustment()) is None and read(second) is not None
    assert not second.is_empty()


def test_every_setter_has_a_reader() -> None:
    for name, arguments in (ADJUSTMENT_CALLS | RESOURCE_CALLS).items():
        if name.startswith("remove_"):
            continue
        reader = READERS.get(name) or name.removeprefix("set_").removeprefix("add_")
        value = getattr(getattr(Adjustment(), name)(*arguments), reader)
        assert value not in (None, {}, []), reader


#: Readers whose name is not that of their setter.
READERS = {
    "add_annotation": "annotations",
    "add_mount": "mounts",
    "update_args": "args",
    "add_rlimit": "rlimits",
    "add_device": "devices",
    "add_cdi_device": "cdi_devices",
    "set_namespace": "namespaces",
    "add_net_device": "net_devices",
    "add_hugepage_limit": "hugepage_limits",
}


def test_args_are_read_without_the_replace_mark() -> None:
    adjustment = Adjustment().update_args(["a", "b"])
    assert list(adjustment.message.args) == ["", "a", "b"]
    assert adjustment.args == ("a", "b")
    assert adjustment.set_args(["c"]).args == ("c",)


def test_whole_messages_are_copied() -> None:
    mount = m.Mount(destination="/a", source="/b", options=["ro"])
    adjustment = Adjustment().add_mount(mount)
    mount.options.append("late")
    assert list(adjustment.mounts["/a"].options) == ["ro"]
