"""The processes of containers: their stop, with a dry engine; tests/engine has real ones."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import pytest

from nri.engine.config import CgroupConfig
from nri.engine.lifecycle import processes
from nri.engine.lifecycle.processes import Processes
from nri.engine.state import ContainerState
from nri.engine.support.errors import CommandTimeout


@pytest.fixture
def made(dry: Any) -> Processes:
    return Processes(dry.engine.inventory, dry.engine.machinery)


def test_an_eviction_stops_and_says_why(dry: Any, made: Processes, caplog: pytest.LogCaptureFixture) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    made.evict(entry.id, "too loud")
    assert entry.ended.wait(20)
    assert "too loud" in entry.record.message
    caplog.set_level(logging.WARNING)
    made.evict("absent", "no such thing")
    while not caplog.messages:
        time.sleep(0.01)
    assert caplog.messages == ["container absent could not be evicted: no container 'absent'"]


@pytest.mark.parametrize("timeout_s", [0.0, 1.0, float(2**63 - 1)])
def test_a_container_that_runs_is_stopped_whatever_the_timeout(dry: Any, made: Processes, timeout_s: float) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    made.stop(entry, timeout_s)
    assert entry.record.state is ContainerState.EXITED
    made.stop(entry, timeout_s)  # and once more is no error


def test_one_that_does_not_end_is_an_error_that_names_it(
    dry: Any, made: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    with monkeypatch.context() as context:
        for name in ("_KILL_S", "_FROZEN_S"):
            context.setattr(processes, name, 0.0)
        context.setattr(processes, "send", lambda *_: True)
        context.setattr(dry.engine.machinery.runtime("runc"), "kill", lambda *_: True)
        with pytest.raises(CommandTimeout, match=f"stop of container {entry.id}"):
            made.stop(entry)
    made.stop(entry)


def test_conmons_cgroup_is_the_pods_or_one_of_all_or_systemds(dry: Any, made: Processes) -> None:
    assert made._conmon_cgroup("/pods/p1", "c1") == "/pods/p1/conmon-c1"
    dry.engine.machinery.config = replace(dry.config, cgroups=CgroupConfig(conmon="/all"))
    assert made._conmon_cgroup("/pods/p1", "c1") == "/all/conmon-c1"
    dry.engine.machinery.config = replace(dry.config, cgroups=CgroupConfig(driver="systemd"))
    assert made.place("p.slice", "c1") is None
