"""Resources in a spec. Tests of deviations are named like the attributes of `Rules`, and show both modes."""

from typing import Any

from google.protobuf import json_format

from nri.api import messages as m
from nri.oci.resources import to_oci, without_unset
from nri.rules import Rules
from tests.unit.oci.build import adjust, both_modes


def resources(spec: dict[str, Any], rules: Rules | None = None, /, **data: Any) -> dict[str, Any]:
    return adjust(spec, rules, linux={"resources": data})["linux"].get("resources", {})


def value(number: Any) -> dict[str, Any]:
    return {"value": number}


def test_cpu_settings_are_set_separately() -> None:
    spec = {"linux": {"resources": {"cpu": {"shares": 5, "cpus": "0-7", "idle": 1}}}}
    cpu = {"period": value(1), "quota": value(-1), "realtime_runtime": value(3), "realtime_period": value(4)}
    assert resources(spec, cpu={**cpu, "mems": "0"})["cpu"] == {
        "shares": 5, "cpus": "0-7", "idle": 1, "period": 1, "quota": -1, "realtimeRuntime": 3, "realtimePeriod": 4,
        "mems": "0",
    }  # fmt: skip


MEMORY = {
    "reservation": value(1), "kernel": value(3), "kernel_tcp": value(4), "swappiness": value(0),
    "disable_oom_killer": value(True), "use_hierarchy": value(False),
}  # fmt: skip


def test_all_memory_fields_applied() -> None:
    spec = {"linux": {"resources": {"memory": {"limit": 7, "swap": 8}}}}
    reference, default = both_modes(
        "all_memory_fields_applied", spec, linux={"resources": {"memory": {**MEMORY, "swap": value(99)}}}
    )
    assert reference["linux"]["resources"]["memory"] == {"limit": 7, "swap": 8}
    assert default["linux"]["resources"]["memory"] == {
        "limit": 7, "swap": 99, "reservation": 1, "kernel": 3, "kernelTCP": 4, "swappiness": 0,
        "disableOOMKiller": True, "useHierarchy": False,
    }  # fmt: skip
    limits = {"limit": value(50), "swap": value(-1)}
    reference, default = both_modes("all_memory_fields_applied", spec, linux={"resources": {"memory": limits}})
    assert reference["linux"]["resources"]["memory"] == {"limit": 50, "swap": 50}
    assert default["linux"]["resources"]["memory"] == {"limit": 50, "swap": -1}


def test_a_memory_limit_alone_also_limits_swap_and_zero_is_ignored() -> None:
    assert resources({}, memory={"limit": value(50)}) == {"memory": {"limit": 50, "swap": 50}}
    assert resources({}, memory={"limit": value(0)}) == {}


def test_huge_page_limits_replace_those_of_the_same_size() -> None:
    spec = {"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 1, "note": "n"}]}}}
    limits = [{"page_size": "2MB", "limit": 9}, {"page_size": "1GB", "limit": 8}]
    assert resources(spec, hugepage_limits=limits)["hugepageLimits"] == [
        {"pageSize": "2MB", "limit": 9, "note": "n"},
        {"pageSize": "1GB", "limit": 8},
    ]


def test_unified_keys_are_set() -> None:
    spec = {"linux": {"resources": {"unified": {"a": "1", "b": "2"}}}}
    assert resources(spec, unified={"a": "9"}) == {"unified": {"a": "9", "b": "2"}}


def test_unlimited_pids_applied() -> None:
    spec = {"linux": {"resources": {"pids": {"limit": 5}}}}
    reference, default = both_modes("unlimited_pids_applied", spec, linux={"resources": {"pids": {"limit": -1}}})
    assert reference["linux"]["resources"]["pids"] == {"limit": 5}
    assert default["linux"]["resources"]["pids"] == {"limit": -1}
    for rules in (Rules.DEFAULT, Rules.REFERENCE):
        assert resources(spec, rules, pids={"limit": 0}) == {"pids": {"limit": 0}}
    assert resources({}, Rules.REFERENCE, pids={"limit": -1}) == {"pids": {}}


def test_rules_of_the_device_cgroup_are_appended_in_order() -> None:
    spec = {"linux": {"resources": {"devices": [{"allow": False}]}}}
    rule = {"allow": True, "type": "c", "major": value(1), "minor": value(0), "access": "r"}
    assert resources(spec, devices=[rule, {}])["devices"] == [
        {"allow": False},
        {"allow": True, "type": "c", "major": 1, "minor": 0, "access": "r"},
        {"allow": False},
    ]


def test_an_update_becomes_the_runtimes_resources() -> None:
    data = {
        "memory": {**MEMORY, "limit": value(7)},
        "cpu": {"shares": value(2), "cpus": "1"},
        "pids": {"limit": -5},
        "hugepage_limits": [{"page_size": "2MB", "limit": 9}],
        "unified": {"a": "1"},
        "devices": [{"allow": True}],
    }
    assert to_oci(json_format.ParseDict(data, m.LinuxResources())) == {
        "memory": {
            "limit": 7, "reservation": 1, "kernel": 3, "kernelTCP": 4, "swappiness": 0, "disableOOMKiller": True,
            "useHierarchy": False,
        },
        "cpu": {"shares": 2, "cpus": "1"},
        "pids": {"limit": -1},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 9}],
        "unified": {"a": "1"},
        "devices": [{"allow": True}],
    }  # fmt: skip
    assert to_oci(m.LinuxResources()) == {}


def test_zeros_that_mean_unset_are_omitted_without_changing_the_message() -> None:
    linux_resources = m.LinuxResources()
    for part, name in (("cpu", "shares"), ("cpu", "quota"), ("cpu", "period"), ("memory", "limit"), ("memory", "swap")):
        getattr(getattr(linux_resources, part), name).value = 0
    linux_resources.cpu.cpus = "0"
    linux_resources.memory.swappiness.value = 0
    before = linux_resources.SerializeToString()
    assert to_oci(without_unset(linux_resources)) == {"cpu": {"cpus": "0"}, "memory": {"swappiness": 0}}
    assert linux_resources.SerializeToString() == before
