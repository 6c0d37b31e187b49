"""`async def` handlers: waits, exceptions, background tasks and exits."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.stub.handler.coroutines import resolve, run_to_end, start_task, stop_loop
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CONTAINER, CREATE, POD, START, create_reply


def test_an_exit_in_an_async_handler_ends_the_plugin() -> None:
    class Leaves(nri.Plugin):
        async def start_container(self, pod, container):
            sys.exit(7)

    with plugin_thread(Leaves()) as running:
        running.runtime.begin()
        running.runtime.send("StartContainer", START)
        outcome = running.ended()
        assert isinstance(outcome, SystemExit) and outcome.code == 7, repr(outcome)


def test_an_exit_in_a_task_does_not_end_the_event_loop() -> None:
    tasks: list[asyncio.Task[None]] = []

    class Spawns(nri.Plugin):
        async def start_container(self, pod, container):
            async def leave():
                sys.exit(7)

            tasks.append(asyncio.ensure_future(leave()))
            await asyncio.sleep(0.01)

    with plugin_thread(Spawns()) as running:
        running.runtime.begin()
        for _ in range(2):
            assert not running.runtime.call("StartContainer", START).code, "the loop is dead"
    # Looked at here: else the collector logs it in the middle of some other test, which Python 3.11 takes badly where
    # that test compiles ("AST constructor recursion depth mismatch").
    assert [type(task.exception()) for task in tasks] == [SystemExit, SystemExit]


def test_an_async_handler_can_wait() -> None:
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
        assert running.runtime.call("CreateContainer", CREATE).message == "plugin 10-fails refused: later"


def test_a_background_task_of_an_async_handler_continues() -> None:
    finished = []

    class Spawns(nri.Plugin):
        async def start_container(self, pod, container):
            async def later():
                await asyncio.sleep(0.05)
                finished.append(container.id)

            self.task = asyncio.create_task(later())

    with plugin_thread(Spawns()) as running:
        running.runtime.begin()
        running.runtime.call("StartContainer", m.StartContainerRequest(pod=POD, container=CONTAINER))
        until = time.monotonic() + 5
        while not finished and time.monotonic() < until:
            time.sleep(0.01)
    assert finished == ["c0"], "the task did not outlive its handler"


# Without asyncio: these plugins never import it, so a coroutine is stepped by hand.


class Elsewhere:
    """Something to wait for that belongs to no loop."""

    def __await__(self):
        yield self


@pytest.fixture
def no_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "asyncio")


async def adds(a: int, b: int) -> int:
    return a + b


@pytest.mark.usefixtures("no_asyncio")
def test_without_asyncio_a_coroutine_without_waits_runs() -> None:
    assert run_to_end(adds(1, 2)) == 3
    assert resolve(adds(1, 2)) == 3
    assert "asyncio" not in sys.modules


@pytest.mark.usefixtures("no_asyncio")
def test_without_asyncio_an_exception_of_a_coroutine_is_raised() -> None:
    async def fails() -> None:
        raise RuntimeError("its own")

    with pytest.raises(RuntimeError, match="its own"):
        run_to_end(fails())


@pytest.mark.usefixtures("no_asyncio")
def test_without_asyncio_a_waiting_coroutine_is_an_error_with_the_import() -> None:
    async def waits() -> None:
        await Elsewhere()

    async def uses_asyncio() -> None:
        raise RuntimeError("no running event loop")

    with pytest.raises(nri.NriError, match="import asyncio at the top"):
        run_to_end(waits())
    with pytest.raises(nri.NriError, match="this handler uses asyncio: import asyncio at the top"):
        run_to_end(uses_asyncio())


def test_a_value_that_is_not_a_coroutine_is_returned() -> None:
    assert resolve(5) == 5
    assert resolve(None) is None


def test_stopping_the_loop_cancels_its_tasks_and_the_next_task_starts_a_new_loop() -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    task = start_task(for_ever())
    run_to_end(adds(1, 2))  # the loop has begun with the first task by now
    stop_loop()
    assert ended == ["cancelled"] and task.cancelled()
    stop_loop()  # no effect: the loop has already stopped
    assert run_to_end(adds(1, 2)) == 3


def test_a_task_that_ignores_cancellation_is_abandoned() -> None:
    entries: list[Any] = []

    async def stubborn() -> None:
        entries.append(asyncio.current_task())
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    start_task(stubborn())
    run_to_end(adds(1, 2))
    began = time.monotonic()
    stop_loop(0.2)
    assert time.monotonic() - began < 30, "the end waits for a task that never ends"
    entries[0]._log_destroy_pending = False  # else asyncio complains of it when the tests end
