"""Recorded events as JSON documents, and their outcomes as texts."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.trace.allowance import Allowance
from nri.trace.document import event_document, outcome, time_text
from nri.trace.history import Event, Step
from nri.trace.message_json import MAX_STEPS
from nri.trace.pb import api_pb2 as t

REQUEST = m.StopContainerRequest(container=m.Container(id="c1")).SerializeToString()
REPLY = m.StopContainerResponse(update=[m.ContainerUpdate(container_id="c2")]).SerializeToString()
BEGAN_NS = 1_000_000_000 * 10**9 + 1_234_567


def make_event(steps: int, allowance: Allowance | None = None) -> Event:
    """An event of plugins that have not answered."""
    event = Event("StopContainer", 7, 1, BEGAN_NS, allowance)
    event.request, event.whole = REQUEST, True
    for number in range(steps):
        event.add(Step(f"{number:02}-a", "StopContainer", REQUEST, BEGAN_NS))
    return event


def test_a_time_is_in_utc_with_microseconds() -> None:
    assert time_text(BEGAN_NS) == "2001-09-09T01:46:40.001234Z"


def test_an_outcome_is_the_events_error_or_the_first_plugin_errors() -> None:
    event = make_event(4)
    assert outcome(event, 2) == "ok"
    event.whole = False
    assert outcome(event, 2) == "incomplete"
    event.steps[1].error = t.Error(text="it was late")
    event.steps[2].refused = t.Error(text="conflict")
    event.steps[3].error = t.Error(text="the third")
    assert outcome(event, 2) == "01-a: it was late; 02-a: conflict"
    event.error = t.Error(text="the event was rejected")
    assert outcome(event, 2) == "the event was rejected"


def test_a_document_has_the_messages_and_errors_of_an_event_and_its_steps() -> None:
    event = make_event(2)
    event.duration_ns, event.reply = 2_500_000, REPLY
    event.error = t.Error(kind="PluginRejected", text="no", code=7, plugin="01-a")
    first, second = event.steps
    first.reply, first.merged, first.duration_ns = REPLY, True, 1_500_000
    second.error, second.refused = t.Error(kind="PluginTimeout", text="late"), t.Error(kind="ConflictError")
    request, reply = {"container": {"id": "c1"}}, {"update": [{"containerId": "c2"}]}
    step = {"event": "StopContainer", "request": request}
    timeout = {"kind": "PluginTimeout", "text": "late", "code": 0, "plugin": ""}
    assert event_document(event) == {
        "time": "2001-09-09T01:46:40.001234Z",
        "event": "StopContainer",
        "serial": 7,
        "recording": 1,
        "duration_ms": 2.5,
        "whole": True,
        "redacted": False,
        "request": request,
        "plugins": [
            {**step, "plugin": "00-a", "duration_ms": 1.5, "reply": reply, "merged": True, "error": None,
             "refused": None},
            {**step, "plugin": "01-a", "duration_ms": 0.0, "reply": None, "merged": False, "error": timeout,
             "refused": {"kind": "ConflictError", "text": "", "code": 0, "plugin": ""}},
        ],
        "reply": reply,
        "error": {"kind": "PluginRejected", "text": "no", "code": 7, "plugin": "01-a"},
    }  # fmt: skip


@pytest.mark.parametrize(("more", "left_out"), [(0, []), (1, ["step"])])
def test_steps_above_the_limit_of_a_document_are_skipped_and_counted(more: int, left_out: list[str]) -> None:
    kinds: list[str] = []
    document = event_document(make_event(MAX_STEPS + more, Allowance(kinds.append)))
    assert len(document["plugins"]) == MAX_STEPS and kinds == left_out
