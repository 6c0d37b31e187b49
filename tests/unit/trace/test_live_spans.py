"""Spans of a running process, as a collector receives them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from nri.api import messages as m
from nri.errors import PluginTimeout
from nri.trace import live_spans
from nri.trace.live_spans import SpanExporter
from tests.support.collector import Collector
from tests.support.waiting import wait_for

REQUEST = m.CreateContainerRequest(
    pod=m.PodSandbox(id="p1", name="web", namespace="shop", uid="u"), container=m.Container(id="c1", name="app")
).SerializeToString()
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector_:
        yield collector_


@pytest.fixture
def exporter(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[SpanExporter]:
    monkeypatch.setattr(live_spans, "SEND_S", 0.02)
    exporter_ = SpanExporter(collector.endpoint + "/", "nri-engine")
    try:
        yield exporter_
    finally:
        exporter_.close()


def report(exporter: SpanExporter, serial: int = 1, *, fails: bool = False) -> None:
    """An event with two plugins; the second one may fail it."""
    exporter.event_begins("CreateContainer", serial, REQUEST)
    exporter.plugin_asked("10-a", "CreateContainer", serial, REQUEST)
    exporter.plugin_answered("10-a", "CreateContainer", serial, b"", 0.001)
    exporter.reply_merged("10-a", "CreateContainer", serial, ValueError("a conflict") if fails else None)
    exporter.plugin_asked("20-b", "CreateContainer", serial, REQUEST)
    error = PluginTimeout("20-b", "no answer") if fails else None
    if error:
        exporter.plugin_failed("20-b", "CreateContainer", serial, error, 0.002)
    else:
        exporter.plugin_answered("20-b", "CreateContainer", serial, b"", 0.002)
    exporter.event_ends("CreateContainer", serial, b"", error, 0.004)


def attributes(part: dict[str, Any]) -> dict[str, str]:
    return {row["key"]: row["value"]["stringValue"] for row in part["attributes"]}


def test_a_call_its_event_and_the_calls_of_plugins_are_one_trace(collector: Collector, exporter: SpanExporter) -> None:
    exporter.start()
    with exporter.call("/runtime.v1.RuntimeService/CreateContainer", PARENT):
        report(exporter)
    wait_for(lambda: len(collector.spans) == 4, "the spans")
    spans = {span["name"]: span for span in collector.spans}
    call, event = spans["runtime.v1.RuntimeService/CreateContainer"], spans["CreateContainer"]
    first, second = spans["10-a CreateContainer"], spans["20-b CreateContainer"]
    assert {span["traceId"] for span in collector.spans} == {PARENT[3:35]}
    assert [span["parentSpanId"] for span in (call, event, first, second)] == [
        PARENT[36:52], call["spanId"], event["spanId"], event["spanId"],
    ]  # fmt: skip
    assert len({span["spanId"] for span in collector.spans}) == 4
    assert call["kind"] == 2 and call["status"] == {}
    assert attributes(event)["k8s.pod.name"] == "web" and attributes(first)["nri.plugin"] == "10-a"
    assert attributes(collector.resources[0])["service.name"] == "nri-engine"
    assert int(event["endTimeUnixNano"]) - int(event["startTimeUnixNano"]) == 4_000_000
    assert collector.paths == {"/v1/traces"}


def test_failures_are_in_the_status(collector: Collector, exporter: SpanExporter) -> None:
    with exporter.call("/a.B/C") as call:
        report(exporter, fails=True)
        call.fault = "NOT_FOUND: no pod"
    exporter.start()
    exporter.close()  # sends the rest
    status = {span["name"]: span["status"].get("message") for span in collector.spans}
    assert status.pop("CreateContainer") and "no answer" in status.pop("20-b CreateContainer")
    assert status == {"a.B/C": "NOT_FOUND: no pod", "10-a CreateContainer": "a conflict"}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00-short-x-01",
        PARENT.upper(),
        f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-{PARENT[36:]}",
        f"{PARENT[:36]}{'0' * 16}-01",
    ],
)
def test_without_a_parent_each_call_is_a_trace(collector: Collector, exporter: SpanExporter, parent: str) -> None:
    for _ in range(2):
        with exporter.call("/a.B/C", parent):
            pass
    report(exporter)  # outside of a call
    exporter.start()
    exporter.close()
    calls = [span for span in collector.spans if span["name"] == "a.B/C"]
    assert len({span["traceId"] for span in collector.spans}) == 3
    assert not [span for span in calls if "parentSpanId" in span]


def test_a_call_that_the_client_does_not_sample_has_no_spans(collector: Collector, exporter: SpanExporter) -> None:
    with exporter.call("/a.B/C", PARENT[:-2] + "00"):
        report(exporter)
    report(exporter, 2)
    exporter.start()
    exporter.close()
    assert collector.spans[0]["name"] == "CreateContainer" and len(collector.spans) == 3


def test_spans_wait_for_a_collector_that_fails_for_a_while(
    collector: Collector, exporter: SpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    collector.statuses = [503, 429]
    report(exporter)
    exporter.start()
    wait_for(lambda: len(collector.spans) == 3, "the spans")
    assert caplog.text.count("spans cannot be sent") == 1 and "status 503; 0 spans" in caplog.text
    collector.statuses = [400]
    report(exporter, 2)
    wait_for(lambda: not collector.statuses, "the refusal")
    report(exporter, 3)
    wait_for(lambda: len(collector.spans) == 6, "the next spans")


def test_without_a_collector_a_bounded_number_of_spans_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live_spans, "MAX_WAITING_SPANS", 6)
    monkeypatch.setattr(live_spans, "MAX_OPEN_EVENTS", 1)
    exporter = SpanExporter("https://127.0.0.1:1", "x")
    exporter.event_begins("CreateContainer", 7, REQUEST)
    exporter.event_begins("CreateContainer", 8, REQUEST)
    exporter.event_ends("CreateContainer", 8, b"", None, 0.0)
    exporter.event_ends("CreateContainer", 7, b"", None, 0.0)
    for serial in (1, 2, 3):
        report(exporter, serial)
    exporter.start()
    exporter.close()
    assert "https://127.0.0.1:1/v1/traces: " in caplog.text and "6 spans were dropped" in caplog.text


def test_an_event_that_has_ended_keeps_no_request_in_memory() -> None:
    request = bytes(bytearray(REQUEST))
    exporter, references = SpanExporter("http://127.0.0.1:1", "x"), sys.getrefcount(request)
    exporter.event_begins("CreateContainer", 1, request)
    assert sys.getrefcount(request) > references
    exporter.event_ends("CreateContainer", 1, b"", None, 0.0)
    assert sys.getrefcount(request) == references


def test_an_exporter_that_never_started_can_be_closed() -> None:
    SpanExporter("http://127.0.0.1:1", "x").close()
