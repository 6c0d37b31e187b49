"""What services share: they are on if the file says so, and hear of another block once."""

from __future__ import annotations

import pytest

from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.profiles.rubik.configuration import Services
from nri.agent.profiles.rubik.services.service import Service, nanoseconds, ticks
from nri.agent.settings import AgentSettings
from nri.host.usage import CpuTimes
from nri.policies.rubik.node import Ticks


class Told(Service):
    name = "psi"
    heard = 0

    def changed(self) -> None:
        self.heard += 1

    def round(self, made: Round[Services]) -> None:
        """Nothing is looked at."""


def test_a_service_without_a_round_cannot_be_made() -> None:
    class Idle(Service):
        name = "idle"

    with pytest.raises(TypeError, match="round"):
        Idle(AgentSettings(), [])  # type: ignore[abstract]


def test_a_service_is_on_if_the_file_switches_it_on_and_hears_of_another_block_once() -> None:
    service, rules = Told(AgentSettings(), []), Services()
    assert not service.wants(rules)
    for interval in (10, 10, 20):
        rules.take({"agent": {"enabledFeatures": ["psi"]}, "psi": {"resource": ["cpu"], "interval": interval}})
        assert service.wants(rules) and service.block.interval == interval
    assert (service.heard, service.interval_s) == (2, 0.0)
    rules.take(None)
    assert not service.wants(rules) and service.block is None


def test_time_is_in_nanoseconds_and_waiting_for_io_is_in_use() -> None:
    sample = Sample(1.5, 2, None, None, None, {}, times=CpuTimes(busy=10, idle=90, io_wait=30))
    assert (nanoseconds(sample), ticks(sample)) == (1_500_000_000, Ticks(40, 100))
    assert ticks(sample._replace(times=None)) is None
