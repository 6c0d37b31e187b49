"""Counters of both cgroup versions on a file tree. tests/engine reads real cgroups."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from nri.engine.process import counters, stats
from nri.engine.process.counters import HugePages, Transfer, counters_v1, counters_v2, read_counters
from nri.host import Root

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def written(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_cgroup_v1_is_read(tmp_path: Path) -> None:
    paths = {
        "cpu": written(tmp_path / "cpu", cpu__stat="nr_periods 5\nnr_throttled 2\nthrottled_time 70\n",
                       cpu__shares="512\n", cpu__cfs_period_us="100000\n"),
        "cpuacct": written(tmp_path / "cpuacct", cpuacct__stat="user 3\nsystem 4\n"),
        "memory": written(tmp_path / "memory", memory__stat="total_cache 8\ntotal_pgfault 9\n",
                          memory__limit_in_bytes="9223372036854771712\n", memory__oom_control="oom_kill 1\n"),
        "pids": written(tmp_path / "pids", pids__current="6\n", pids__max="max\n"),
        "blkio": written(tmp_path / "blkio"),
    }  # fmt: skip
    (paths["blkio"] / "blkio.throttle.io_service_bytes").write_text(
        "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\nTotal 30\n"
    )
    (paths["blkio"] / "blkio.throttle.io_serviced").write_text("8:0 Read 1\n8:0 Write 2\n")
    counters_ = counters_v1(paths)
    assert counters_.numbers == {
        "cpu_user": 3 * TICK_NS, "cpu_system": 4 * TICK_NS, "periods": 5, "throttled_periods": 2, "throttled": 70,
        "cpu_shares": 512, "cpu_period_us": 100000, "cache": 8, "page_faults": 9, "memory_limit": 0, "ooms": 1,
        "threads": 6, "threads_max": 0,
    }  # fmt: skip
    assert counters_.transfers == [Transfer("8:0", 10, 1, 20, 2)]


def test_cgroup_v2_is_read(tmp_path: Path) -> None:
    written(
        tmp_path, cpu__stat="user_usec 3\nsystem_usec 4\nnr_periods 5\nthrottled_usec 6\n", cpu__weight="100\n",
        cpu__max="max 100000\n", memory__stat="file 8\nfile_mapped 1\nkernel 2\n", memory__peak="77\n",
        memory__events="max 3\noom_kill 1\n", memory__max="max\n", pids__max="100\n", pids__current="2\n",
        io__stat="8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n\n",
    )  # fmt: skip
    counters_ = counters_v2(tmp_path)
    assert counters_.numbers["cpu_user"] == 3000 and counters_.numbers["throttled"] == 6000
    assert counters_.numbers["cpu_shares"] == 2597 and counters_.numbers["cpu_period_us"] == 100000
    assert (counters_.numbers["memory_limit"], counters_.numbers["threads_max"], counters_.numbers["memory_max"]) == (
        0,
        100,
        77,
    )
    assert counters_.transfers == [Transfer("8:0", 10, 1, 20, 2)]


def test_quotas_reservations_and_huge_pages_of_v1(tmp_path: Path) -> None:
    cpu = written(tmp_path / "cpu", cpu__cfs_quota_us="-1\n")
    memory = written(
        tmp_path / "memory",
        memory__soft_limit_in_bytes="4096\n",
        memory__stat="total_active_file 1\ntotal_inactive_file 2\n",
    )
    pages = tmp_path / "hugetlb"
    written(pages)
    for size in ("2MB", "1GB"):
        (pages / f"hugetlb.{size}.usage_in_bytes").write_text("5\n")
        (pages / f"hugetlb.{size}.max_usage_in_bytes").write_text("7\n")
        (pages / f"hugetlb.{size}.rsvd.usage_in_bytes").write_text("9\n")
    counters_ = counters_v1({"cpu": cpu, "memory": memory, "hugetlb": pages})
    assert counters_.numbers == {"cpu_quota_us": 0, "active_file": 1, "inactive_file": 2, "memory_reservation": 4096}
    assert counters_.huge_pages == [HugePages("1GB", 5, 7), HugePages("2MB", 5, 7)]
    (cpu / "cpu.cfs_quota_us").write_text("50000\n")
    assert counters_v1({"cpu": cpu}).numbers == {"cpu_quota_us": 50000}


def test_pressure_quotas_reservations_and_huge_pages_of_v2(tmp_path: Path) -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n"
    written(tmp_path, cpu__pressure=text, io__pressure=text, cpu__max="50000 100000\n", memory__low="4096\n")
    (tmp_path / "hugetlb.2MB.current").write_text("5\n")
    (tmp_path / "hugetlb.2MB.rsvd.current").write_text("9\n")
    counters_ = counters_v2(tmp_path)
    assert counters_.numbers == {
        "cpu_waiting": 3000, "cpu_stalled": 2000, "io_waiting": 3000, "io_stalled": 2000,
        "cpu_period_us": 100000, "cpu_quota_us": 50000, "memory_reservation": 4096,
    }  # fmt: skip
    assert counters_.huge_pages == [HugePages("2MB", 5, None)]


def test_a_kernel_without_counters_has_no_values(tmp_path: Path) -> None:
    assert counters_v1({}) == counters_v2(tmp_path) == ({}, [], [])


def test_this_process_is_counted_and_a_missing_process_is_reported() -> None:
    numbers = read_counters(os.getpid()).numbers
    assert {"processes", "file_descriptors", "sockets"} <= set(numbers)
    assert numbers["open_files_limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with pytest.raises(FileNotFoundError):
        read_counters(1 << 30)


@pytest.mark.parametrize("v2", [False, True])
def test_processes_in_nested_cgroups_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, v2: bool) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write(b"x")
        assert other.stdout.read(1) == b"x"  # it has loaded its libraries, and closed them
        row = "0::/pods/c/init" if v2 else "4:memory:/pods/c/init\n0::/pods/c"
        written(tmp_path / "proc/7", cgroup=f"{row}\n")
        monkeypatch.setattr(stats, "MACHINE", Root(tmp_path))
        cgroup = tmp_path / "cgroup" / ("" if v2 else "memory") / "pods/c"
        written(cgroup / "init", cgroup__procs="7\n")
        written(cgroup / "rest/deep", cgroup__procs=f"{other.pid}\n")
        numbers = read_counters(7, tmp_path / "cgroup", "/pods/c").numbers
        assert (numbers["processes"], numbers["file_descriptors"]) == (2, 3)


def test_the_count_of_descriptors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptors = [os.dup(0) for _ in range(20)]
    try:
        monkeypatch.setattr(counters, "MAX_DESCRIPTORS", 10)
        assert read_counters(os.getpid()).numbers["file_descriptors"] == 10
    finally:
        for entry in descriptors:
            os.close(entry)
