"""Changes as values of named knobs."""

import pytest

from nri.agent.koordinator import block_io
from nri.host import KNOBS
from nri.policies.changes import Changes
from nri.policies.writes import Write, pod_writes, writes


def test_a_pods_values_are_written_by_neutral_names_with_those_by_device() -> None:
    limits = {"8:0": 1 << 20}
    changes = Changes({"cpu.bvt": -1, "cpuset.cpus": "0-3", "memory.high": 5, "io.read_bps": limits})
    assert pod_writes("kubepods/podx", changes, "why") == [
        Write("kubepods/podx", "cpu.bvt", "-1", "why"),
        Write("kubepods/podx", "cpuset.cpus", "0-3", "why"),
        Write("kubepods/podx", "memory.high", "5", "why"),
        Write("kubepods/podx", "io.read_bps", "", "why", limits),
    ]


@pytest.mark.parametrize(
    "folder", ["kubepods", "/kubepods/besteffort/", "kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"]
)
def test_values_of_one_pod_are_not_written_where_many_pods_are(folder: str) -> None:
    assert pod_writes(folder, Changes({"cpu.cfs_quota": 50_000, "memory.limit": 5})) == []
    assert writes(folder, Changes({"cpu.idle": 1})) != []


def test_nothing_is_written_where_there_is_no_folder_and_a_clear_is_not_written() -> None:
    assert writes("", Changes({"cpu.shares": 2})) == []
    assert writes("a", Changes({"cpuset.cpus": ""})) == []
    assert writes("a", Changes({"cpu.idle": 0})) == [Write("a", "cpu.idle", "0")]


def test_the_knobs_that_block_io_names_are_those_of_the_machine() -> None:
    assert set(block_io.wanted([], [])) <= set(KNOBS)
