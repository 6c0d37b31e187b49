"""The outcome of an update: by waiting, awaiting or a callback."""

from __future__ import annotations

import sys

import pytest

import nri
from nri.api import messages as m
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import START, Names


def test_waiting_for_an_update_in_its_own_handler_raises_at_once() -> None:
    class Waits(Names):
        def start_container(self, pod, container):
            self.runtime.update(nri.Update("c1").set_cpu_shares(5)).result()

    with plugin_thread(Waits()) as running:
        running.runtime.begin()
        assert "do not wait for its outcome in the handler" in running.runtime.call("StartContainer", START).message
        assert running.runtime.request().method == "UpdateContainers", "the update itself is still sent"


def test_an_update_can_be_awaited_from_a_background_task() -> None:
    import asyncio

    results = []

    class Awaits(Names):
        @nri.every(3600)
        async def rebalance(self):
            await asyncio.sleep(0)
            results.append(await self.runtime.update(nri.Update("c1").set_cpu_shares(5)))

    plugin = Awaits()
    from nri.stub.session.background import Background

    background = Background(plugin)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.begin()
        running.runtime.answer(
            running.runtime.request(), m.UpdateContainersResponse(failed=[m.ContainerUpdate(container_id="c1")])
        )
        wait_for(lambda: results, "the await")
        background.stop()
    assert [u.container_id for u in results[0]] == ["c1"]


def test_an_update_can_be_awaited_without_asyncio_outside_of_its_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nri.stub.session.background import Background

    results = []

    class Awaits(Names):
        @nri.every(3600)
        async def rebalance(self):
            results.append(await self.runtime.update(nri.Update("c1").set_cpu_shares(5)))

        async def start_container(self, pod, container):
            await self.runtime.update(nri.Update("c1").set_cpu_shares(5))

    plugin = Awaits()
    background = Background(plugin)
    monkeypatch.delitem(sys.modules, "asyncio", raising=False)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.begin()
        running.runtime.answer(
            running.runtime.request(), m.UpdateContainersResponse(failed=[m.ContainerUpdate(container_id="c1")])
        )
        wait_for(lambda: results, "the await")
        assert "do not wait for its outcome in the handler" in running.runtime.call("StartContainer", START).message
        background.stop()
    assert [u.container_id for u in results[0]] == ["c1"]
    assert "asyncio" not in sys.modules


def test_a_refused_update_is_an_rpc_error() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        running.runtime.answer(running.runtime.request(), code=Code.UNKNOWN, text="no such container")
        with pytest.raises(nri.RpcError, match="no such container"):
            pending.result(5)


def test_a_pending_update_fails_when_the_connection_ends() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        running.runtime.close()
        with pytest.raises(nri.ConnectionClosed):
            pending.result(5)


def test_waiting_for_an_update_has_a_timeout() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        with pytest.raises(nri.DeadlineExceeded):
            plugin.runtime.update(nri.Update("c1")).result(0.05)


def test_a_callback_that_raises_is_logged(caplog) -> None:
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


def test_a_callback_that_raises_at_the_end_does_not_block_other_updates() -> None:
    class Quiet(nri.Plugin):
        def start_container(self, pod, container): ...

    plugin = Quiet()
    message = []
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        plugin.runtime.update(nri.Update("c1")).add_done_callback(lambda pending: 1 // 0)
        plugin.runtime.update(nri.Update("c2")).add_done_callback(lambda pending: message.append(pending.done))
        running.runtime.close()
        assert isinstance(running.ended(), str)
    assert message == [True]


def test_a_callback_of_a_finished_update_is_called_at_once() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        assert pending.result(5) == []
        flags: list[bool] = []
        pending.add_done_callback(lambda pending: flags.append(pending.done))
        assert flags == [True]


def test_the_first_outcome_is_kept() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        assert pending.result(5) == []
        pending.finish([nri.Update("c1")], nri.NriError("too late"))
        assert pending.result(0) == []


def test_awaiting_an_update_in_its_own_handler_raises_at_once() -> None:
    class Awaits(Names):
        async def start_container(self, pod, container):
            await self.runtime.update(nri.Update("c1"))

    with plugin_thread(Awaits()) as running:
        running.runtime.begin()
        assert "do not wait for its outcome in the handler" in running.runtime.call("StartContainer", START).message


def test_a_handler_that_awaits_a_task_with_an_update_gets_an_error() -> None:
    import asyncio

    class Awaits(Names):
        async def start_container(self, pod, container):
            async def ask():
                await self.runtime.update(nri.Update("c1"))

            await asyncio.create_task(ask())

    with plugin_thread(Awaits()) as running:
        running.runtime.begin()
        assert "do not wait for its outcome in the handler" in running.runtime.call("StartContainer", START).message


def test_a_cancelled_await_does_not_cancel_the_update() -> None:
    import asyncio

    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_outcome(pending), 0.02)
            running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
            await pending

        async def _outcome(pending):
            return await pending

        asyncio.run(give_up())
        assert pending.result(0) == []


class Asks(Names):
    """Asks for an update in each handler, and keeps nothing of its outcome."""

    def start_container(self, pod, container):
        self.runtime.update([nri.Update(f"asked{number}").set_cpu_shares(5) for number in range(7)])

    def stop_container(self, pod, container):
        self.runtime.update(nri.Update("asked1").set_cpu_shares(5)).add_done_callback(lambda pending: pending.result())

    def remove_container(self, pod, container):
        self.runtime.evict("asked1", "no room")


_FAILED = m.UpdateContainersResponse(failed=[m.ContainerUpdate(container_id=f"asked{number}") for number in range(7)])


@pytest.mark.parametrize(
    ("method", "failed", "error", "expected"),
    [
        ("StartContainer", _FAILED, None, "asked0, asked1, asked2, asked3, asked4 and 2 more failed"),
        ("StartContainer", None, (Code.UNKNOWN, "no such container"), "no such container"),
        ("RemoveContainer", None, (Code.UNKNOWN, "not allowed"), "request of the plugin for asked1 failed"),
        ("StartContainer", m.UpdateContainersResponse(), None, ""),
        ("StopContainer", _FAILED, None, ""),
    ],
)
def test_a_failed_update_that_the_plugin_ignores_is_logged(
    method: str, failed: object, error: tuple[int, str] | None, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    with plugin_thread(Asks()) as running:
        running.runtime.begin()
        assert not running.runtime.call(method, START).code
        request = running.runtime.request()
        running.runtime.answer(request, failed, *(error or ()))
        wait_for(lambda: not running.plugin.runtime.outstanding, "the outcome")
        if expected:
            wait_for(lambda: "for asked" in caplog.text, "the warning")
    lines = [line for line in caplog.messages if "for asked" in line]  # without those that other tests left behind
    assert [expected in line and "has not read the outcome" in line for line in lines] == [True] * bool(expected)
