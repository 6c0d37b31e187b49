"""Many writes: the cache of written values, and errors of single cgroups."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from nri.host import Outcome, Unsupported, Write, Writer
from nri.host.cgroups.systemd import SystemdUnits
from nri.host.cgroups.units import Value
from nri.host.root import Root
from tests.support.clock import Clock
from tests.support.fake_kernel import PAGE, FakeKernel

SHARES = Write("pod", "cpu.shares", 512)


@pytest.fixture
def kernel() -> FakeKernel:
    fake_kernel = FakeKernel()
    fake_kernel.add("pod")
    return fake_kernel


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writer(kernel: FakeKernel, clock: Clock) -> Writer:
    return Writer(kernel.hierarchies(), now=clock)


def overwrite(kernel: FakeKernel, text: str) -> None:
    kernel.files["/sys/fs/cgroup/cpu/pod/cpu.shares"] = text


def test_a_written_value_is_cached_for_a_minute(kernel: FakeKernel, clock: Clock, writer: Writer) -> None:
    assert writer.write(SHARES).outcome is Outcome.APPLIED
    overwrite(kernel, "77")
    clock.now += 59
    result = writer.write(SHARES)
    assert (result.outcome, result.before, result.after) == (Outcome.UNCHANGED, 512, 512)
    clock.now += 2
    result = writer.write(SHARES)
    assert (result.outcome, result.before, result.after) == (Outcome.APPLIED, 77, 512)


def test_force_finds_values_written_from_outside(kernel: FakeKernel, writer: Writer) -> None:
    writer.write(SHARES)
    overwrite(kernel, "77")
    result = writer.write(SHARES, force=True)
    assert (result.outcome, result.before) == (Outcome.APPLIED, 77)


def test_another_value_is_written_at_once(kernel: FakeKernel, writer: Writer) -> None:
    writer.write(SHARES)
    assert writer.write(Write("pod", "cpu.shares", 600)).outcome is Outcome.APPLIED
    assert writer.write(SHARES).outcome is Outcome.APPLIED
    assert kernel.value("pod", "cpu.shares") == 512


def test_a_new_cgroup_of_the_same_name_is_not_cached(kernel: FakeKernel, writer: Writer) -> None:
    writer.write(SHARES)
    kernel.remove("pod")
    assert writer.write(SHARES).outcome is Outcome.GONE
    kernel.add("pod")
    assert writer.write(SHARES).outcome is Outcome.APPLIED


def test_the_cache_can_be_disabled(kernel: FakeKernel) -> None:
    writer = Writer(kernel.hierarchies(), refresh_s=0)
    writer.write(SHARES)
    overwrite(kernel, "77")
    assert writer.write(SHARES).outcome is Outcome.APPLIED
    assert len(writer) == 0


def test_a_clamped_value_is_reported_again_and_not_written_again(kernel: FakeKernel, writer: Writer) -> None:
    write = Write("pod", "memory.limit", 10 * PAGE + 1)
    assert writer.write(write).outcome is Outcome.CLAMPED
    kernel.written.clear()
    result = writer.write(write)
    assert (result.outcome, result.after) == (Outcome.CLAMPED, 10 * PAGE)
    assert kernel.written == []


def test_a_refused_value_is_retried(kernel: FakeKernel, writer: Writer) -> None:
    writer.write(SHARES)
    kernel.files["/sys/fs/cgroup/cpu/pod/cpu.idle"] = "1"
    write = Write("pod", "cpu.shares", 7)
    assert writer.write(write).outcome is Outcome.REFUSED
    kernel.files["/sys/fs/cgroup/cpu/pod/cpu.idle"] = "0"
    assert writer.write(write).outcome is Outcome.APPLIED


def test_a_weight_is_written_again_after_idle_has_reset_it(kernel: FakeKernel, writer: Writer) -> None:
    writer.write(SHARES)
    writer.write(Write("pod", "cpu.idle", 1))
    assert kernel.value("pod", "cpu.shares") == 3
    assert [result.outcome for result in writer.write_all([SHARES, Write("pod", "cpu.idle", 0)])] == [
        Outcome.APPLIED
    ] * 2
    assert kernel.value("pod", "cpu.shares") == 512


def test_a_failed_write_does_not_affect_others(kernel: FakeKernel, writer: Writer) -> None:
    writes = [
        Write("gone", "cpu.shares", 5), Write("../out", "cpu.shares", 5), Write("pod", "cpu.bvt", 2),
        Write("pod", "cpu.idle", 7), Write("pod", "cpu.cfs_burst", 9), SHARES,
    ]  # fmt: skip
    kernel.files["/sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us"] = "5"
    outcomes = [result.outcome.value for result in writer.write_all(writes)]
    assert outcomes == ["gone", "refused", "unsupported", "refused", "refused", "applied"]


def test_of_two_writes_to_a_file_the_last_counts_and_the_first_is_reported(kernel: FakeKernel, writer: Writer) -> None:
    first, second = writer.write_all([Write("/pod/", "cpu.shares", 9), SHARES])
    assert (first.outcome, first.reason) == (Outcome.REFUSED, "a later write of the same batch replaces the value")
    assert (second.outcome, kernel.value("pod", "cpu.shares")) == (Outcome.APPLIED, 512)


def test_an_unknown_name_writes_nothing(kernel: FakeKernel, writer: Writer) -> None:
    with pytest.raises(KeyError):
        writer.write_all([SHARES, Write("pod", "cpu.nothing", 1)])
    assert kernel.written == []
    with pytest.raises(KeyError):
        writer.read("pod", "cpu.nothing")


def test_reads_bypass_the_cache(kernel: FakeKernel, writer: Writer) -> None:
    writer.write(SHARES)
    overwrite(kernel, "77")
    assert writer.read("pod", "cpu.shares") == 77
    assert isinstance(writer.read("pod", "cpu.bvt"), Unsupported)


def test_after_a_refused_intermediate_step_the_final_step_counts(kernel: FakeKernel, writer: Writer) -> None:
    """The parent cgroup is not in the batch and too small for the union of old and new values."""
    kernel.add("pod", {"cpuset.cpus": frozenset({0, 1})})
    kernel.add("pod/a", {"cpuset.cpus": frozenset({0})})
    kernel.add("pod", {"cpuset.cpus": frozenset({1})})
    result = writer.write(Write("pod/a", "cpuset.cpus", frozenset({1})))
    assert (result.outcome, result.before, result.after) == (Outcome.APPLIED, frozenset({0}), frozenset({1}))


def test_removed_pods_leave_no_cache_entries(clock: Clock, kernel: FakeKernel, writer: Writer) -> None:
    for number in range(200):
        kernel.add(f"pod{number}")
        writer.write_all([Write(f"pod{number}", "cpu.shares", 5), Write(f"pod{number}", "cpu.idle", 0)])
        kernel.remove(f"pod{number}")
        clock.now += 1
    assert len(writer) <= 2 * 120
    clock.now += 61
    writer.write(SHARES)
    assert len(writer) == 1


def test_forgotten_cgroups_are_read_again(kernel: FakeKernel, writer: Writer) -> None:
    kernel.add("pod/a")
    kernel.add("podium")
    for cgroup in ("pod", "pod/a", "podium"):
        writer.write(Write(cgroup, "cpu.shares", 9))
    writer.forget("/pod/")
    assert len(writer) == 1
    overwrite(kernel, "77")
    assert writer.write(Write("pod", "cpu.shares", 9)).outcome is Outcome.APPLIED


def test_threads_wait_for_each_other(kernel: FakeKernel, writer: Writer) -> None:
    results = []

    def work(number: int) -> None:
        results.extend(writer.write(Write("pod", "cpu.shares", 100 + number), force=True) for _ in range(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    assert all(result.in_force and result.after == result.wanted for result in results)


class RecordedUnits(SystemdUnits):
    """The units of a systemd that runs, and the calls for them."""

    def __init__(self, path: Path) -> None:
        (path / "run/systemd/system").mkdir(parents=True)
        super().__init__(Root(path))
        self.calls: list[tuple[str, Mapping[str, Value], int]] = []

    def keep(self, cgroup: str, values: Mapping[str, Value], period_us: int) -> None:
        self.calls.append((cgroup, values, period_us))


def test_systemd_gets_only_the_changed_values_of_its_own_cgroups(tmp_path: Path) -> None:
    kernel, units = FakeKernel(version=2), RecordedUnits(tmp_path)
    kernel.add("a.slice", {"cpu.cfs_period": 50_000})
    kernel.add("a.slice/b.scope")
    kernel.add("a.slice/b.scope/pod")
    writes = [
        Write("a.slice", "cpu.cfs_quota", 20_000), Write("a.slice", "memory.high", 3 * PAGE),
        Write("a.slice", "memory.limit", -1),  # unchanged
        Write("a.slice/b.scope", "memory.high", 2 * PAGE), Write("a.slice/b.scope/pod", "memory.high", PAGE),
        Write("gone.slice", "memory.high", PAGE),
    ]  # fmt: skip
    writer = Writer(kernel.hierarchies(), refresh_s=0, units=units)
    for _ in range(2):
        results = writer.write_all(writes)
        assert [result.in_force for result in results] == [True] * 5 + [False]
        assert units.calls == [
            ("a.slice", {"cpu.cfs_quota": 20_000, "memory.high": 3 * PAGE}, 50_000),
            ("a.slice/b.scope", {"memory.high": 2 * PAGE}, 100_000),
        ]


def test_systemd_gets_no_values_of_cgroup_v1(kernel: FakeKernel, tmp_path: Path) -> None:
    units = RecordedUnits(tmp_path)
    kernel.add("a.slice")
    assert Writer(kernel.hierarchies(), units=units).write(Write("a.slice", "memory.limit", PAGE)).in_force
    assert units.calls == []


SCOPE, CRUN = "a.slice/b.scope", "a.slice/b.scope/container"


@pytest.fixture
def crun(tmp_path: Path) -> tuple[FakeKernel, RecordedUnits, Writer]:
    """A scope of systemd in which crun has created a container's cgroup, as it does on cgroup v2."""
    kernel, units = FakeKernel(version=2), RecordedUnits(tmp_path)
    for cgroup in ("a.slice", SCOPE, CRUN):
        kernel.add(cgroup)
    kernel.files[f"/sys/fs/cgroup/{SCOPE}/cgroup.procs"] = ""
    return kernel, units, Writer(kernel.hierarchies(), refresh_s=0, units=units)


def test_a_limit_of_a_scope_applies_to_the_cgroup_that_crun_created_in_it(
    crun: tuple[FakeKernel, RecordedUnits, Writer],
) -> None:
    kernel, units, writer = crun
    assert writer.write(Write(SCOPE, "memory.limit", 4 * PAGE)).outcome is Outcome.APPLIED
    assert (kernel.value(CRUN, "memory.limit"), kernel.value(SCOPE, "memory.limit")) == (4 * PAGE, -1)
    assert writer.read(SCOPE, "memory.limit") == 4 * PAGE
    assert units.calls == []


def test_the_scope_around_a_cgroup_of_crun_is_never_narrower(crun: tuple[FakeKernel, RecordedUnits, Writer]) -> None:
    kernel, units, writer = crun
    kernel.add("a.slice", {"cpuset.cpus": frozenset({0, 1})})
    for cgroup in (SCOPE, CRUN):
        kernel.add(cgroup, {"memory.limit": 2 * PAGE, "cpuset.cpus": frozenset({0}), "pids.limit": 5})
    writes = [Write(SCOPE, "memory.limit", 4 * PAGE), Write(SCOPE, "cpuset.cpus", frozenset({1}))]
    assert [result.outcome for result in writer.write_all(writes)] == [Outcome.APPLIED] * 2
    assert (kernel.value(CRUN, "memory.limit"), kernel.value(SCOPE, "memory.limit")) == (4 * PAGE, 4 * PAGE)
    assert (kernel.value(CRUN, "cpuset.cpus"), kernel.value(SCOPE, "cpuset.cpus")) == ({1}, {0, 1})
    assert units.calls == [(SCOPE, {"memory.limit": 4 * PAGE, "cpuset.cpus": {0, 1}}, 100_000)]


def test_a_weight_also_applies_to_the_scope(crun: tuple[FakeKernel, RecordedUnits, Writer]) -> None:
    kernel, _, writer = crun
    assert writer.write(Write(SCOPE, "cpu.idle", 1)).outcome is Outcome.APPLIED
    assert [kernel.value(cgroup, "cpu.idle") for cgroup in (SCOPE, CRUN)] == [1, 1]
    kernel.files[f"/sys/fs/cgroup/{SCOPE}/cpu.idle"] = "0"
    assert writer.write(Write(SCOPE, "cpu.idle", 1)).outcome is Outcome.APPLIED, "the scope had another value"


@pytest.mark.parametrize("case", ["a process in the scope", "another cgroup in the scope"])
def test_a_cgroup_that_a_container_created_is_not_taken_for_cruns(
    crun: tuple[FakeKernel, RecordedUnits, Writer], case: str
) -> None:
    kernel, _, writer = crun
    if case == "a process in the scope":
        kernel.files[f"/sys/fs/cgroup/{SCOPE}/cgroup.procs"] = "7"
    else:
        kernel.add(f"{SCOPE}/other")
    writer.write(Write(SCOPE, "memory.limit", 4 * PAGE))
    assert (kernel.value(CRUN, "memory.limit"), kernel.value(SCOPE, "memory.limit")) == (-1, 4 * PAGE)
