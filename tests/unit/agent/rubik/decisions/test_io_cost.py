"""Cost models of disks, whole or not at all, and the weights of pods."""

from __future__ import annotations

import pytest

from nri.agent.rubik.blocks import IoCostDevice, IoCostNode, IoCostParam
from nri.agent.rubik.decisions import io_cost
from nri.agent.rubik.pods import PREEMPTIBLE, Pod

GOOD = IoCostDevice("nvme0n1", "linear", IoCostParam(1, 2, 3, 4, 5, 6))
WORDS = "rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6"


def test_the_first_entry_of_the_node_counts_else_the_last_of_all() -> None:
    nodes = [IoCostNode("global", [GOOD]), IoCostNode("n", []), IoCostNode("n", [GOOD]), IoCostNode("global", [])]
    assert list(io_cost.devices_of(nodes, "n")) == []
    assert list(io_cost.devices_of(nodes[:2], "other")) == [GOOD]
    assert list(io_cost.devices_of([], "n")) == []


def test_a_minor_number_above_255_is_one() -> None:
    found = [(each.knob, each.value) for each in io_cost.writes([GOOD], lambda name: "259:300")]
    assert found == [
        ("io.cost_model", f"259:300 {WORDS}"),
        ("io.cost_qos", "259:300 enable=1 ctrl=user min=100.00 max=100.00"),
    ]
    assert io_cost.clear(["8:0"])[0].value == "8:0 enable=0 ctrl=user min=100.00 max=100.00"


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (IoCostDevice("null", "linear", GOOD.param), "config\\[0\\].dev: 'null' is no block device"),
        (IoCostDevice("nvme0n1", "exact", GOOD.param), "config\\[0\\].model"),
        (IoCostDevice("nvme0n1", "linear", IoCostParam(1)), "config\\[0\\].param.rseqiops: 0"),
    ],
)
def test_a_disk_that_cannot_be_is_named(device: IoCostDevice, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(io_cost.writes([device], lambda name: "259:0" if name == "nvme0n1" else ""))


def test_written_pages_count_only_where_the_kernel_was_told_so() -> None:
    assert io_cost.supported("quiet cgroup1_writeback\n")
    assert not io_cost.supported("no_cgroup1_writeback=1")


def test_weights_of_pods() -> None:
    off = Pod("u", folder="p", labels={PREEMPTIBLE: "true"})
    assert [each.value for each in io_cost.pod_writes(off, "77")] == ["10", "77"]
    assert [each.value for each in io_cost.pod_writes(Pod("u", folder="p"), "")] == ["1000"]
