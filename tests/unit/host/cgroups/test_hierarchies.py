"""Detection of cgroup v1, v2 and hybrid machines."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nri.host import Root, detect
from nri.host.cgroups.hierarchies import Hierarchies, Hierarchy
from tests.support import host_trees

LINE = "{} 31 0:{} / {} rw,relatime shared:9 - {} {} rw,{}\n"


def test_cgroup_v1_is_detected_by_its_folders(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v1(tmp_path, "pod"))
    assert hierarchies.mode == "v1"
    assert hierarchies.folder("cpuacct", "/pod/") == "/sys/fs/cgroup/cpu,cpuacct/pod"
    assert hierarchies.folder("cpu", "") == "/sys/fs/cgroup/cpu,cpuacct"
    assert hierarchies.of("io") is None and hierarchies.folder("io", "pod") is None


def test_cgroup_v2_is_detected_by_its_controllers(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    assert hierarchies.mode == "v2"
    assert hierarchies.folder("memory", "pod") == hierarchies.folder("", "pod") == "/sys/fs/cgroup/pod"
    assert hierarchies.of("net_cls") is None


def test_on_a_hybrid_machine_each_controller_has_its_version(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v1(tmp_path, "pod", unified=True))
    assert hierarchies.mode == "hybrid"
    versions = {name: row.version for name in ("cpu", "hugetlb", "") if (row := hierarchies.of(name))}
    assert versions == {"cpu": 1, "hugetlb": 2, "": 2}


def test_the_mount_table_of_process_1_is_read(tmp_path: Path) -> None:
    root = host_trees.v1(tmp_path, "pod", unified=True)
    (tmp_path / "cgroups of v1").mkdir()
    table = (
        "1 1 0:1 / / rw - ext4 /dev/vda rw\nnonsense\n"
        + LINE.format(32, 29, "/cgroups\\040of\\040v1", "cgroup", "cgroup", "cpu,cpuacct")
        + LINE.format(33, 30, "/sys/fs/cgroup/unified", "cgroup2", "cgroup2", "nsdelegate")
        + LINE.format(34, 29, "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cgroup", "cpu,cpuacct")
        + LINE.format(35, 31, "/nowhere", "cgroup", "cgroup", "memory")
        + LINE.format(36, 32, "/sys/fs/cgroup/pids", "cgroup", "cgroup", "xattr,name=systemd")
    )
    host_trees.write_files(tmp_path, {"proc/1/mountinfo": table})
    hierarchies = detect(root)
    assert hierarchies.rows == (
        Hierarchy(1, "/cgroups of v1", frozenset({"cpu", "cpuacct"})),
        Hierarchy(2, "/sys/fs/cgroup/unified", frozenset({"hugetlb"})),
        Hierarchy(1, "/sys/fs/cgroup/pids", frozenset({"name=systemd"})),
    )


def test_a_machine_without_cgroups_is_reported(tmp_path: Path) -> None:
    hierarchies = detect(Root(tmp_path))
    assert hierarchies.mode == "none"
    assert not hierarchies.exists("pod")
    assert hierarchies.below("") == []


def test_this_machine_has_cgroups() -> None:
    hierarchies = detect(Root())
    assert hierarchies.mode in ("v1", "v2", "hybrid")
    assert hierarchies.of("cpu") is not None
    with open("/proc/self/cgroup") as file:
        path = file.read().splitlines()[-1].split(":", 2)[2]
    if hierarchies.of("") is not None:
        assert os.getpid() in hierarchies.processes(path)


@pytest.mark.parametrize("path", ["..", "pod/../../x", "/.."])
def test_a_path_that_leads_out_of_the_hierarchy_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        detect(host_trees.v2(tmp_path)).folder("cpu", path)


@pytest.mark.parametrize("tree", [host_trees.v1, host_trees.v2])
def test_processes_and_threads_of_a_cgroup_are_listed(tmp_path: Path, tree: object) -> None:
    assert callable(tree)
    hierarchies = detect(tree(tmp_path, "pod", "pod/a", "pod/b"))
    folder = tmp_path / str(hierarchies.folder("cpu", "pod")).lstrip("/")
    (folder / "cgroup.procs").write_text("7\n3\n7\n")
    (folder / ("tasks" if hierarchies.mode == "v1" else "cgroup.threads")).write_text("3\n4\n7\n")
    assert hierarchies.processes("pod") == [3, 7]
    assert hierarchies.threads("pod") == [3, 4, 7]
    assert hierarchies.below("pod") == hierarchies.below("pod", "memory") == ["a", "b"]
    assert hierarchies.below("pod/a") == []
    assert hierarchies.exists("pod/b") and not hierarchies.exists("pod/c")
    with pytest.raises(FileNotFoundError, match="the cgroup does not exist in any hierarchy"):
        hierarchies.processes("pod/c")


class Removed(Root):
    """A kernel that answers a read with an error."""

    number = errno.ENODEV

    def read(self, path: str) -> str:
        raise OSError(self.number, "words", path)


def test_a_cgroup_that_is_removed_during_a_read_is_not_found(tmp_path: Path) -> None:
    root = Removed(host_trees.v2(tmp_path, "pod").path)
    hierarchies = Hierarchies(root, (Hierarchy(2, "/sys/fs/cgroup"),))
    with pytest.raises(FileNotFoundError):
        hierarchies.processes("pod")
    root.number = errno.EACCES
    with pytest.raises(PermissionError):
        hierarchies.processes("pod")


def test_processes_of_another_pid_namespace_are_omitted(tmp_path: Path) -> None:
    """The kernel lists such processes as 0, and 0 means the calling process in every system call."""
    root = host_trees.v2(tmp_path, "pod")
    for name in ("cgroup.procs", "cgroup.threads"):
        (tmp_path / "sys/fs/cgroup/pod" / name).write_text("0\n7\n0\n")
    assert detect(root).processes("pod") == detect(root).threads("pod") == [7]
