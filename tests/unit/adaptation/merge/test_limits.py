"""Limits of one reply: counting of entries, and the end of counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.merge.limits import MAX_ENTRIES, count, excess, max_entries_for
from nri.api import messages as m
from tests.support.growing import big

UNLIMITED = 1 << 40


def entries(message: object, kind: object = m.CreateContainerResponse) -> int:
    return count(kind, message.SerializeToString(), UNLIMITED)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("path", "entry"), [
    ("annotations", 1), ("mounts", 2), ("env", 2), ("args", 1), ("hooks", 3), ("linux.devices", 2),
    ("linux.resources.hugepage_limits", 2), ("linux.resources.devices", 3), ("linux.resources.unified", 1),
    ("linux.namespaces", 2), ("linux.sysctl", 1), ("linux.net_devices", 2), ("rlimits", 2), ("CDI_devices", 2),
])  # fmt: skip
def test_keys_items_and_fields_of_items_count(path: str, entry: int) -> None:
    assert entries(big.adjustment(big.rows()[path], big.names("k", 50))) == 50 * entry


def test_every_field_with_repeated_entries_is_counted() -> None:
    for row in big.REPEATED:
        assert entries(big.adjustment(row, big.names("k", 100))) >= 100, row.path
        assert entries(big.adjustment(row, [""] * 100 if row.kind.name != "MAP" else big.names("", 100))) >= 100, (
            row.path
        )


def test_a_field_counts_once_and_its_enclosing_messages_do_not() -> None:
    assert entries(m.StopContainerResponse(update=[big.update("c1")]), m.StopContainerResponse) == 3
    update = big.update("c1")
    update.linux.resources.memory.limit.value = 5
    update.linux.resources.pids.limit = 7
    update.linux.resources.rdt_class.value = "gold"
    update.ignore_failure = True
    assert entries(m.StopContainerResponse(update=[update]), m.StopContainerResponse) == 7


def test_an_empty_message_counts() -> None:
    reply = m.CreateContainerResponse()
    assert entries(reply) == 0
    reply.adjust.linux.resources.SetInParent()
    assert entries(reply) == 1
    assert count(m.CreateContainerResponse, b"\x0a\x00" * 70, UNLIMITED) == 70


def test_unknown_fields_groups_and_packed_numbers_count() -> None:
    assert count(m.CreateContainerResponse, b"\xf8\x7f\x01" * 9, UNLIMITED) == 9
    assert count(m.CreateContainerResponse, b"\xfb\x7f" + b"\x12\x00" * 9 + b"\xfc\x7f", UNLIMITED) == 11
    assert count(m.CreateContainerResponse, b"\xf9\x7f12345678\xfd\x7f1234", UNLIMITED) == 2
    scheduler = m.LinuxScheduler(flags=[1] * 60)
    adjust = m.ContainerAdjustment(linux=m.LinuxContainerAdjustment(scheduler=scheduler))
    assert entries(m.CreateContainerResponse(adjust=adjust)) == 60


@given(st.binary(max_size=300), st.integers(0, 40))
def test_any_bytes_are_counted_without_an_error(data: bytes, limit: int) -> None:
    assert count(m.CreateContainerResponse, data, limit) >= 0


def test_counting_ends_at_the_limit() -> None:
    data = m.StopContainerResponse(update=[m.ContainerUpdate()] * 500_000).SerializeToString()
    assert count(m.StopContainerResponse, data, 100) == 101


def test_an_excess_is_reported_in_words() -> None:
    reply = big.adjustment(big.rows()["args"], big.names("k", 20)).SerializeToString()
    assert excess(m.CreateContainerResponse, reply, 20) == ""
    assert excess(m.CreateContainerResponse, reply, 19) == "has more than 19 entries"
    assert excess(m.CreateContainerResponse, reply, 20, 100) == f"has {len(reply)} bytes, at most 100 are accepted"


def test_a_node_with_many_containers_has_a_higher_limit() -> None:
    assert max_entries_for(0) == max_entries_for(1000) == MAX_ENTRIES == 16_000
    assert max_entries_for(5000) == 80_000


def test_a_reply_with_fourteen_fields_of_a_thousand_containers_is_accepted() -> None:
    reply = m.UpdateContainerResponse(update=[everything(f"{n:064x}") for n in range(1000)]).SerializeToString()
    assert excess(m.UpdateContainerResponse, reply, MAX_ENTRIES, 2 << 20) == ""


def everything(container_id: str) -> m.ContainerUpdate:
    update = m.ContainerUpdate(container_id=container_id)
    memory, cpu = update.linux.resources.memory, update.linux.resources.cpu
    for field in (memory.limit, memory.reservation, memory.swap, memory.kernel, memory.kernel_tcp, memory.swappiness):
        field.value = 1 << 30
    for field in (cpu.shares, cpu.quota, cpu.period, cpu.realtime_runtime, cpu.realtime_period):
        field.value = 100_000
    cpu.cpus, cpu.mems = "0-63", "0-1"
    update.linux.resources.pids.limit = 4096
    return update
