"""Event counters: failures are reported and do not affect other pods."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nri.host import Unsupported
from nri.host.perf import Event
from tests.support.counted import Counted, counting
from tests.support.rubik_world import RubikWorld, pod


def make_world(
    folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch, pods: int = 2, cpus: int = 8
) -> RubikWorld:
    counting(monkeypatch, counted)
    return RubikWorld(folder, *(pod(f"p{entry}", cpi="online") for entry in range(pods)), cpus=cpus, cpi=None)


def test_a_pod_that_cannot_be_counted_is_reported_and_a_missing_counter_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted({Event.CYCLES: 2, Event.INSTRUCTIONS: 1})
    world = make_world(tmp_path, counted, monkeypatch)
    counted.error = OSError(errno.ENOENT, "the cgroup does not exist")
    world.loop()
    assert counted.open == 0 and sum("the cgroup does not exist" in error for error in world.loops.errors) == 2
    counted.error = None
    world.loop(1, 60)
    world.loop(1, 10)
    assert counted.open == 2
    counted.error = OSError(errno.EIO, "gone")
    world.loop(1, 10)
    assert counted.open == 0


def test_an_unmounted_hierarchy_is_reported_for_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted({})
    world = make_world(tmp_path, counted, monkeypatch)
    counted.error = Unsupported("the cgroup hierarchy perf_event is not mounted")
    world.loop()
    assert world.loops.errors == [
        "cpi: no pod is judged: unsupported here: the cgroup hierarchy perf_event is not mounted"
    ]


def test_the_number_of_counters_is_limited_and_the_excess_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1 << 20, 1 << 20))
    counted = Counted({Event.CYCLES: 2, Event.INSTRUCTIONS: 1})
    world = make_world(tmp_path, counted, monkeypatch, pods=3, cpus=1024)
    world.loop()
    assert counted.open == 2 and "only 2 pods are measured" in world.loops.errors[0]


def test_counters_use_a_small_part_of_the_limit_of_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 1024))
    counted = Counted({Event.CYCLES: 2, Event.INSTRUCTIONS: 1})
    world = make_world(tmp_path, counted, monkeypatch, pods=3, cpus=32)
    world.loop()
    assert counted.open == 2
    assert "the limit is 128 counters; raise LimitNOFILE to measure more" in world.loops.errors[0]


def test_no_counter_stays_open_if_the_machine_turns_out_to_be_unable_to_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted({Event.CYCLES: 2, Event.INSTRUCTIONS: 1})
    world = make_world(tmp_path, counted, monkeypatch)
    count = counted.count

    def fail_second(*args: object) -> object:
        return Unsupported("cycles cannot be counted: too many open files") if counted.open else count(*args)

    counted.count = fail_second  # type: ignore[method-assign]
    counting(monkeypatch, counted)
    world.loop()
    assert counted.folders and counted.open == 0
