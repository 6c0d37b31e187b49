"""`async def` handlers: they wait, raise, leave tasks behind and exit, and the session goes on."""

from __future__ import annotations

import asyncio
import sys
import time

import nri
from nri.api import messages as m
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CONTAINER, CREATE, POD, START, create_reply


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


def test_an_async_handler_may_wait() -> None:
    class Waits(nri.Plugin):
        async def create_container(self, pod, container):
            async with asyncio.timeout(self.time_left()):
                await asyncio.sleep(0.01)
            return nri.Adjustment().add_env("POD", pod.name)

    with plugin_thread(Waits()) as running:
        running.runtime.begin()
        assert create_reply(running).adjust.env[0].value == "web"


def test_an_async_handler_that_raises_is_an_error() -> None:
    class Fails(nri.Plugin):
        async def create_container(self, pod, container):
            await asyncio.sleep(0)
            raise nri.Reject("later")

    with plugin_thread(Fails()) as running:
        running.runtime.begin()
        assert running.runtime.call("CreateContainer", CREATE).message == "later"


def test_a_background_task_of_an_async_handler_lives_on() -> None:
    done = []

    class Spawns(nri.Plugin):
        async def start_container(self, pod, container):
            async def later():
                await asyncio.sleep(0.05)
                done.append(container.id)

            self.task = asyncio.create_task(later())

    with plugin_thread(Spawns()) as running:
        running.runtime.begin()
        running.runtime.call("StartContainer", m.StartContainerRequest(pod=POD, container=CONTAINER))
        until = time.monotonic() + 5
        while not done and time.monotonic() < until:
            time.sleep(0.01)
    assert done == ["c0"], "the task did not outlive its handler"
