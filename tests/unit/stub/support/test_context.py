"""The deadline of the current request."""

from __future__ import annotations

import time

import nri
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CREATE, creates


def test_the_deadline_follows_the_runtimes_timeout() -> None:
    observed = []

    class Looks(nri.Plugin):
        def create_container(self, pod, container):
            observed.append((self.time_left(), self.deadline - time.monotonic()))

    with plugin_thread(Looks()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE, timeout_s=2.0)
    remaining, until = observed[0]
    assert 1.0 < remaining <= 2.0 and 1.0 < until <= 2.0, observed


def test_there_is_no_deadline_outside_handlers() -> None:
    plugin = creates(None)
    assert (plugin.deadline, plugin.time_left()) == (None, None)
