"""A reporter receives every step of every request with its bytes, and cannot affect the plugin."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.stub.session.session import Session
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import ADJUSTMENT, CONTAINER, CREATE, POD, START, Names, creates

STOP = m.StopContainerRequest(pod=POD, container=CONTAINER)


class Recorder:
    """Keeps the reported steps, without the numbers that differ from run to run."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, ...]] = []
        self.serials: list[int] = []
        self.durations_s: list[float] = []

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        self.serials.append(serial)
        self.steps.append(("begins", event, request))

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        assert serial == self.serials[-1], "a step of another event came in between"
        self.steps.append(("asked", plugin, event, request))

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        assert serial == self.serials[-1], "a step of another event came in between"
        self.durations_s.append(duration_s)
        self.steps.append(("answered", plugin, event, reply))

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        assert serial == self.serials[-1], "a step of another event came in between"
        self.durations_s.append(duration_s)
        self.steps.append(("failed", plugin, event, error))

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        raise AssertionError("nothing is merged on this side")

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        assert serial == self.serials[-1], "a step of another event came in between"
        self.durations_s.append(duration_s)
        self.steps.append(("ends", event, reply, error))

    def of(self, event: str) -> list[tuple[Any, ...]]:
        """The steps of one event, once its end is reported."""
        wait_for(lambda: any(step[:2] == ("ends", event) for step in self.steps), f"the end of {event}")
        return [step for step in self.steps if event in step[:3]]


def test_every_step_of_an_event_is_reported_in_order_with_its_bytes() -> None:
    recorder = Recorder()
    request = CREATE.SerializeToString()
    with plugin_thread(creates(ADJUSTMENT), reporter=recorder) as running:
        running.runtime.begin()
        reply = running.runtime.call("CreateContainer", CREATE).payload
        assert m.CreateContainerResponse.FromString(reply).adjust == ADJUSTMENT.message
        assert recorder.of("CreateContainer") == [
            ("begins", "CreateContainer", request),
            ("asked", "10-answers", "CreateContainer", request),
            ("answered", "10-answers", "CreateContainer", reply),
            ("ends", "CreateContainer", reply, None),
        ]


def test_calls_other_than_events_are_reported() -> None:
    recorder = Recorder()
    with plugin_thread(Names(), reporter=recorder) as running:
        running.runtime.register()
        reply = running.runtime.configure("text").payload
        running.runtime.call("Synchronize", m.SynchronizeRequest())
        running.runtime.call("Shutdown")
        recorder.of("Shutdown")
    begun = [step[1] for step in recorder.steps if step[0] == "begins"]
    assert begun == ["Configure", "Synchronize", "Shutdown"]
    assert m.ConfigureRequest.FromString(recorder.of("Configure")[0][2]).config == "text"
    assert recorder.of("Configure")[-1] == ("ends", "Configure", reply, None)


def test_an_exception_of_a_handler_is_reported() -> None:
    error = nri.Reject("not here")

    def refuse():
        raise error

    recorder = Recorder()
    with plugin_thread(creates(refuse), reporter=recorder) as running:
        running.runtime.begin()
        assert running.runtime.call("CreateContainer", CREATE).code == Code.PERMISSION_DENIED
        steps = recorder.of("CreateContainer")
    assert steps[2:] == [("failed", "10-answers", "CreateContainer", error), ("ends", "CreateContainer", b"", error)]


def test_a_validators_refusal_is_reported_as_an_answer() -> None:
    class Refuses(nri.Plugin):
        def validate_container_adjustment(self, request):
            raise nri.Reject("no")

    recorder = Recorder()
    with plugin_thread(Refuses(), reporter=recorder) as running:
        running.runtime.begin()
        running.runtime.call("ValidateContainerAdjustment", m.ValidateContainerAdjustmentRequest(pod=POD))
        steps = recorder.of("ValidateContainerAdjustment")
    refusal = m.ValidateContainerAdjustmentResponse(reject=True, reason="no").SerializeToString()
    assert steps[2:] == [
        ("answered", "10-refuses", "ValidateContainerAdjustment", refusal),
        ("ends", "ValidateContainerAdjustment", refusal, None),
    ]


def test_an_event_without_a_handler_reports_only_start_and_end() -> None:
    recorder = Recorder()
    with plugin_thread(Names(), reporter=recorder) as running:
        running.runtime.begin()
        running.runtime.call("StopContainer", STOP)
        assert recorder.of("StopContainer") == [
            ("begins", "StopContainer", STOP.SerializeToString()),
            ("ends", "StopContainer", b"", None),
        ]


def test_an_event_inside_a_state_change_is_reported_once() -> None:
    class Old(nri.Plugin):
        def start_container(self, pod, container): ...

    change = m.StateChangeEvent(event=m.Event.START_CONTAINER, pod=POD, container=CONTAINER)
    recorder = Recorder()
    with plugin_thread(Old(), reporter=recorder) as running:
        running.runtime.begin(nri="")
        running.runtime.call("StateChange", change)
        steps = recorder.of("StateChange")
    data = change.SerializeToString()
    assert steps == [
        ("begins", "StateChange", data),
        ("asked", "10-old", "StateChange", data),
        ("answered", "10-old", "StateChange", b""),
        ("ends", "StateChange", b"", None),
    ]
    assert not [step for step in recorder.steps if "StartContainer" in step]


def test_calls_outside_of_nri_are_not_reported() -> None:
    recorder = Recorder()
    with plugin_thread(Names(), reporter=recorder) as running:
        running.runtime.begin()
        assert running.runtime.call("Frobnicate", b"").code == Code.UNIMPLEMENTED
        assert running.runtime.call("CreateContainer", CREATE, service="someone.else").code == Code.UNIMPLEMENTED
        running.runtime.call("StopContainer", STOP)
        recorder.of("StopContainer")
    begun = [step[1] for step in recorder.steps if step[0] == "begins"]
    assert begun == ["Configure", "Synchronize", "StopContainer"]


def test_events_are_numbered_across_connections_and_durations_are_seconds() -> None:
    recorder = Recorder()
    for _ in range(2):
        with plugin_thread(Names(), reporter=recorder) as running:
            running.runtime.begin()
            running.runtime.call("CreateContainer", CREATE)
    assert len(recorder.serials) == len(set(recorder.serials)) == 6
    assert recorder.serials == sorted(recorder.serials)
    assert recorder.durations_s and all(0 <= duration_s < 10 for duration_s in recorder.durations_s)


def test_the_end_is_reported_after_the_reply_was_sent() -> None:
    arrived = threading.Event()
    observed: list[bool] = []

    class Waits(Recorder):
        def event_ends(self, event: str, *what: Any) -> None:
            if event == "CreateContainer":
                observed.append(arrived.wait(10))

    with plugin_thread(Names(), reporter=Waits()) as running:
        running.runtime.begin()
        assert not running.runtime.call("CreateContainer", CREATE).code
        arrived.set()
        wait_for(lambda: observed, "the end")
    assert observed == [True], "the end was reported before the reply was sent"


def test_a_failing_reporter_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: object) -> None:
                raise OSError("disk full")

            return fail

    class Both(Names):
        def start_container(self, pod, container):
            raise KeyError("zone")

    with plugin_thread(Both(), reporter=Broken()) as running:
        running.runtime.begin()
        for _ in range(3):
            response = running.runtime.call("CreateContainer", CREATE)
            assert m.CreateContainerResponse.FromString(response.payload).adjust.env[0].value == "web"
        assert running.runtime.call("StartContainer", START).message.endswith("KeyError: 'zone'"), (
            "the handler's error, not the other"
        )
        running.runtime.call("StopContainer", STOP)
    lines = [record for record in caplog.records if "the reporter failed" in record.getMessage()]
    assert len(lines) == 1 and "disk full" in caplog.text


def test_a_reporter_without_the_methods_is_refused_at_construction() -> None:
    near_end, far_end = socket.socketpair()
    with near_end, far_end, pytest.raises(AttributeError, match="event_begins"):
        Session(Names(), near_end, index="10", reporter=object())
