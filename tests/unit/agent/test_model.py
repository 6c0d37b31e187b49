"""Pods and containers, merged changes of several hooks, and their writes."""

import pytest

from nri.agent.koordinator import block_io
from nri.agent.model import (
    NO_CHANGES,
    Changes,
    Container,
    HookError,
    Mount,
    Pod,
    Resctrl,
    Write,
    pod_writes,
    writes,
)
from nri.host import KNOBS


def test_merging_changes_keeps_the_later_value_and_adds_the_rest() -> None:
    one = Changes({"cpu.cfs_quota": 1000, "cpu.shares": 2}, env={"A": "1"}, mounts=(Mount("/a", "bind", "/a"),))
    other = Changes({"cpu.cfs_quota": -1, "cpuset.cpus": ""}, env={"B": "2"}, mounts=(Mount("/b", "bind", "/b"),))
    both = one | other
    assert both.knobs == {"cpu.cfs_quota": -1, "cpu.shares": 2, "cpuset.cpus": ""}
    assert both.env == {"A": "1", "B": "2"}
    assert [mount.destination for mount in both.mounts] == ["/a", "/b"]


def test_a_clear_is_a_change_and_empty_changes_are_not() -> None:
    assert Changes({"cpuset.cpus": ""})
    assert not NO_CHANGES
    assert not NO_CHANGES | Changes()


def test_changes_can_be_filtered_by_names_of_knobs() -> None:
    both = Changes({"cpu.cfs_quota": 1000, "cpuset.cpus": "0"}, Resctrl("g"))
    assert both.only(("cpu.cfs_quota",)) == Changes({"cpu.cfs_quota": 1000})
    assert both.without(("cpu.cfs_quota",)) == Changes({"cpuset.cpus": "0"}, Resctrl("g"))


def test_number_and_text_return_none_for_other_types_and_unset_knobs() -> None:
    changes = Changes({"cpu.cfs_quota": 1000, "cpuset.cpus": "0"})
    assert (changes.number("cpu.cfs_quota"), changes.number("cpuset.cpus"), changes.number("pids.limit")) == (
        1000,
        None,
        None,
    )
    assert (changes.text("cpuset.cpus"), changes.text("cpu.cfs_quota")) == ("0", None)


def test_an_error_names_its_hook_in_one_line() -> None:
    error = HookError("GPUEnvInject", "no ratio")
    assert str(error) == "GPUEnvInject: no ratio"
    assert error.partial is not None
    assert not error.partial


def test_a_new_context_has_no_values() -> None:
    assert Pod().resources is None
    assert Pod().extended is None
    assert Container().pod == Pod()


def test_a_pods_values_are_written_with_neutral_names_and_by_device() -> None:
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
def test_values_of_one_pod_are_not_written_to_folders_of_many_pods(folder: str) -> None:
    assert pod_writes(folder, Changes({"cpu.cfs_quota": 50_000, "memory.limit": 5})) == []
    assert writes(folder, Changes({"cpu.idle": 1})) != []


def test_an_empty_folder_or_a_clear_causes_no_write() -> None:
    assert writes("", Changes({"cpu.shares": 2})) == []
    assert writes("a", Changes({"cpuset.cpus": ""})) == []
    assert writes("a", Changes({"cpu.idle": 0})) == [Write("a", "cpu.idle", "0")]


def test_knobs_of_block_io_are_known_to_the_machine() -> None:
    assert set(block_io.limits_by_knob([], [])) <= set(KNOBS)
