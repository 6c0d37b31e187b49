"""Handlers and callbacks that do awkward things: the session goes on, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import sys

import nri
from nri.api import messages as m
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread

POD = m.PodSandbox(id="p0", name="web", namespace="default")
CONTAINER = m.Container(id="c0", pod_sandbox_id="p0", name="app")
START = m.StartContainerRequest(pod=POD, container=CONTAINER)


def test_a_callback_that_raises_costs_nothing_but_a_line_in_the_log(caplog) -> None:
    class Careless(nri.Plugin):
        def start_container(self, pod, container):
            def fail(_):
                raise ValueError("careless")

            self.runtime.update(nri.Update("c1")).add_done_callback(fail)

    with plugin_thread(Careless()) as running:
        runtime = running.runtime
        runtime.begin()
        runtime.call("StartContainer", START)
        runtime.answer(runtime.request(), code=Code.UNKNOWN, text="no such container")
        assert not runtime.call("StartContainer", START).code, "the plugin does not serve events any more"
        runtime.answer(runtime.request(), m.UpdateContainersResponse())
        assert not runtime.call("StartContainer", START).code
    assert "careless" in caplog.text


def test_a_callback_that_raises_when_the_connection_ends_does_not_keep_the_others_waiting() -> None:
    class Quiet(nri.Plugin):
        def start_container(self, pod, container): ...

    plugin = Quiet()
    told = []
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        plugin.runtime.update(nri.Update("c1")).add_done_callback(lambda pending: 1 // 0)
        plugin.runtime.update(nri.Update("c2")).add_done_callback(lambda pending: told.append(pending.done))
        running.runtime.close()
        assert isinstance(running.ended(), str)
    assert told == [True]


def test_an_exit_in_an_async_handler_ends_the_plugin_as_it_does_in_a_plain_one() -> None:
    class Leaves(nri.Plugin):
        async def start_container(self, pod, container):
            sys.exit(7)

    with plugin_thread(Leaves()) as running:
        running.runtime.begin()
        running.runtime.send("StartContainer", START)
        outcome = running.ended()
        assert isinstance(outcome, SystemExit) and outcome.code == 7, repr(outcome)


def test_an_exit_in_a_task_does_not_take_the_loop_away_from_the_handlers() -> None:
    class Spawns(nri.Plugin):
        async def start_container(self, pod, container):
            async def leave():
                sys.exit(7)

            self.task = asyncio.ensure_future(leave())
            await asyncio.sleep(0.01)

    with plugin_thread(Spawns()) as running:
        running.runtime.begin()
        for _ in range(2):
            assert not running.runtime.call("StartContainer", START).code, "the loop is dead"
