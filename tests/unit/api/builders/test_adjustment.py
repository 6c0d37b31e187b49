"""What a plugin author sees of `Adjustment`, `Update` and `Eviction`."""

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment


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
