"""Common parts of services: enabled by the file, and a changed block is applied once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.rubik import PROFILE
from nri.agent.rubik.service import Service, Services, Ticks, nanoseconds, share, ticks
from nri.agent.settings import AgentSettings
from nri.host.usage import CpuTimes
from tests.support.rubik_world import RubikWorld, pod


class Told(Service):
    name = "psi"
    heard = 0

    def block_changed(self) -> None:
        self.heard += 1

    def round(self, created: Round[Services]) -> None:
        """Nothing is looked at."""


def test_a_service_without_a_round_method_cannot_be_created() -> None:
    class Idle(Service):
        name = "idle"

    with pytest.raises(TypeError, match="round"):
        Idle(AgentSettings(), [])  # type: ignore[abstract]


def test_the_file_enables_a_service_and_a_changed_block_is_applied_once() -> None:
    service, rules = Told(AgentSettings(), []), PROFILE.strategy_rules()
    assert not service.is_needed(rules)
    for interval in (10, 10, 20):
        rules.take({"agent": {"enabledFeatures": ["psi"]}, "psi": {"resource": ["cpu"], "interval": interval}})
        assert service.is_needed(rules) and service.block.interval == interval
    assert (service.heard, service.interval_s) == (2, 0.0)
    rules.take(None)
    assert not service.is_needed(rules) and service.block is None


def test_time_is_in_nanoseconds_and_io_wait_counts_as_in_use() -> None:
    sample = Sample(1.5, 2, None, None, None, {}, times=CpuTimes(busy=10, idle=90, io_wait=30))
    assert (nanoseconds(sample), ticks(sample)) == (1_500_000_000, Ticks(40, 100))
    assert ticks(sample._replace(times=None)) is None


def test_every_service_reports_its_next_decision_and_its_state(tmp_path: Path) -> None:
    blocks = {
        "quotaTurbo": {"syncInterval": 1000},
        "dynMemory": {"policy": "fssr"},
        "psi": {"resource": ["cpu"]},
        "cpuevict": {"threshold": 60, "windows": 3, "interval": 3, "cooldown": 20},
        "memoryevict": {"threshold": 90},
        "cpi": None,
        "ioLimit": None,
    }
    world = RubikWorld(tmp_path, pod("web", cpu="1", quota_turbo="true"), pod("batch", offline=True),
                       preview=("memoryevict",), **blocks)  # fmt: skip
    world.memory(100 << 30, 0, 50 << 30)
    world.node_milli = 7200
    world.loop(7)
    world.uses[world.folder_of(pod("batch", offline=True))] = 100
    world.loop(3)
    message = {row["strategy"]: row for row in world.loops.schedule()}
    assert message.keys() == blocks.keys()
    assert [message[name]["every_s"] for name in ("quotaTurbo", "dynMemory", "psi", "cpuevict")] == [1, 5, 10, 3]
    assert all(0 <= row["in_s"] <= row["every_s"] for row in message.values())
    assert [name for name, row in message.items() if row["preview"]] == ["memoryevict"]
    assert message["quotaTurbo"]["state"] == (
        "the node's CPU usage is 90 %, quotas rise below 80 % and fall at 60 % or more; 1 container"
    )
    assert message["dynMemory"]["state"].startswith("memory.high is 81920 MiB")
    assert message["cpuevict"]["state"].startswith(
        "the node uses 90 % of its CPUs; eviction starts at 60 %; no eviction for"
    )
    assert "of the node's memory is in use; eviction starts at 90 %" in message["memoryevict"]["state"]
    assert message["cpi"]["state"].startswith("0 pods are judged, 0 are limited; next judgement in")
    assert message["ioLimit"]["state"] == ""


def test_a_decreasing_reading_is_zero_time_in_use() -> None:
    assert share(Ticks(10, 20), Ticks(5, 30)) == 0
    assert share(Ticks(10, 20), Ticks(15, 20)) == 100
    assert share(Ticks(0, 0), Ticks(1, 4)) == 25
