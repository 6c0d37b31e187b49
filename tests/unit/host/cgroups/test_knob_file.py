"""A cgroup file is read, written and read back, with all possible outcomes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nri.host import Outcome, Result, Root, Unsupported, Write, detect, knob
from nri.host.cgroups import knob_file
from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.cgroups.units import Value
from tests.support import host_trees
from tests.support.fake_kernel import PAGE, FakeKernel


def put(hierarchies: Hierarchies, cgroup: str, name: str, value: Value) -> Result:
    write = Write(cgroup, name, value)
    located = knob_file.find(hierarchies, write, knob(name))
    return located if isinstance(located, Result) else knob_file.put(hierarchies, write, knob(name), located, value)


def test_a_value_is_applied_once_and_then_unchanged() -> None:
    kernel = FakeKernel()
    kernel.add("pod")
    result = put(kernel.hierarchies(), "pod", "cpu.shares", 512)
    assert (result.outcome, result.before, result.after, result.reason) == (Outcome.APPLIED, 1024, 512, "")
    assert kernel.written == [("/sys/fs/cgroup/cpu/pod/cpu.shares", "512")]
    assert put(kernel.hierarchies(), "pod", "cpu.shares", 512).outcome is Outcome.UNCHANGED
    assert len(kernel.written) == 1


def test_a_value_that_the_kernel_rounds_is_clamped() -> None:
    kernel = FakeKernel()
    kernel.add("pod")
    result = put(kernel.hierarchies(), "pod", "memory.limit", 10 * PAGE + 5)
    assert (result.outcome, result.after, result.reason) == (
        Outcome.CLAMPED,
        10 * PAGE,
        "the value reads back as '40960'",
    )
    assert put(kernel.hierarchies(), "pod", "cpu.shares", 1 << 20).after == 262144


def test_a_cpuset_that_is_partly_effective_is_clamped(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    result = put(hierarchies, "pod", "cpuset.cpus", frozenset({2, 3, 4, 5}))
    assert (result.outcome, result.after) == (Outcome.CLAMPED, frozenset({0, 1, 2, 3}))
    assert result.reason == "'0-3' is in force: the parent cgroup has no more, or the rest is offline"
    assert put(hierarchies, "pod", "cpuset.cpus", frozenset({0, 1, 2, 3})).outcome is Outcome.APPLIED
    assert put(hierarchies, "pod", "cpuset.cpus", frozenset()).outcome is Outcome.APPLIED, (
        "an empty set means the parent's set"
    )
    (tmp_path / "sys/fs/cgroup/pod/cpuset.cpus.effective").write_text("none")
    assert put(hierarchies, "pod", "cpuset.cpus", frozenset({9})).outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cpuset.cpus", frozenset({7}), "EBUSY"),
        (
            "cpu.cfs_quota",
            90,
            "the parent cgroup has less, a cgroup below has more, or the burst is larger (Invalid argument)",
        ),
        ("cpu.cfs_burst", 60, "the burst exceeds the quota (Invalid argument)"),
        ("memory.limit", 99 * PAGE, "the limit exceeds memory.and_swap_limit (Invalid argument)"),
        ("memory.and_swap_limit", PAGE, "the limit is less than memory.limit (Invalid argument)"),
        ("pids.limit", 100, "Invalid argument"),
    ],
)
def test_a_refused_value_has_a_reason(name: str, value: Value, reason: str) -> None:
    kernel = FakeKernel()
    kernel.add("top", {"cpu.cfs_quota": 60, "cpuset.cpus": frozenset({0}), "pids.limit": 10})
    limits: dict[str, Value] = {"memory.limit": 10 * PAGE, "memory.and_swap_limit": 20 * PAGE}
    kernel.add("top/pod", {"cpu.cfs_quota": 50, "cpuset.cpus": frozenset({0}), **limits})
    before = kernel.value("top/pod", name)
    result = put(kernel.hierarchies(), "top/pod", name, value)
    assert result.outcome is Outcome.REFUSED
    assert result.reason == reason or (reason == "EBUSY" and result.reason.startswith("a child cgroup uses"))
    assert (result.before, result.after) == (before, before)
    assert kernel.value("top/pod", name) == before


def test_a_weight_of_an_idle_cgroup_is_refused_with_the_reason() -> None:
    kernel = FakeKernel()
    kernel.add("pod", {"cpu.idle": 1})
    assert put(kernel.hierarchies(), "pod", "cpu.shares", 7).reason == (
        "cpu.idle is 1, so the kernel does not change the weight (Invalid argument)"
    )


def test_a_missing_cgroup_is_gone_and_a_missing_file_is_unsupported() -> None:
    kernel = FakeKernel(missing_keys=frozenset({"cpu.idle"}))
    kernel.add("pod")
    assert put(kernel.hierarchies(), "other", "cpu.idle", 1).outcome is Outcome.GONE
    result = put(kernel.hierarchies(), "pod", "cpu.idle", 1)
    assert (result.outcome, result.reason) == (
        Outcome.UNSUPPORTED, "it lacks cpu.idle: the kernel is older than Linux 5.15, or built without it",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "outcome", "reason"),
    [("cpu.bvt", 3, Outcome.REFUSED, "3 is not between -1 and 2"),
     ("cpu.qos_level", -1, Outcome.UNSUPPORTED, "cgroup v2 has no cpu.qos_level: use cpu.idle"),
     ("io.weight", 5, Outcome.REFUSED, "5 is not between 10 and 1000")],
)  # fmt: skip
def test_impossible_values_are_not_written(name: str, value: Value, outcome: Outcome, reason: str) -> None:
    kernel = FakeKernel(2)
    kernel.add("pod")
    result = put(kernel.hierarchies(), "pod", name, value)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert kernel.written == []


def test_a_path_that_leads_out_is_refused() -> None:
    result = put(FakeKernel().hierarchies(), "../x", "cpu.shares", 5)
    assert result.outcome is Outcome.REFUSED and "leads out" in result.reason


class Broken(Root):
    """A kernel that answers with an error after some reads."""

    def __init__(self, path: str, number: int, reads: int = 0, writes: bool = True) -> None:
        super().__init__(path)
        self.number, self.reads, self.writes = number, reads, writes

    def read(self, path: str) -> str:
        self.reads -= 1
        if self.reads < 0:
            raise OSError(self.number, "words", path)
        return super().read(path)

    def write(self, path: str, text: str) -> None:
        if not self.writes:
            raise OSError(self.number, "words", path)


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(errno.EACCES, Outcome.REFUSED), (errno.EOPNOTSUPP, Outcome.UNSUPPORTED), (errno.ENODEV, Outcome.REFUSED)],
)
def test_errors_of_each_step_are_reported(tmp_path: Path, number: int, outcome: Outcome) -> None:
    path = host_trees.v2(tmp_path, "pod").path
    first = detect(Root(path)).rows
    for reads, writes in ((0, True), (1, False), (1, True)):
        result = put(Hierarchies(Broken(path, number, reads, writes), first), "pod", "cpu.shares", 5)
        assert (result.outcome, result.reason) == (outcome, "words")


def test_a_refused_cpuset_has_a_reason_about_the_parent(tmp_path: Path) -> None:
    path = host_trees.v1(tmp_path, "pod").path
    for number, words in (
        (errno.EACCES, "the parent cgroup does not have all members"),
        (errno.ENOSPC, "would have no CPU"),
    ):
        broken = Hierarchies(Broken(path, number, 1, writes=False), detect(Root(path)).rows)
        assert words in put(broken, "pod", "cpuset.cpus", frozenset({1})).reason


def test_a_value_without_a_text_form_is_refused(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    write = Write("pod", "cpuset.cpus", frozenset({1}))
    located = knob_file.find(hierarchies, write, knob("cpuset.cpus"))
    assert not isinstance(located, Result)
    (tmp_path / "sys/fs/cgroup/pod/cpuset.cpus").write_text("garbage")
    assert knob_file.present(hierarchies, located) is None
    assert put(hierarchies, "pod", "cpuset.cpus", frozenset({1})).before is None
    assert knob_file.present(hierarchies, located._replace(path="/nothing")) is None


def test_values_are_read_by_their_common_name(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    assert knob_file.read(hierarchies, "pod", "cpu.cfs_quota") == -1
    assert knob_file.read(hierarchies, "pod", "cpuset.cpus") == frozenset()
    assert knob_file.read(hierarchies, "pod", "cpu.qos_level") == Unsupported(
        "cgroup v2 has no cpu.qos_level: use cpu.idle"
    )
    assert isinstance(knob_file.read(hierarchies, "pod", "memory.high"), Unsupported)
    with pytest.raises(FileNotFoundError, match="the cgroup does not exist"):
        knob_file.read(hierarchies, "other", "cpu.idle")
    (tmp_path / "sys/fs/cgroup/pod/cpu.idle").write_text("x")
    with pytest.raises(ValueError, match="not a number"):
        knob_file.read(hierarchies, "pod", "cpu.idle")


def test_the_effective_cpuset_is_read_if_the_kernel_has_it(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    assert knob_file.in_force(hierarchies, "pod", "cpuset.cpus") == frozenset(range(4))
    assert knob_file.in_force(hierarchies, "pod", "cpu.shares") is None, "no set"
    assert knob_file.in_force(hierarchies, "other", "cpuset.cpus") is None, "no such cgroup"
    assert knob_file.in_force(hierarchies, "pod", "cpu.qos_level") is None, "not on this version"


def test_a_long_text_is_cut_in_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    path = tmp_path / "sys/fs/cgroup/pod/io.max"
    path.write_text("\n".join(f"{number}:0 rbps=1 wbps=max" for number in range(9)))
    monkeypatch.setattr(Root, "write", lambda *_: None)
    reason = put(hierarchies, "pod", "io.read_bps", {"8:16": 7}).reason
    assert len(reason) < 100 and reason.endswith("...'")
    assert os.strerror(errno.EINVAL) not in reason
