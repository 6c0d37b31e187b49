"""Readers of adjustments, updates and received messages."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

import nri
from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from tests.support.received import resources
from tests.unit.api.builders.setters import RESOURCE_CALLS


def apply(builder, calls: dict[str, tuple]) -> None:
    for name, arguments in calls.items():
        assert getattr(builder, name)(*arguments) is builder, f"{name} must return the builder"


def test_every_optional_resource_has_a_reader_of_the_same_name() -> None:
    update = Update("c")
    apply(update, RESOURCE_CALLS)
    for setter, arguments in RESOURCE_CALLS.items():
        reader = setter.removeprefix("set_")
        if setter.startswith("set_"):
            assert getattr(update, reader) == (arguments[0] if arguments else True), reader
            assert getattr(Update("c"), reader) is None, f"{reader} must be None when it is not set"
    assert update.hugepage_limits == {"2MB": 1}
    assert update.unified == {"memory.high": "1"}


def adjustment() -> Adjustment:
    """One that sets something of each kind, and removes something of each that can be removed."""
    created = Adjustment().add_annotation("a", "1").remove_annotation("b").add_env("A", "1").remove_env("B")
    created.add_mount("/a", "/src", options=["bind"]).remove_mount("/b").add_device("/dev/null").remove_device("/dev/b")
    created.set_namespace("pid", "/p").remove_namespace("ipc").set_sysctl("net.a", "1").remove_sysctl("net.b")
    return created.add_net_device("eth0", "x").remove_net_device("eth1")


def test_readers_return_set_entries_and_no_removals() -> None:
    created = adjustment()
    assert (created.annotations, created.env, created.sysctl) == ({"a": "1"}, {"A": "1"}, {"net.a": "1"})
    assert (list(created.mounts), list(created.devices)) == (["/a"], ["/dev/null"])
    assert (created.namespaces, created.net_devices) == ({"pid": "/p"}, {"eth0": "x"})


def test_removed_has_the_removed_keys_by_reader_name() -> None:
    assert adjustment().removed() == {
        "annotations": ["b"],
        "env": ["B"],
        "mounts": ["/b"],
        "devices": ["/dev/b"],
        "namespaces": ["ipc"],
        "net_devices": ["eth1"],
        "sysctl": ["net.b"],
    }
    assert Adjustment().add_env("A", "1").removed() == {}


def test_args_are_read_without_the_mark_of_replacement() -> None:
    assert Adjustment().set_args(["a"]).args == ("a",)
    assert Adjustment().update_args(["b"]).args == ("b",)


@pytest.mark.parametrize(
    "reader",
    ["oom_score_adj", "cgroups_path", "io_priority", "scheduler", "seccomp_policy", "memory_policy", "rdt_clos_id",
     "rdt_schemata", "rdt_enable_monitoring"],
)  # fmt: skip
def test_an_unset_value_is_none_and_reading_does_not_set_it(reader: str) -> None:
    adjustment = Adjustment()
    assert getattr(adjustment, reader) is None
    assert adjustment.message.ByteSize() == 0


def test_single_values_are_read_back() -> None:
    created = Adjustment().set_oom_score_adj(-5).set_cgroups_path("/a").set_rdt_clos_id("gold")
    created.set_rdt_schemata(["L3:0=f"]).set_rdt_enable_monitoring(True)
    assert (created.oom_score_adj, created.cgroups_path, created.rdt_clos_id) == (-5, "/a", "gold")
    assert (created.rdt_schemata, created.rdt_enable_monitoring) == (("L3:0=f",), True)


def test_all_resources_of_received_messages_are_read() -> None:
    message = resources(limit=0, shares=512, cpus="0-3")
    message.unified["memory.high"] = "1"
    for sent in (message, m.Container(linux=m.LinuxContainer(resources=message))):
        read = nri.resources_of(sent)
        assert (read.memory_limit, read.cpu_shares, read.cpu_quota, read.pids_limit) == (0, 512, None, None)
        assert (read.cpuset_cpus, read.unified, read.hugepage_limits) == ("0-3", {"memory.high": "1"}, {})
        assert repr(read).startswith("ReceivedResources(memory.limit=0, cpu.shares=512, ")
    assert not nri.resources_of(m.Container()).has_resources


#: Reader of several values -> the setter that its refusal of a write names.
SEVERAL = {
    "annotations": "add_annotation",
    "args": "set_args",
    "cdi_devices": "add_cdi_device",
    "device_rules": "add_device_rule",
    "devices": "add_device",
    "env": "add_env",
    "hugepage_limits": "add_hugepage_limit",
    "mounts": "add_mount",
    "namespaces": "set_namespace",
    "net_devices": "add_net_device",
    "rdt_schemata": "set_rdt_schemata",
    "rlimits": "add_rlimit",
    "sysctl": "set_sysctl",
    "unified": "add_unified",
}


def test_a_returned_collection_refuses_writes_and_names_the_setter() -> None:
    created = Adjustment().set_rdt_schemata(["L3:0=f"])
    readers = {name for name in dir(Adjustment) if isinstance(getattr(created, name), (dict, tuple, list, set))}
    assert {name for name in readers if not name.startswith("_")} == SEVERAL.keys()
    for reader, setter in SEVERAL.items():
        values = getattr(created, reader)
        mapping = isinstance(values, dict)
        writes = ["__setitem__", "__delitem__", "__ior__" if mapping else "__iadd__", "clear", "pop"]
        for write in (*writes, *(("update", "setdefault", "popitem") if mapping else ("append", "extend", "insert"))):
            with pytest.raises(TypeError, match=rf"^{reader} is read-only: write with {setter}\(\)$"):
                getattr(values, write)("x", "y")
        assert getattr(Adjustment, setter)


def test_returned_collections_compare_copy_and_serialize_like_plain_ones() -> None:
    created = Adjustment().add_env("A", "1").set_args(["a"])
    assert (created.env, created.args, repr(created.env), repr(created.args)) == (
        {"A": "1"},
        ("a",),
        "{'A': '1'}",
        "('a',)",
    )
    own_entry = copy.deepcopy(created.env)
    own_entry["B"] = "2"
    assert (json.dumps(own_entry), json.dumps(created.env), pickle.loads(pickle.dumps(created.args))) == (
        '{"A": "1", "B": "2"}', '{"A": "1"}', ("a",)
    )  # fmt: skip


def test_a_reader_cannot_be_assigned_and_names_the_setter() -> None:
    with pytest.raises(AttributeError, match=r"memory_limit is read-only: write with set_memory_limit\(\)"):
        Adjustment().memory_limit = 5
    for reader, setter in SEVERAL.items():
        with pytest.raises(AttributeError, match=rf"^Adjustment\.{reader} is read-only: write with {setter}\(\)$"):
            setattr(Adjustment(), reader, {})


def test_writes_to_a_returned_message_change_the_builder() -> None:
    adjustment = Adjustment()
    adjustment.resources.memory.limit.value = 5
    adjustment.hooks.prestart.add(path="/bin/true")
    update = nri.Update("a")
    update.resources.cpu.cpus = "0-1"
    assert Adjustment.from_bytes(adjustment.to_bytes()) == Adjustment().set_memory_limit(5).add_hook(
        "prestart", "/bin/true"
    )
    assert nri.Update.from_bytes(update.to_bytes()) == nri.Update("a").set_cpuset_cpus("0-1")
