"""CPU and memory usage of the machine and of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.host import Root, cgroup_usage, cpu_times, detect
from nri.host.usage import (
    CgroupUsage,
    CpuTimes,
    Processor,
    ProcessorFiles,
    memory,
    node_memory_used,
    parse_flat_keyed,
)
from tests.support import host_trees

STAT = "cpu  100 10 40 800 50 5 5 10 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"


def test_busy_time_counts_guests_once_and_no_iowait(tmp_path: Path) -> None:
    assert cpu_times(host_trees.write_files(tmp_path, {"proc/stat": STAT})) == CpuTimes(170, 850, 50)


def test_a_share_is_of_the_time_between_two_readings() -> None:
    assert CpuTimes(150, 950, 0).share(CpuTimes(100, 900, 0)) == 0.5
    assert CpuTimes(100, 900, 0).share(CpuTimes(100, 900, 0)) == 0.0
    assert CpuTimes(90, 1000, 0).share(CpuTimes(100, 900, 0)) == 0.0, "a counter that went back"


@pytest.mark.parametrize(
    "text", ["", "intr 1 2 3 4 5 6 7 8 9 10", "cpu  1 2 3 4 5 6 7 8 9", "cpu -1 2 3 4 5 6 7 8 9 10"]
)
def test_invalid_and_truncated_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="does not begin with the times"):
        cpu_times(host_trees.write_files(tmp_path, {"proc/stat": text}))


def test_a_counter_has_64_bits() -> None:
    assert parse_flat_keyed(f"usage {2**64 - 1}\n") == {"usage": 2**64 - 1}
    with pytest.raises(ValueError, match="64 bits"):
        parse_flat_keyed(f"usage {2**64}\n")


def test_memory_is_read_in_bytes(tmp_path: Path) -> None:
    text = f"MemTotal:  2048 kB\nHugePages_Total:   3\nnonsense\nMore: x kB\nMost: {10**19} kB\n"
    assert memory(host_trees.write_files(tmp_path, {"proc/meminfo": text})) == {
        "MemTotal": 2 << 20, "HugePages_Total": 3,
    }  # fmt: skip


def test_the_usage_of_a_memory_node_is_read_or_none(tmp_path: Path) -> None:
    text = "Node 1 MemTotal:  2048 kB\nNode 1 MemUsed:  1024 kB\n"
    root = host_trees.write_files(tmp_path, {"sys/devices/system/node/node1/meminfo": text})
    assert [node_memory_used(root, number) for number in (0, 1)] == [0, 1 << 20]


def test_this_machine_has_cpu_times_and_memory() -> None:
    assert cpu_times(Root()).busy > 0
    assert memory(Root())["MemTotal"] > memory(Root())["MemAvailable"]


def test_the_usage_of_a_cgroup_is_read_on_v1(tmp_path: Path) -> None:
    root = host_trees.v1(tmp_path, "pod")
    base = tmp_path / "sys/fs/cgroup"
    (base / "cpu,cpuacct/pod/cpu.stat").write_text("nr_periods 9\nnr_throttled 2\nthrottled_time 5000\n")
    (base / "memory/pod/memory.stat").write_text("total_inactive_file 4096\ninactive_file 1\n")
    assert cgroup_usage(detect(root), "pod") == CgroupUsage(7, 9, 2, 5000, 8192, 4096)


def test_the_usage_of_a_cgroup_is_read_on_v2(tmp_path: Path) -> None:
    root = host_trees.v2(tmp_path, "pod")
    base = tmp_path / "sys/fs/cgroup/pod"
    (base / "cpu.stat").write_text("usage_usec 11\nnr_periods 9\nnr_throttled 2\nthrottled_usec 5\n")
    (base / "memory.current").write_text("8192\n")
    (base / "memory.stat").write_text("inactive_file 9000\n")
    assert cgroup_usage(detect(root), "pod") == CgroupUsage(11000, 9, 2, 5000, 8192, 0)


def test_missing_values_are_none(tmp_path: Path) -> None:
    assert cgroup_usage(detect(host_trees.v2(tmp_path, "pod")), "pod") == CgroupUsage(*[None] * 6)
    bare = host_trees.write_files(tmp_path / "bare", {"sys/fs/cgroup/pids/pod/cgroup.procs": ""})
    assert cgroup_usage(detect(bare), "pod") == CgroupUsage(*[None] * 6)


def test_a_missing_cgroup_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cgroup_usage(detect(host_trees.v1(tmp_path)), "pod")


@pytest.mark.parametrize("text", ["nr_periods\n", "nr_periods x\n", "a 1\n\nb 2\n"])
def test_an_invalid_file_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"word and a number|invalid literal"):
        parse_flat_keyed(text)


def test_cpu_usage_files_stay_open_on_v1(tmp_path: Path) -> None:
    root = host_trees.v1(tmp_path, "pod")
    base = tmp_path / "sys/fs/cgroup/cpu,cpuacct/pod"
    (base / "cpu.stat").write_text("nr_periods 9\nnr_throttled 2\nthrottled_time 5000\n")
    (base / "cpu.cfs_quota_us").write_text("")
    (base / "cpu.cfs_period_us").write_text("100000\n")
    files = ProcessorFiles(detect(root), root, "pod")
    for quota in ("-1", "20000"):
        (base / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        assert files.read() == Processor(int(quota), 100_000, 2, 5000, 7)
    (base / "cpu.cfs_quota_us").write_text("")
    assert files.read() is None, "the file of the quota is empty"
    files.close()
    files.close()


def test_cpu_usage_files_stay_open_on_v2(tmp_path: Path) -> None:
    root = host_trees.v2(tmp_path, "pod")
    base = tmp_path / "sys/fs/cgroup/pod"
    (base / "cpu.stat").write_text("usage_usec 11\nnr_periods 9\nnr_throttled 2\nthrottled_usec 5\n")
    files = ProcessorFiles(detect(root), root, "pod")
    for text, quota in (("max 100000", -1), ("5000 20000", 5000)):
        (base / "cpu.max").write_text(f"{text}\n")
        assert files.read() == Processor(quota, int(text.split()[1]), 2, 5000, 11_000)
    files.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_idle_cgroup_is_read_again_after_it_has_run(tmp_path: Path, version: int) -> None:
    root = (host_trees.v1 if version == 1 else host_trees.v2)(tmp_path, "pod")
    base = tmp_path / "sys/fs/cgroup" / ("cpu,cpuacct" if version == 1 else "") / "pod"
    limit, used = ("cpu.cfs_quota_us", "cpuacct.usage") if version == 1 else ("cpu.max", "cpu.stat")
    (base / "cpu.stat").write_text("usage_usec 11\nnr_throttled 2\n")
    (base / "cpu.cfs_period_us").write_text("100000\n")
    (base / limit).write_text("5000 100000\n")
    files = ProcessorFiles(detect(root), root, "pod")
    (before, _) = (files.read(), (base / limit).write_text("6000 100000\n"))
    assert before is not None
    assert (before.quota_us, files.read(resting=True)) == (5000, before)
    (base / used).write_text("usage_usec 12\nnr_throttled 2\n" if version == 2 else "8\n")
    actual = files.read(resting=True)
    assert actual is not None
    assert (actual.quota_us, actual.cpu_ns > before.cpu_ns) == (6000, True)
    files.close()


def test_a_missing_cgroup_leaves_no_file_open(tmp_path: Path) -> None:
    root = host_trees.v1(tmp_path, "pod")
    (tmp_path / "sys/fs/cgroup/cpu,cpuacct/pod/cpuacct.usage").unlink()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        ProcessorFiles(detect(root), root, "pod")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    with pytest.raises(ValueError, match=r"the cgroup controller cpu\w* is not mounted"):
        ProcessorFiles(detect(Root(tmp_path / "none")), root, "pod")
