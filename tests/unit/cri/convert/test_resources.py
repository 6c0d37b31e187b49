from __future__ import annotations

from typing import Any

import pytest

from nri.api import messages as m
from nri.cri.convert import Conversion, DroppedField, from_oci, to_cri, to_nri
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError


def both(converted: Conversion[Any]) -> tuple[Any, tuple[DroppedField, ...]]:
    return converted.value, converted.dropped


def test_shares_quota_period_and_limit_are_always_sent() -> None:
    message = to_nri(pb.LinuxContainerResources()).value
    assert all(message.cpu.HasField(name) for name in ("shares", "quota", "period"))
    assert message.memory.HasField("limit")
    assert not message.memory.HasField("swap")


def test_every_resource_of_a_request_reaches_plugins() -> None:
    linux_container_resources = pb.LinuxContainerResources(
        cpu_period=100000,
        cpu_quota=-1,
        cpu_shares=512,
        memory_limit_in_bytes=1 << 20,
        memory_swap_limit_in_bytes=2 << 20,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=4)],
        unified={"memory.high": "9"},
    )
    message, dropped = both(to_nri(linux_container_resources))
    assert (message.cpu.period.value, message.cpu.quota.value, message.cpu.shares.value) == (100000, -1, 512)
    assert (message.memory.limit.value, message.memory.swap.value) == (1 << 20, 2 << 20)
    assert (message.cpu.cpus, message.cpu.mems, message.unified["memory.high"]) == ("0-1", "0", "9")
    assert (message.hugepage_limits[0].page_size, message.hugepage_limits[0].limit) == ("2MB", 4)
    assert dropped == ()


def test_an_oom_score_is_named_as_dropped() -> None:
    (dropped,) = to_nri(pb.LinuxContainerResources(oom_score_adj=500)).dropped
    assert str(dropped) == "oom_score_adj (500): NRI's resources have no field for it"


def test_negative_shares_are_an_error_with_field_and_value() -> None:
    with pytest.raises(RequestError, match=r"^linux\.overhead\.cpu_shares: -2: is negative$"):
        to_nri(pb.LinuxContainerResources(cpu_shares=-2), "linux.overhead")


def test_an_update_changes_what_it_sets_and_keeps_the_rest_of_the_request() -> None:
    base = pb.LinuxContainerResources(cpu_shares=2, oom_score_adj=7, unified={"a": "1"})
    base.hugepage_limits.add(page_size="2MB", limit=1)
    linux_resources = m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=9)), unified={"b": "2"})
    linux_resources.hugepage_limits.add(page_size="2MB", limit=3)
    message, dropped = both(to_cri(linux_resources, base))
    assert (message.cpu_shares, message.oom_score_adj, dict(message.unified)) == (9, 7, {"a": "1", "b": "2"})
    assert [(one.page_size, one.limit) for one in message.hugepage_limits] == [("2MB", 3)]
    assert dropped == ()
    assert base.cpu_shares == 2


@pytest.mark.parametrize(
    ("linux_resources", "field"),
    [
        (m.LinuxResources(pids=m.LinuxPids(limit=5)), "pids.limit"),
        (m.LinuxResources(memory=m.LinuxMemory(reservation=m.OptionalInt64(value=1))), "memory.reservation.value"),
        (m.LinuxResources(rdt_class=m.OptionalString(value="gold")), "rdt_class.value"),
        (m.LinuxResources(devices=[m.LinuxDeviceCgroup(allow=True)]), "devices[0].allow"),
        (m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=2**64 - 1))), "cpu.shares"),
    ],
)
def test_fields_that_the_cri_lacks_are_reported(linux_resources: m.LinuxResources, field: str) -> None:
    message, dropped = both(to_cri(linux_resources))
    assert [one.field for one in dropped] == [field]
    assert message == pb.LinuxContainerResources()


def test_spec_fields_that_nri_lacks_are_reported() -> None:
    message, dropped = both(
        from_oci({"cpu": {"burst": 1, "shares": 2}, "blockIO": {"weight": 3}, "rdma": {}, "pids": {}})
    )
    assert message.cpu.shares.value == 2
    assert message.HasField("pids")
    assert {one.field for one in dropped} == {"cpu.burst", "blockIO"}


def test_every_resource_of_a_spec_reaches_plugins() -> None:
    message, dropped = both(
        from_oci(
            {
                "cpu": {"cpus": "0-1", "mems": None, "burst": None},
                "memory": {"limit": 5},
                "pids": {"limit": 7},
                "hugepageLimits": [{"pageSize": "2MB", "limit": 4}],
                "unified": {"memory.high": "9"},
                "devices": [{"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}, {"access": None}],
            }
        )
    )
    assert (message.cpu.cpus, message.cpu.mems, message.memory.limit.value, message.pids.limit) == ("0-1", "", 5, 7)
    assert [(one.page_size, one.limit) for one in message.hugepage_limits] == [("2MB", 4)]
    assert message.unified["memory.high"] == "9"
    rule, other_rule = message.devices
    assert (rule.allow, rule.type, rule.major.value, rule.minor.value, rule.access) == (True, "c", 1, 3, "rw")
    assert (other_rule.allow, other_rule.HasField("major"), other_rule.access) == (False, False, "")
    assert dropped == ()


def test_cpus_and_hugepages_of_a_plugin_reach_the_cri() -> None:
    linux_resources = m.LinuxResources(cpu=m.LinuxCPU(cpus="0-1", mems="1"))
    linux_resources.hugepage_limits.add(page_size="1GB", limit=3)
    message, dropped = both(to_cri(linux_resources))
    assert (message.cpuset_cpus, message.cpuset_mems) == ("0-1", "1")
    assert [(one.page_size, one.limit) for one in message.hugepage_limits] == [("1GB", 3)]
    assert dropped == ()
