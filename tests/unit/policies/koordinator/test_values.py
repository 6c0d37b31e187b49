"""Changes of several hooks in one, and writes of them."""

import pytest

from nri.policies.koordinator.loops import block_io
from nri.policies.koordinator.values import NO_CHANGES, Changes, HookError, Mount
from nri.policies.koordinator.writes import KNOBS, Write, container_writes, folder_writes, pod_writes


def test_of_two_words_on_one_thing_the_later_one_counts_and_the_rest_adds_up() -> None:
    one = Changes(cfs_quota=1000, cpu_shares=2, env={"A": "1"}, mounts=(Mount("/a", "bind", "/a"),))
    other = Changes(cfs_quota=-1, cpuset="", env={"B": "2"}, mounts=(Mount("/b", "bind", "/b"),))
    both = one | other
    assert (both.cfs_quota, both.cpu_shares, both.cpuset) == (-1, 2, "")
    assert both.env == {"A": "1", "B": "2"}
    assert [mount.destination for mount in both.mounts] == ["/a", "/b"]


def test_a_clear_is_a_change_and_nothing_is_none() -> None:
    assert Changes(cpuset="")
    assert not NO_CHANGES
    assert not NO_CHANGES | Changes()


def test_a_pods_values_are_written_by_neutral_names() -> None:
    writes = pod_writes("kubepods/podx", Changes(bvt=-1, cpu_shares=2, cfs_quota=-1, memory_limit=5, cpuset="0"), "why")
    assert writes == [
        Write("kubepods/podx", "cpu.bvt", "-1", "why"),
        Write("kubepods/podx", "cpu.shares", "2", "why"),
        Write("kubepods/podx", "cpu.cfs_quota", "-1", "why"),
        Write("kubepods/podx", "memory.limit", "5", "why"),
    ]


def test_nothing_is_written_where_there_is_no_folder_and_a_clear_is_not_written() -> None:
    assert container_writes("", Changes(cpu_shares=2)) == []
    assert container_writes("a", Changes(cpuset="")) == []
    assert folder_writes("a", Changes(cpu_idle=0)) == [Write("a", "cpu.idle", "0")]


def test_an_error_names_its_hook_in_one_line() -> None:
    error = HookError("GPUEnvInject", "no ratio")
    assert str(error) == "GPUEnvInject: no ratio"
    assert error.partial is not None
    assert not error.partial


def test_the_knobs_that_hooks_name_are_those_of_the_machine() -> None:
    knobs = pytest.importorskip("nri.host.cgroups.knobs", reason="nri.host is not in this tree")
    assert set(KNOBS.values()) <= set(knobs.KNOBS)
    assert set(block_io.values([])) <= set(knobs.KNOBS)
