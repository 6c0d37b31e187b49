"""Batches of writes into a tree of cgroups: the kernel refuses no step for any old and new values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri.host import Outcome, Write, Writer
from nri.host.cgroups.units import Value
from tests.support.fake_kernel import PAGE, FakeKernel

#: Knobs of limits with the unit that the kernel counts in.
LIMITS = {"cpu.cfs_quota": 1, "memory.limit": PAGE, "pids.limit": 1}
SETS = ("cpuset.cpus", "cpuset.mems")
UNIT_MOST = 50


@st.composite
def trees(draw: st.DrawFn) -> list[str]:
    """Paths of cgroups, each after the one above."""
    paths = ["pods"]
    for number in range(draw(st.integers(0, 7))):
        paths.append(f"{draw(st.sampled_from(paths))}/c{number}")
    return paths


@st.composite
def values(draw: st.DrawFn, paths: list[str]) -> dict[str, dict[str, Value]]:
    """Values of all knobs for all cgroups, each within that of the one above."""
    matches: dict[str, dict[str, Value]] = {}
    limit: dict[str, dict[str, int]] = {}
    for path in paths:
        above = path.rpartition("/")[0]
        matches[path], limit[path] = {}, {}
        for name, unit in LIMITS.items():
            bound = limit.get(above, {}).get(name, UNIT_MOST)
            number = draw(st.one_of(st.just(-1), st.integers(1, bound)))
            matches[path][name] = number * unit if number > 0 else -1
            limit[path][name] = bound if number < 0 else number
        for name in SETS:
            inside = matches[above][name] if above else frozenset(range(6))
            assert isinstance(inside, frozenset)
            matches[path][name] = draw(st.frozensets(st.sampled_from(sorted(inside)))) if inside else inside
    return matches


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[str], dict[str, dict[str, Value]], dict[str, dict[str, Value]], list[Write]]:
    """A tree, its existing values, the expected values, and the writes in any order."""
    paths = draw(trees())
    existing, expected = draw(values(paths)), draw(values(paths))
    writes = [Write(path, name, value) for path in paths for name, value in expected[path].items()]
    return paths, existing, expected, draw(st.permutations(writes))


@given(changes(), st.sampled_from([1, 2]))
def test_no_step_between_two_valid_states_is_refused(
    change: tuple[list[str], dict[str, dict[str, Value]], dict[str, dict[str, Value]], list[Write]], version: int
) -> None:
    paths, existing, expected, writes = change
    kernel = FakeKernel(1 if version == 1 else 2)
    for path in paths:
        kernel.add(path, existing[path])
    results = Writer(kernel.hierarchies()).write_all(writes)
    assert kernel.refused == []
    assert {result.outcome for result in results} <= {Outcome.APPLIED, Outcome.UNCHANGED}
    for write, result in zip(writes, results, strict=True):
        assert kernel.value(write.cgroup, write.name) == expected[write.cgroup][write.name]
        assert (result.outcome is Outcome.UNCHANGED) == (existing[write.cgroup][write.name] == write.value), result
        assert result.before == existing[write.cgroup][write.name]


@given(changes())
def test_a_repeated_batch_writes_nothing(
    change: tuple[list[str], dict[str, dict[str, Value]], dict[str, dict[str, Value]], list[Write]],
) -> None:
    paths, existing, _, writes = change
    kernel = FakeKernel()
    for path in paths:
        kernel.add(path, existing[path])
    writer = Writer(kernel.hierarchies())
    writer.write_all(writes)
    kernel.written.clear()
    assert {result.outcome for result in writer.write_all(writes)} == {Outcome.UNCHANGED}
    assert {result.outcome for result in writer.write_all(writes, force=True)} == {Outcome.UNCHANGED}
    assert kernel.written == []


@given(
    st.tuples(st.integers(-1, 200), st.integers(0, 200), st.integers(0, 1), st.integers(2, 900)),
    st.tuples(st.integers(-1, 200), st.integers(0, 200), st.just(0), st.integers(2, 900)),
    st.permutations(["cpu.cfs_quota", "cpu.cfs_burst", "cpu.idle", "cpu.shares"]),
)
def test_quota_burst_weight_and_idle_are_written_in_an_accepted_order(
    existing: tuple[int, ...], expected: tuple[int, ...], order: list[str]
) -> None:
    names = ("cpu.cfs_quota", "cpu.cfs_burst", "cpu.idle", "cpu.shares")

    def valid(numbers: tuple[int, ...]) -> dict[str, Value]:
        quota, burst, idle, shares = numbers
        burst = burst if quota < 0 else min(burst, quota)
        return dict(zip(names, (quota, burst, idle, 3 if idle else shares), strict=True))

    kernel = FakeKernel()
    kernel.add("pod", valid(existing))
    goal = valid(expected)
    results = Writer(kernel.hierarchies()).write_all([Write("pod", name, goal[name]) for name in order])
    assert kernel.refused == []
    assert all(result.in_force for result in results), list(map(str, results))
    assert {name: kernel.value("pod", name) for name in names} == goal


@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 500), st.integers(0, 500))
def test_memory_limit_and_memory_and_swap_limit_change_together(old: int, more: int, new: int, still: int) -> None:
    kernel = FakeKernel()
    kernel.add("pod", {"memory.limit": old * PAGE, "memory.and_swap_limit": (old + more) * PAGE})
    writes = [Write("pod", "memory.limit", new * PAGE), Write("pod", "memory.and_swap_limit", (new + still) * PAGE)]
    assert all(result.in_force for result in Writer(kernel.hierarchies()).write_all(writes))
    assert kernel.refused == []
