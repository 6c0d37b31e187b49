"""Unsolicited updates of plugins."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.registration import update_queue as unsolicited
from nri.adaptation.registration.update_queue import UpdateQueue
from nri.api import messages as m
from nri.errors import RpcError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Code, Request
from nri.ttrpc.envelope import encode_response
from tests.support.adapting import RawPlugin, request, response
from tests.support.waiting import wait_for


class Asks(nri.Plugin):
    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


@pytest.fixture
def plugin(nri_runtime: FakeRuntime) -> Asks:
    asking = Asks()
    for number in range(3):
        nri_runtime.create_container(make_pod(), make_container(id=f"c{number}"))
    nri_runtime.add(asking)
    return asking


def shares(container: str, value: int) -> nri.Update:
    return nri.Update(container).set_cpu_shares(value)


def test_failed_updates_are_returned_to_the_plugin(nri_runtime: FakeRuntime, plugin: Asks) -> None:
    nri_runtime.refuse_updates.add("c1")
    result = plugin.runtime.update(shares("c0", 5), shares("c1", 5)).result(timeout=10)
    assert [update.container_id for update in result] == ["c1"]
    assert nri_runtime.containers["c0"].linux.resources.cpu.shares.value == 5


def test_requests_of_one_plugin_are_applied_in_order(nri_runtime: FakeRuntime, plugin: Asks) -> None:
    pending = [plugin.runtime.update(shares("c0", value)) for value in range(2, 40)]
    for entry in pending:
        entry.result(timeout=10)
    assert [update.cpu_shares for update in nri_runtime.updates] == list(range(2, 40))


@pytest.mark.parametrize("first", ["the answer", "the request"])
def test_a_request_keeps_its_order_relative_to_an_event_reply(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Both arrive at once, and the threads that process them may be slow."""
    raw, accepted = RawPlugin(nri_runtime).join(), []
    (peer,) = parts_of(nri_runtime.adaptation).chain.peers
    updates = parts_of(nri_runtime.adaptation).registry.update_queue.updates
    monkeypatch.setattr(updates, "unsolicited", lambda peer, message, number: accepted.append(number) or [])
    event = threading.Thread(target=nri_runtime.start_container, daemon=True)
    event.start()
    raw.wait_for(b"StartContainer")
    both = [response(5), request("UpdateContainers", m.UpdateContainersRequest(), stream_id=3)]
    raw.sock.sendall(b"".join(both if first == "the answer" else reversed(both)))
    event.join(20)
    wait_for(lambda: len(accepted) == 1, "the request is taken")
    assert (accepted[0] > peer.answer > 0) is (first == "the answer")
    raw.close()


def test_evictions_reach_the_runtime(nri_runtime: FakeRuntime, plugin: Asks) -> None:
    plugin.runtime.evict("c0", "too loud").result(timeout=10)
    assert [(eviction.container_id, eviction.reason) for eviction in nri_runtime.evictions] == [("c0", "too loud")]


def test_an_exception_of_the_runtimes_callback_is_returned_to_the_plugin(
    nri_runtime: FakeRuntime, plugin: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> Any:
        raise RuntimeError("no cgroup")

    monkeypatch.setattr(
        parts_of(nri_runtime.adaptation).registry.update_queue.updates, "unsolicited", lambda *_: refuse(None)
    )
    with pytest.raises(nri.RpcError, match="no cgroup"):
        plugin.runtime.update(shares("c0", 5)).result(timeout=10)


def test_a_callback_that_waits_for_an_event_to_end_does_not_deadlock(nri_runtime: FakeRuntime) -> None:
    """The callback waits for a lock of the event's caller; the plugin sends its request inside that event."""
    lock = threading.Lock()
    applied = threading.Event()
    updates = parts_of(nri_runtime.adaptation).registry.update_queue.updates
    original = updates.unsolicited

    def apply(*requests: Any) -> Any:
        with lock:
            applied.set()
            return original(*requests)

    updates.unsolicited = apply  # type: ignore[method-assign]

    class Inside(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            self.runtime.update(shares("c", 5))

    nri_runtime.create_container(make_pod(), make_container(id="c"))
    nri_runtime.add(Inside())
    with lock:
        nri_runtime.start_container()
        assert not applied.is_set()
    assert applied.wait(10)


def test_a_plugin_that_sends_faster_than_the_runtime_applies_is_refused(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsolicited, "MAX_QUEUED", 3)
    go = threading.Event()
    updates = parts_of(nri_runtime.adaptation).registry.update_queue.updates
    monkeypatch.setattr(updates, "unsolicited", lambda *_: go.wait(10) and [])
    raw = RawPlugin(nri_runtime).join()
    for number in range(6):
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(), stream_id=3 + 2 * number))
    raw.wait_for(b"plugin 10-raw has 3 waiting updates already")
    go.set()
    raw.close()


def test_a_flooding_plugin_does_not_delay_another(nri_runtime: FakeRuntime, plugin: Asks) -> None:
    go = threading.Event()
    queue = parts_of(nri_runtime.adaptation).registry.update_queue
    original = queue.updates.unsolicited

    def unsolicited(peer: Any, *requests: Any) -> Any:
        return (peer.name == "raw" and go.wait(10) and []) or original(peer, *requests)

    queue.updates.unsolicited = unsolicited  # type: ignore[method-assign]
    raw = RawPlugin(nri_runtime).join()
    for number in range(20):
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(), stream_id=3 + 2 * number))
    plugin.runtime.update(shares("c0", 5)).result(timeout=10)
    go.set()
    raw.close()
    wait_for(lambda: not queue.queues, "the queues are empty")


TEXT = "x" * 4000


@pytest.mark.parametrize(
    ("method", "requests", "times"),
    [
        ("UpdateContainers", m.UpdateContainersRequest(update=[m.ContainerUpdate(container_id=TEXT)] * 200), 20),
        ("UpdateContainers", m.UpdateContainersRequest(update=[m.ContainerUpdate()] * 201), 4000),  # too many
        ("RegisterPlugin", m.RegisterPluginRequest(plugin_name=TEXT, plugin_idx="10"), 4000),
    ],
    ids=["updates", "too-many-updates", "registrations"],
)
def test_plugins_that_do_not_read_replies_delay_no_other_plugin(
    nri_runtime: FakeRuntime, plugin: Asks, monkeypatch: pytest.MonkeyPatch, method: str, requests: Any, times: int
) -> None:
    """There are more of them than workers, each has more replies than its socket can buffer, and none reads."""
    monkeypatch.setattr(parts_of(nri_runtime.adaptation).registry.update_queue.updates, "max_entries", lambda: 200)
    silent = [RawPlugin(nri_runtime, f"silent{number}").join() for number in range(unsolicited.MAX_WORKERS + 2)]
    for raw in silent:
        raw.sock.settimeout(0.2)
        for number in range(times):
            try:
                raw.sock.sendall(request(method, requests, stream_id=3 + 2 * number))
            except TimeoutError:
                break
    plugin.runtime.update(shares("c0", 5)).result(timeout=15)  # half of what a connection is given to read its answers
    assert nri_runtime.containers["c0"].linux.resources.cpu.shares.value == 5
    for raw in silent:
        raw.close()


def test_waiting_requests_are_dropped_when_the_runtime_stops() -> None:
    applied: list[Any] = []
    busy, go = threading.Event(), threading.Event()

    def apply(peer: Any, requests: Any, number: int) -> list[m.ContainerUpdate]:
        applied.append(requests)
        busy.set()
        go.wait(10)
        return []

    with FakeRuntime() as runtime:
        queue = parts_of(runtime.adaptation).registry.update_queue
        queue.updates.unsolicited = apply  # type: ignore[method-assign]
        raw = RawPlugin(runtime).join()
        for number in range(3):
            raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(), stream_id=3 + 2 * number))
        wait_for(lambda: busy.is_set() and len(next(iter(queue.queues.values()))) == 2, "two of them wait")
    go.set()
    wait_for(lambda: not queue.workers, "the workers end")
    assert len(applied) == 1
    raw.close()


class Garbage:
    def SerializeToString(self) -> bytes:
        return b"\xff\xff"


def test_an_unreadable_request_is_answered_with_an_error(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime).join()
    raw.sock.sendall(request("UpdateContainers", Garbage(), 3))
    raw.wait_for(b"error unmarshalling payload")
    raw.close()


def test_an_rpc_error_of_the_runtimes_callback_is_the_reply() -> None:
    def refuse(updates: list[m.ContainerUpdate]) -> None:
        raise RpcError(Code.NOT_FOUND, "no such cgroup")

    with FakeRuntime() as runtime:
        runtime.create_container(None, make_container(id="c"))
        parts_of(runtime.adaptation).trail.update = refuse
        raw = RawPlugin(runtime).join()
        update = m.ContainerUpdate(container_id="c")
        update.linux.resources.cpu.shares.value = 5
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(update=[update]), 3))
        raw.wait_for(encode_response(code=Code.NOT_FOUND, message="no such cgroup"))
        raw.close()


def test_a_stopping_runtime_refuses_requests() -> None:
    queue = UpdateQueue(None)  # type: ignore[arg-type]
    queue.stop()
    with pytest.raises(RpcError, match="the runtime is stopping") as caught:
        queue.take(None, Request("s", "m", b""))  # type: ignore[arg-type]
    assert caught.value.code == Code.UNAVAILABLE


def test_an_idle_worker_ends_and_a_new_one_starts_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.adaptation.registration.update_queue.IDLE_S", 0.01)
    with FakeRuntime() as runtime:
        runtime.create_container(None, make_container(id="c"))
        asking = Asks()
        runtime.add(asking)
        queue = parts_of(runtime.adaptation).registry.update_queue
        for shares in (5, 6):
            asking.runtime.update(nri.Update("c").set_cpu_shares(shares)).result(timeout=20)
            wait_for(lambda: queue.workers == 0, "the worker has ended")
        assert [update.cpu_shares for update in runtime.updates] == [5, 6]
