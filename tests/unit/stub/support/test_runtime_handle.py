"""Updates and evictions that a plugin requests outside of answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.api.naming import RUNTIME_SERVICE_CONN
from nri.mux import frames as mux
from nri.stub.support.runtime_handle import MAX_PENDING, RuntimeHandle
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_response
from tests.support.plugin_thread import plugin_thread
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import START, Names


def test_an_update_outside_of_handlers_is_sent_at_once() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1").set_cpu_shares(5))
        assert plugin.runtime.outstanding == 1
        request = running.runtime.request()
        sent = m.UpdateContainersRequest.FromString(request.payload)
        running.runtime.answer(request, m.UpdateContainersResponse(failed=sent.update))
        wait_for(lambda: not plugin.runtime.outstanding, "the answer")
        assert request.method == "UpdateContainers"
        assert pending.result(5) == [nri.Update("c1").set_cpu_shares(5)]


def test_updates_without_values_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        plugin.runtime.update(nri.Update("c1"), nri.Update("c2"), nri.Update("c3").set_cpu_shares(5))
        plugin.runtime.update(nri.Update("c2"))
    (text,) = [text for text in caplog.messages if "without values" in text]
    assert text.startswith("plugin 10-names requests an update of container c1 without values, which has no effect")


def test_an_update_in_a_handler_is_sent_after_the_reply() -> None:
    results = []

    class Updates(Names):
        def start_container(self, pod, container):
            pending = self.runtime.update(nri.Update("c1").set_cpu_shares(5))
            pending.add_done_callback(lambda p: results.append(p.result()))

    with plugin_thread(Updates()) as running:
        running.runtime.begin()
        data = running.runtime.call("StartContainer", START)
        assert not data.code
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        wait_for(lambda: results, "the callback of the update")
    assert results == [[]]


@pytest.mark.parametrize("pause_s", [None, 0.0, 0.02])
def test_an_update_of_a_task_that_outlives_its_handler_is_sent(pause_s: float | None) -> None:
    import asyncio

    results = []

    class LeavesBehind(Names):
        async def start_container(self, pod, container):
            async def later():
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
                results.append(await self.runtime.update(nri.Update("c1").set_cpu_shares(5)))

            self.task = asyncio.create_task(later())
            await asyncio.sleep(0.01)  # so that it begins to wait while this handler is at work

    with plugin_thread(LeavesBehind()) as running:
        running.runtime.begin()
        assert not running.runtime.call("StartContainer", START).code
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        wait_for(lambda: results, "the answer")
    assert results == [[]]


def test_updates_without_a_connection_or_a_container_are_errors() -> None:
    plugin = Names()
    with pytest.raises(nri.ConnectionClosed):
        plugin.runtime.update(nri.Update("c1"))
    with pytest.raises(nri.NriError, match="has no container id"):
        plugin.runtime.update(m.ContainerUpdate())
    with pytest.raises(nri.NriError, match="has no container id"):
        plugin.runtime.evict("", "why")


@pytest.mark.parametrize(
    ("argument", "reason"),
    [(("c1", "too greedy"), "too greedy"), ((m.Container(id="c1"),), "")],
    ids=["id", "container"],
)
def test_an_eviction_reaches_the_runtime(argument: tuple[Any, ...], reason: str) -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        plugin.runtime.evict(*argument)
        sent = m.UpdateContainersRequest.FromString(running.runtime.request().payload)
        assert (sent.evict[0].container_id, sent.evict[0].reason) == ("c1", reason)


ONE, TWO = nri.Update("c1").set_cpu_shares(5), nri.Update("c2").set_cpu_shares(6)


@pytest.mark.parametrize(
    "argument",
    [(ONE, TWO), ([ONE, TWO],), ((ONE, TWO.message),), ({1: ONE, 2: TWO}.values(),), (iter([ONE, TWO]),)],
    ids=["two", "list", "tuple", "view", "iterator"],
)
def test_updates_can_be_passed_separately_or_as_a_list(argument: tuple[Any, ...]) -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        plugin.runtime.update(*argument)
        sent = m.UpdateContainersRequest.FromString(running.runtime.request().payload)
        assert list(sent.update) == [ONE.message, TWO.message]


def test_an_empty_list_of_updates_is_done_without_a_request() -> None:
    pending = RuntimeHandle().update([])
    assert pending.done and pending.result(0) == []


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("c1", r"takes nri.Update objects, not str: write nri.Update('c1')"),
        (["c1"], r"takes nri.Update objects, not str: write nri.Update('c1')"),
        (nri.Adjustment(), "takes nri.Update objects, not Adjustment"),
        (nri.Eviction("c1"), "not Eviction: request it with runtime.evict()"),
        (5, "takes nri.Update objects, not int"),
    ],
    ids=["id", "ids", "adjustment", "eviction", "number"],
)
def test_a_wrong_argument_of_update_is_an_error_with_the_right_form(argument: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        RuntimeHandle().update(argument)


def test_a_wrong_argument_of_evict_is_an_error_with_the_right_form() -> None:
    with pytest.raises(TypeError, match=r"takes a container or its id, not Update: write evict\(container, reason\)"):
        RuntimeHandle().evict(ONE)  # type: ignore[arg-type]


def test_a_runtime_without_timeouts_has_the_default_timeouts() -> None:
    handle = RuntimeHandle()
    handle.introduce(m.ConfigureRequest(runtime_name="containerd", runtime_version="v2.2.0"))
    assert (handle.name, handle.version, handle.nri_version) == ("containerd", "v2.2.0", "v0.10.0")
    assert (handle.registration_timeout_s, handle.request_timeout_s) == (5.0, 2.0)
    handle.introduce(m.ConfigureRequest(registration_timeout=1500, request_timeout=250, NRI_version="v0.12.5"))
    assert (handle.registration_timeout_s, handle.request_timeout_s) == (1.5, 0.25)
    assert handle.nri_version == "v0.12.5"


def test_too_many_unanswered_updates_are_refused() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        for _ in range(MAX_PENDING):
            plugin.runtime.update(nri.Update("c1"))
        with pytest.raises(nri.NriError, match=f"{MAX_PENDING} updates wait"):
            plugin.runtime.update(nri.Update("c1"))
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        wait_for(lambda: plugin.runtime.outstanding < MAX_PENDING, "the answer")
        plugin.runtime.update(nri.Update("c1"))


@pytest.mark.parametrize(
    ("answer", "text"),
    [(b"\xff\xff", "answer cannot be read"), (b"\x0a\x00" * 10_000, "answer is too long: 20000 bytes")],
)
def test_an_invalid_reply_is_an_error_of_the_update(answer: bytes, text: str) -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        request = running.runtime.request()
        data = encode_response(answer, 0, "")
        running.runtime.raw(mux.cut(RUNTIME_SERVICE_CONN, frames.pack(request.stream_id, frames.RESPONSE, data)))
        with pytest.raises(nri.NriError, match=f"the runtime's {text}"):
            pending.result(10)


def test_a_reason_that_is_not_a_string_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"takes the reason as text, not ValueError"):
        RuntimeHandle().evict("c1", ValueError("too big"))  # type: ignore[arg-type]
