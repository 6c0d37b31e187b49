"""Supported cgroup files of a machine, and reasons for the unsupported ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.host import KNOBS, Root, Unsupported, detect, probe, survey
from nri.host.cgroups.support import LocatedFile
from tests.support import host_trees

ANOLIS = "only kernels of Anolis OS and Alibaba Cloud Linux have it"
DISABLED = "the controller memory is not enabled for it, or the kernel is built without it"


def reason(actual: LocatedFile | Unsupported) -> str:
    assert isinstance(actual, Unsupported), actual
    return actual.reason


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("memory.low", f"no cgroup has memory.low: on cgroup v1 {ANOLIS}"),
        ("memory.swap_limit", "cgroup v1 has no memory.swap_limit: use memory.and_swap_limit"),
        ("cpu.idle", "no cgroup has cpu.idle: the kernel is older than Linux 5.15, or built without it"),
        ("cpu.bvt", f"no cgroup has cpu.bvt_warp_ns: on cgroup v1 {ANOLIS}; use cpu.idle or cpu.shares"),
        ("hugetlb.2MB.limit", "the controller hugetlb is not mounted"),
        ("memory.swappiness", "no cgroup has memory.swappiness"),
    ],
)
def test_on_cgroup_v1_the_reason_is_reported(tmp_path: Path, name: str, text: str) -> None:
    assert reason(probe(detect(host_trees.v1(tmp_path, "pod")), name)) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net_cls.classid", "cgroup v2 has no net_cls.classid: use a filter by the path of the cgroup"),
        ("cpu.qos_level", "cgroup v2 has no cpu.qos_level: use cpu.idle"),
        ("memory.high", f"no cgroup has memory.high: {DISABLED}"),
        ("hugetlb.1GB.limit", "the controller hugetlb is not mounted"),
    ],
)
def test_on_cgroup_v2_the_reason_is_reported(tmp_path: Path, name: str, text: str) -> None:
    assert reason(probe(detect(host_trees.v2(tmp_path, "pod")), name)) == text


def test_a_file_is_found_in_the_first_cgroup_that_has_it(tmp_path: Path) -> None:
    hierarchies = probe(detect(host_trees.v2(tmp_path, "kubepods", "kubepods/burstable")), "cpu.shares")
    assert isinstance(hierarchies, LocatedFile)
    assert (hierarchies.path, hierarchies.place.file) == ("/sys/fs/cgroup/kubepods/cpu.weight", "cpu.weight")


def test_a_probe_of_one_cgroup_ignores_others(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "kubepods"))
    (tmp_path / "sys/fs/cgroup/other").mkdir()
    assert isinstance(probe(hierarchies, "cpu.shares", "/kubepods"), LocatedFile)
    assert reason(probe(hierarchies, "cpu.shares", "other")).startswith("/other lacks cpu.weight: the controller cpu")


def test_of_several_files_the_first_existing_is_used(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v1(tmp_path, "pod"))
    assert isinstance(probe(hierarchies, "io.weight"), Unsupported)
    folder = tmp_path / "sys/fs/cgroup/blkio/pod"
    for file in ("blkio.weight", "blkio.bfq.weight"):
        (folder / file).write_text("100")
        probed = probe(hierarchies, "io.weight")
        assert isinstance(probed, LocatedFile) and probed.path == f"/sys/fs/cgroup/blkio/pod/{file}"


def test_a_survey_has_every_knob_with_a_file_or_a_reason(tmp_path: Path) -> None:
    for tree in (host_trees.v1(tmp_path / "1", "pod", unified=True), host_trees.v2(tmp_path / "2", "pod")):
        hierarchies = survey(detect(tree))
        assert set(hierarchies) == {name for name in KNOBS if "SIZE" not in name}
        assert all(row.path if isinstance(row, LocatedFile) else row.reason for row in hierarchies.values())
        assert sum(isinstance(row, LocatedFile) for row in hierarchies.values()) > 5


def test_a_survey_reads_a_bounded_number_of_cgroups(tmp_path: Path) -> None:
    host_trees.write_files(tmp_path, {f"sys/fs/cgroup/pod{number}/cpu.max": "" for number in range(50)})
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu")

    class Counting(Root):
        looks = 0

        def exists(self, path: str) -> bool:
            self.looks += 1
            return super().exists(path)

    root = Counting(tmp_path)
    hierarchies = detect(root)
    assert isinstance(probe(hierarchies, "cpu.idle"), Unsupported)
    assert root.looks < 100


def test_this_machine_can_set_shares_and_limits() -> None:
    hierarchies = survey(detect(Root()))
    for name in ("cpu.shares", "cpu.cfs_quota", "memory.limit", "cpuset.cpus"):
        assert isinstance(hierarchies[name], LocatedFile), hierarchies[name]
