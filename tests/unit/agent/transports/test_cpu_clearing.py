"""Clearing a container's CPUs on both versions of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.model import Changes
from nri.agent.transports.cpu_clearing import clear_cpus, clears_cpus
from nri.host import Outcome
from tests.support import agents
from tests.support.host_trees import v1, v2

POD = "kubepods/besteffort/pod1"


def test_only_an_empty_string_clears_the_cpus() -> None:
    assert clears_cpus(Changes({"cpuset.cpus": ""}))
    assert not clears_cpus(Changes({"cpuset.cpus": "0"}))
    assert not clears_cpus(Changes())
    assert not clears_cpus(None)


def test_on_v1_a_cleared_container_gets_all_cpus_of_its_pod(tmp_path: Path) -> None:
    root = v1(tmp_path, POD, f"{POD}/c")
    (tmp_path / "sys/fs/cgroup/cpuset" / POD / "cpuset.cpus").write_text("1-2\n")
    clear_cpus(agents.parts(root).executor, f"/{POD}/c/")
    assert agents.text(root, "cpuset", f"{POD}/c", "cpuset.cpus") == "1-2"


@pytest.mark.parametrize(("pod_cpus", "cpus"), [("\n", "0-3"), ("2-3\n", "2-3")], ids=["as above", "its own"])
def test_on_v2_a_cleared_container_gets_the_effective_cpus_of_its_pod(tmp_path: Path, pod_cpus: str, cpus: str) -> None:
    """The kernel refuses an empty set because the container has processes."""
    root = v2(tmp_path, POD, f"{POD}/c")
    pod = tmp_path / "sys/fs/cgroup" / POD
    (pod / "cpuset.cpus").write_text(pod_cpus)
    (pod / "cpuset.cpus.effective").write_text(f"{cpus}\n")
    (pod / "c/cpuset.cpus").write_text("1\n")
    (pod / "c/cpuset.cpus.effective").unlink(missing_ok=True)
    (result,) = clear_cpus(agents.parts(root).executor, f"{POD}/c")
    assert ((pod / "c/cpuset.cpus").read_text(), result.outcome) == (cpus, Outcome.APPLIED)


def test_clearing_a_missing_cgroup_is_gone_and_leaves_no_waiting_write(tmp_path: Path) -> None:
    for root in (v1(tmp_path / "1"), v2(tmp_path / "2")):
        executor = agents.parts(root).executor
        (result,) = clear_cpus(executor, f"{POD}/c")
        reason = "cannot read the parent cgroup: the cgroup does not exist"
        assert (result.outcome, result.reason) == (Outcome.GONE, reason)
        assert executor.counts()["waiting writes"] == 0


def test_without_the_cpuset_controller_clearing_is_unsupported(tmp_path: Path) -> None:
    root = v2(tmp_path, POD, f"{POD}/c")
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    (result,) = clear_cpus(agents.parts(root).executor, f"{POD}/c")
    assert result.outcome is Outcome.UNSUPPORTED


def test_clearing_a_container_without_a_folder_is_refused(tmp_path: Path) -> None:
    (result,) = clear_cpus(agents.parts(v1(tmp_path)).executor, "")
    assert result.outcome is Outcome.REFUSED


def test_unreadable_cpus_of_the_parent_are_reported(tmp_path: Path) -> None:
    root = v1(tmp_path, POD, f"{POD}/c")
    (tmp_path / "sys/fs/cgroup/cpuset" / POD / "cpuset.cpus").write_text("what\n")
    (result,) = clear_cpus(agents.parts(root).executor, f"{POD}/c")
    assert not result.in_force
    assert "the parent cgroup" in result.reason
    (tmp_path / "sys/fs/cgroup/cpuset" / POD / "cpuset.cpus").unlink()
    (result,) = clear_cpus(agents.parts(root).executor, f"{POD}/c")
    assert not result.in_force
