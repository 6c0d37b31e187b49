"""The queue of unsolicited updates: limited in bytes, and robust against the runtime's return values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from nri.adaptation.registration.update_queue import MAX_QUEUED_BYTES, UpdateQueue
from nri.api import messages as m
from nri.errors import RpcError
from nri.ttrpc import Code, Request

PAYLOAD = m.UpdateContainersRequest(update=[m.ContainerUpdate(container_id="c0")]).SerializeToString()


class PluginUpdates:
    """In place of what applies updates."""

    def __init__(self, unsolicited: Callable[..., Any]) -> None:
        self.unsolicited = unsolicited

    def max_entries(self) -> int:
        return 0


class Peer:
    """Takes down what it is answered."""

    label = qualified = "10-test"

    def __init__(self) -> None:
        self.endpoint = self
        self.answers: list[object] = []
        self.answered = threading.Semaphore(0)

    def reply(self, request: Request, payload: bytes, *, patient: bool) -> None:
        self.answers.append(payload)
        self.answered.release()

    def reply_error(self, request: Request, code: int, message: str, *, patient: bool) -> None:
        self.answers.append(message)
        self.answered.release()


def request(payload: bytes = PAYLOAD) -> Request:
    return Request("nri.pkg.api.v1alpha1.Runtime", "UpdateContainers", payload)


def test_an_invalid_return_value_of_the_runtime_does_not_stop_the_queue() -> None:
    returned: list[Any] = [["nonsense"], []]
    updates = UpdateQueue(PluginUpdates(lambda *_: returned.pop(0)))  # type: ignore[arg-type]
    peer: Any = Peer()
    for _ in range(2):
        updates.take(peer, request())
        assert peer.answered.acquire(timeout=10), f"not answered: {peer.answers}"
    updates.stop()
    assert peer.answers[1] == b"", peer.answers


def test_waiting_requests_are_limited_in_bytes() -> None:
    go = threading.Event()

    def apply(*_: object) -> list[m.ContainerUpdate]:
        go.wait(10)
        return []

    updates = UpdateQueue(PluginUpdates(apply))  # type: ignore[arg-type]
    peer: Any = Peer()
    big = m.UpdateContainersRequest(update=[m.ContainerUpdate(container_id="x" * (4 << 20))]).SerializeToString()
    accepted = MAX_QUEUED_BYTES // len(big) + 1  # one of them is at work, and does not wait any more
    updates.take(peer, request(big))
    while updates.queues[peer]:
        threading.Event().wait(0.005)
    for _ in range(accepted - 1):
        updates.take(peer, request(big))
    with pytest.raises(RpcError) as refused:
        updates.take(peer, request(big))
    assert refused.value.code == Code.RESOURCE_EXHAUSTED
    go.set()
    for _ in range(accepted):
        assert peer.answered.acquire(timeout=10)
    updates.stop()


def test_two_concurrent_plugins_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one idle worker: it takes one of the two requests, so the other needs another worker."""
    go, both = threading.Event(), threading.Barrier(3)

    def apply(*_: object) -> list[m.ContainerUpdate]:
        if go.is_set():
            both.wait(10)
        return []

    lock = threading.RLock()
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Lock", lambda: lock)
        updates = UpdateQueue(PluginUpdates(apply))  # type: ignore[arg-type]
    first: Any = Peer()
    second: Any = Peer()
    updates.take(first, request())
    assert first.answered.acquire(timeout=10)
    while not updates.idle:
        threading.Event().wait(0.005)
    go.set()
    with lock:  # both arrive before the worker wakes
        updates.take(first, request())
        updates.take(second, request())
    both.wait(10)
    updates.stop()


def test_a_request_is_refused_without_a_free_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[object] = []
    updates = UpdateQueue(PluginUpdates(lambda peer, *_: applied.append(peer) or []))  # type: ignore[arg-type]
    peer: Any = Peer()

    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        for _ in range(5):
            with pytest.raises(RpcError) as refused:
                updates.take(peer, request())
            assert refused.value.code == Code.RESOURCE_EXHAUSTED
    updates.take(peer, request())
    assert peer.answered.acquire(timeout=10), "threads that could not be started count as workers"
    assert applied == [peer], "a request that was refused was applied"
    updates.stop()
