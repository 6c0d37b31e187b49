"""The cgroup driver of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nri.agent import cgroup_paths as paths
from tests.support.agents import parts
from tests.support.host_trees import v1


def test_the_cgroup_driver_is_detected_from_the_folders(tmp_path: Path) -> None:
    assert parts(v1(tmp_path / "a", "kubepods")).driver == paths.CGROUPFS
    assert parts(v1(tmp_path / "b", "kubepods.slice")).driver == paths.SYSTEMD
    nothing_set = parts(v1(tmp_path / "c"))
    assert nothing_set.driver == paths.SYSTEMD
    assert replace(nothing_set, chosen_driver=paths.CGROUPFS).driver == paths.CGROUPFS
