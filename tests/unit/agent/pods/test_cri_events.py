"""Events of a runtime, with a scripted server. Real runtimes: tests/agent and tests/kubernetes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.agent.pods import cri_events
from nri.agent.pods.cri import CriPods
from nri.agent.pods.cri_events import CriEvents
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings
from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer
from tests.support.waiting import wait_for


class Runtime(CriServer):
    """A runtime that sends one event to each subscriber once `may` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.may = threading.Event()

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.asked[method] += 1
        if method == "Version":
            return pb.VersionResponse(runtime_name="containerd")
        if method == "GetContainerEvents":
            while not self.may.wait(0.01):
                if not context.is_active():
                    break
            return pb.ContainerEventResponse(container_id="c1")
        return super().answer(method, request, context)


def test_an_event_is_reported_even_if_the_runtime_starts_later(tmp_path: Path) -> None:
    notified = threading.Semaphore(0)
    events = CriEvents(str(tmp_path / "cri.sock"), notified.release)
    events.start()
    events.start()
    runtime = Runtime()
    runtime.may.set()
    with runtime.listening(tmp_path / "cri.sock"):
        assert notified.acquire(timeout=20)
    events.stop()
    events.stop()


def test_stop_does_not_wait_for_the_next_event(tmp_path: Path) -> None:
    runtime = Runtime()
    with runtime.listening(tmp_path / "cri.sock"):
        events = CriEvents(str(tmp_path / "cri.sock"), lambda: None)
        events.start()
        wait_for(lambda: runtime.asked["GetContainerEvents"])
        begun = time.monotonic()
        events.stop()
        assert time.monotonic() - begun < 5


def test_a_runtime_without_events_is_not_called_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, collected = Runtime(), []

    def answer(method: str, request: Any, context: grpc.ServicerContext) -> Any:
        runtime.asked[method] += 1
        return context.abort(grpc.StatusCode.UNIMPLEMENTED, "no events")

    monkeypatch.setattr(runtime, "answer", answer)
    with runtime.listening(tmp_path / "cri.sock"):
        events = CriEvents(str(tmp_path / "cri.sock"), lambda: collected.append(1))
        events.start()
        wait_for(lambda: runtime.asked["GetContainerEvents"])
        time.sleep(0.2)
        assert (runtime.asked["GetContainerEvents"], collected) == (1, [])
        events.stop()
        monkeypatch.setattr(cri_events, "LATER_S", 0.01)
        events.start()
        wait_for(lambda: runtime.asked["GetContainerEvents"] >= 2)
        events.stop()


def test_an_event_triggers_a_query_of_pods_before_the_interval_ends(tmp_path: Path) -> None:
    runtime = Runtime()
    with runtime.listening(tmp_path / "cri.sock"):
        source = CriPods(AgentSettings(pods=PodSettings(cri=str(tmp_path / "cri.sock"), interval=600.0)))
        source.start()
        wait_for(lambda: source.synced and runtime.asked["GetContainerEvents"])
        runtime.add_pod("p1", "web")
        assert source.pods() == []
        runtime.may.set()
        wait_for(source.pods)
        source.stop()


def test_an_unexpected_error_in_the_callback_does_not_end_the_listener(tmp_path: Path) -> None:
    notified = threading.Semaphore(0)

    def broken() -> None:
        notified.release()
        raise LookupError("no such pod")

    runtime = Runtime()
    runtime.may.set()
    with runtime.listening(tmp_path / "cri.sock"):
        events = CriEvents(str(tmp_path / "cri.sock"), broken)
        events.start()
        for _ in range(2):
            assert notified.acquire(timeout=20)
        events.stop()
