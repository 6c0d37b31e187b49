"""Waiting writes: for a cgroup and its children, the newest value, and not forever."""

from __future__ import annotations

from nri.agent.model import Write
from nri.agent.writing.pending_writes import PendingWrites
from tests.support.clock import Clock


def shares(folder: str, value: str = "2") -> Write:
    return Write(folder, "cpu.shares", value)


def test_waiting_writes_of_a_pod_include_its_containers() -> None:
    pending = PendingWrites(Clock())
    for folder in ("/pods/a/", "pods/a/one", "pods/ab"):
        pending.keep(shares(folder))
    assert [write.folder for write in pending.take("pods/a")] == ["/pods/a/", "pods/a/one"]
    assert len(pending) == 1, "that of another pod, whose name only begins alike"
    assert pending.take("pods/a") == []


def test_the_newest_value_counts() -> None:
    pending = PendingWrites(Clock())
    pending.keep(shares("a", "2"))
    pending.keep(shares("a", "512"))
    assert pending.take("a") == [shares("a", "512")]


def test_a_later_write_removes_the_waiting_one() -> None:
    pending = PendingWrites(Clock())
    pending.keep(shares("a"))
    pending.keep(Write("a", "cpu.idle", "1"))
    pending.drop([shares("a", "9"), shares("b")])
    assert pending.take("a") == [Write("a", "cpu.idle", "1")]
    pending.keep(shares("a"))
    pending.drop([shares("a")])
    assert len(pending) == 0


def test_the_oldest_write_is_dropped_above_the_limit() -> None:
    pending = PendingWrites(Clock(), max_writes=2)
    assert [pending.keep(shares(name)) for name in ("a", "b", "c")] == [0, 0, 1]
    assert pending.take("a") == []
    assert pending.take("b") == [shares("b")]


def test_writes_of_a_pod_that_never_appears_are_dropped() -> None:
    clock = Clock()
    pending = PendingWrites(clock, kept_s=300.0)
    pending.keep(shares("a"))
    clock.now += 301
    assert pending.keep(shares("b")) == 1
    assert pending.take("a") == []


def test_a_removed_pod_leaves_no_waiting_write() -> None:
    pending = PendingWrites(Clock())
    pending.keep(shares("a/b"))
    pending.forget("a")
    pending.forget("")
    assert len(pending) == 0


def test_writes_do_not_wait_for_the_root() -> None:
    pending = PendingWrites(Clock())
    pending.keep(shares("a"))
    assert pending.take("/") == []
