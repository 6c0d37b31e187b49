"""Background work: when it starts, what an error does, and how it ends."""

from __future__ import annotations

import time

import pytest

import nri
from nri.api import messages as m
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import Names, wait_for


def test_background_work_starts_once_synchronized_survives_errors_and_stops() -> None:
    from nri.stub.session.background import Background

    runs = []

    class Works(Names):
        @nri.every(0.01)
        def work(self):
            runs.append(1)
            if len(runs) == 1:
                raise ValueError("the first time fails")

    plugin = Works()
    background = Background(plugin)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.register()
        running.runtime.configure()
        assert runs == [], "background work ran before Synchronize"
        running.runtime.call("Synchronize", m.SynchronizeRequest())
        wait_for(lambda: len(runs) >= 3, "background work after an error")
        background.stop()
        after = len(runs)
        time.sleep(0.05)
        assert len(runs) == after, "background work goes on after stop"


def test_an_interval_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        nri.every(0)
