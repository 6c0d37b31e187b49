"""Changes as values of named knobs."""

import pytest

from nri.policies.changes import Changes
from nri.policies.koordinator.loops import block_io
from nri.policies.writes import KNOBS, Write, container_writes, folder_writes, pod_writes


def test_a_pods_values_are_written_by_neutral_names() -> None:
    writes = pod_writes("kubepods/podx", Changes(bvt=-1, cpu_shares=2, cfs_quota=-1, memory_limit=5, cpuset="0"), "why")
    assert writes == [
        Write("kubepods/podx", "cpu.bvt", "-1", "why"),
        Write("kubepods/podx", "cpu.shares", "2", "why"),
        Write("kubepods/podx", "cpu.cfs_quota", "-1", "why"),
        Write("kubepods/podx", "memory.limit", "5", "why"),
    ]


@pytest.mark.parametrize(
    "folder", ["kubepods", "/kubepods/besteffort/", "kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"]
)
def test_values_of_one_pod_are_not_written_where_many_pods_are(folder: str) -> None:
    assert pod_writes(folder, Changes(cfs_quota=50_000, memory_limit=5)) == []
    assert folder_writes(folder, Changes(cpu_idle=1)) != []


def test_nothing_is_written_where_there_is_no_folder_and_a_clear_is_not_written() -> None:
    assert container_writes("", Changes(cpu_shares=2)) == []
    assert container_writes("a", Changes(cpuset="")) == []
    assert folder_writes("a", Changes(cpu_idle=0)) == [Write("a", "cpu.idle", "0")]


def test_the_knobs_that_hooks_name_are_those_of_the_machine() -> None:
    knobs = pytest.importorskip("nri.host.cgroups.knobs", reason="nri.host is not in this tree")
    assert set(KNOBS.values()) <= set(knobs.KNOBS)
    assert set(block_io.wanted([], [])) <= set(knobs.KNOBS)
