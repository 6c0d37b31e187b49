"""The kernel's cgroup files for rubik's services."""

from __future__ import annotations

from pathlib import Path

from nri.agent.rubik.machine import Kernel
from nri.host import Root
from tests.support.host_trees import v2


def test_a_knob_that_appears_with_the_first_pod_is_found_after_a_moment(tmp_path: Path) -> None:
    now = [0.0]
    kernel = Kernel(Root(tmp_path), lambda: now[0])
    assert kernel.missing_reason("cpu.idle")
    v2(tmp_path, "kubepods.slice")
    now[0] = 9.0
    assert kernel.missing_reason("cpu.idle")
    now[0] = 10.0
    assert not kernel.missing_reason("cpu.idle")
    assert "use cpu.idle" in kernel.missing_reason("cpu.qos_level")
