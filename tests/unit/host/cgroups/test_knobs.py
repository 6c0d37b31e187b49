"""The table of cgroup files."""

from __future__ import annotations

import pytest

from nri.agent import model
from nri.host import KNOBS, knob
from nri.host.cgroups.knobs import wider

#: The neutral names, which others write down: to add one is fine, to change one is not.
NAMES = {
    "cpu.shares", "cpu.cfs_quota", "cpu.cfs_period", "cpu.cfs_burst", "cpu.idle", "cpu.bvt", "cpu.qos_level",
    "cpuset.cpus", "cpuset.mems", "memory.limit", "memory.soft_limit", "memory.wb_blkio_ino",
    "memory.and_swap_limit", "memory.swap_limit", "memory.min", "memory.low", "memory.high", "memory.oom_group",
    "memory.swappiness", "memory.wmark_ratio", "memory.wmark_scale_factor", "memory.wmark_min_adj",
    "memory.priority", "memory.use_priority_oom", "memory.qos_level", "memory.high_async_ratio", "pids.limit",
    "io.weight", "io.read_bps", "io.write_bps", "io.read_iops", "io.write_iops", "io.cost_model", "io.cost_qos",
    "io.cost_weight", "io.device_weight", "memory.pagecache_limit.enable", "memory.pagecache_limit.size",
    "memory.pagecache_limit.sync", "net_cls.classid", "hugetlb.SIZE.limit",
}  # fmt: skip


def test_the_names_are_stable() -> None:
    assert set(KNOBS) == NAMES


def test_every_row_has_a_unit_and_files_of_its_controller() -> None:
    for name, row in KNOBS.items():
        assert row.unit, name
        assert row.v1 or row.v2, name
        for place in (*row.v1, *row.v2):
            assert place.file.startswith(f"{place.controller}."), name
        assert "blkio" not in {place.controller for place in row.v2}, name
        assert "io" not in {place.controller for place in row.v1}, name


def test_a_file_that_one_version_lacks_has_a_hint() -> None:
    for name, row in KNOBS.items():
        if row.instead.split()[0:1] and "." in row.instead.split()[0]:
            assert row.instead.split()[0] in KNOBS, name
        assert set(row.resets) <= set(KNOBS), name
        if row.least is not None and row.most is not None:
            assert row.least < row.most, name


def test_only_intended_rows_share_a_file() -> None:
    received: dict[tuple[int, str], list[str]] = {}
    for row in KNOBS.values():
        for version in (1, 2):
            for place in row.places(version):
                received.setdefault((version, place.file), []).append(row.name)
    shared = {key: names for key, names in received.items() if len(names) > 1}
    assert shared == {
        (1, "blkio.cost.weight"): ["io.cost_weight", "io.device_weight"],
        (2, "cpu.max"): ["cpu.cfs_quota", "cpu.cfs_period"],
        (2, "io.max"): ["io.read_bps", "io.write_bps", "io.read_iops", "io.write_iops"],
        (2, "io.bfq.weight"): ["io.weight", "io.device_weight"],
        (2, "io.weight"): ["io.weight", "io.device_weight"],
    }


def test_huge_pages_have_a_row_for_each_size() -> None:
    row = knob("hugetlb.2MB.limit")
    assert (row.name, row.v1[0].file, row.v2[0].file) == (
        "hugetlb.2MB.limit", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["", "cpu", "hugetlb..limit", "hugetlb.2/MB.limit", "hugetlb.2MB", "cpu.weight"])
def test_an_unknown_name_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        knob(name)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("cpu.idle", 2, "2 is not between 0 and 1"),
        ("cpu.bvt", -2, "-2 is not between -1 and 2"),
        ("cpu.bvt", 2, ""),
        ("cpu.cfs_burst", -1, "-1 is less than 0"),
        ("cpu.shares", 1 << 40, ""),
        ("cpuset.cpus", frozenset({1}), ""),
        ("net_cls.classid", 1 << 32, "4294967296 is not between 0 and 4294967295"),
        ("memory.wmark_ratio", 101, "101 is not between 0 and 100"),
    ],
)
def test_a_value_out_of_range_has_an_error_text(name: str, value: int, complaint: str) -> None:
    assert knob(name).complaint(value) == complaint


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("cpu.shares", "512", 512), ("cpu.cfs_quota", "-1", -1), ("memory.limit", "4096\n", 4096),
     ("cpuset.cpus", "0-1,3", {0, 1, 3}), ("cpuset.mems", "", frozenset()), ("hugetlb.2MB.limit", "5", 5)],
)  # fmt: skip
def test_a_text_is_parsed_for_both_versions(name: str, text: str, value: object) -> None:
    assert knob(name).parse(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("cpu.shares", ""), ("cpu.shares", "max"), ("cpuset.cpus", "x"), ("io.read_bps", "8:0 5"), ("io.cost_qos", "x")],
)
def test_an_invalid_text_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"not a number|range|per device"):
        knob(name).parse(text)


def test_policies_use_names_of_this_table() -> None:
    named = (
        model.SHARES,
        model.QUOTA,
        model.CPUS,
        model.MEMORY_LIMIT,
        model.BVT,
        model.CPU_IDLE,
        model.NET_CLASS,
    )
    assert set(named) <= set(KNOBS)


def test_the_wider_of_two_contains_both() -> None:
    assert wider(frozenset({0}), frozenset({1})) == {0, 1}
    assert (wider(5, 9), wider(9, 5), wider(-1, 9), wider(9, -1)) == (9, 9, -1, -1)
    assert wider({"8:0": 1}, {"8:16": 2}) == {"8:16": 2}
