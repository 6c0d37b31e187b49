"""Behaviour of all transports with the agent as a plugin, shown by mode nri next to an earlier agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.agent.koordinator.node import Node
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import NriSettings
from nri.agent.transports.nri import NriTransport
from nri.testing import FakeRuntime
from tests.support.scrape import scrape
from tests.support.standalone_world import World

REFUSED = 'nri_agent_events_total{event="refused",transport="nri"} '


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end, f"not within 20 s: {what}"
        time.sleep(0.005)


def refusals(world: World) -> float:
    _, actual, remaining = scrape(world.parts.observer).partition(REFUSED)
    return float(remaining.split()[0]) if actual else 0.0


def test_a_repeated_refusal_is_logged_once_and_counted_every_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = AgentSettings(nri=NriSettings(socket=str(tmp_path / "nri.sock"), backoff=0.01, backoff_cap=0.02))
    world = World(tmp_path / "machine", Node())
    first, second = (NriTransport(settings, world.parts) for _ in range(2))
    with FakeRuntime(socket_path=settings.nri.socket):
        try:
            first.start()
            wait_for(lambda: first.health()[0], "the registration")
            second.start()
            wait_for(lambda: refusals(world) > 2, "three refusals")
        finally:
            second.stop()
            first.stop()
    messages = [record.getMessage() for record in caplog.records if "this process has already" in record.getMessage()]
    assert len(messages) == 1
    assert messages[0].startswith(
        f"mode nri: this process has already registered plugin {first.label} at {settings.nri.socket}"
    )
