"""Writes that wait: for their cgroup and those below it, the newest word, and never for ever."""

from __future__ import annotations

from nri.agent.model import Write
from nri.agent.writing.pending_writes import Pending
from tests.support.agents import Clock


def shares(folder: str, value: str = "2") -> Write:
    return Write(folder, "cpu.shares", value)


def test_what_waits_for_a_pod_waits_for_its_containers_too() -> None:
    pending = Pending(Clock())
    for folder in ("/pods/a/", "pods/a/one", "pods/ab"):
        pending.keep(shares(folder))
    assert [write.folder for write in pending.take("pods/a")] == ["/pods/a/", "pods/a/one"]
    assert len(pending) == 1, "that of another pod, whose name only begins alike"
    assert pending.take("pods/a") == []


def test_the_newest_word_counts() -> None:
    pending = Pending(Clock())
    pending.keep(shares("a", "2"))
    pending.keep(shares("a", "512"))
    assert pending.take("a") == [shares("a", "512")]


def test_what_was_written_meanwhile_no_longer_waits() -> None:
    pending = Pending(Clock())
    pending.keep(shares("a"))
    pending.keep(Write("a", "cpu.idle", "1"))
    pending.drop([shares("a", "9"), shares("b")])
    assert pending.take("a") == [Write("a", "cpu.idle", "1")]
    pending.keep(shares("a"))
    pending.drop([shares("a")])
    assert len(pending) == 0


def test_the_oldest_goes_when_there_are_too_many() -> None:
    pending = Pending(Clock(), max_writes=2)
    assert [pending.keep(shares(name)) for name in ("a", "b", "c")] == [0, 0, 1]
    assert pending.take("a") == []
    assert pending.take("b") == [shares("b")]


def test_a_pod_that_never_comes_is_given_up() -> None:
    clock = Clock()
    pending = Pending(clock, kept_s=300.0)
    pending.keep(shares("a"))
    clock.now += 301
    assert pending.keep(shares("b")) == 1
    assert pending.take("a") == []


def test_a_removed_pod_leaves_nothing() -> None:
    pending = Pending(Clock())
    pending.keep(shares("a/b"))
    pending.forget("a")
    pending.forget("")
    assert len(pending) == 0


def test_the_root_is_no_place_to_wait_below() -> None:
    pending = Pending(Clock())
    pending.keep(shares("a"))
    assert pending.take("/") == []
