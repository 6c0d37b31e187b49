"""Exported events, for viewers of traces and collectors of spans."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

import nri
from nri.errors import PluginRejected
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.export import chrome, otlp
from nri.trace.history import Event, Step, Trace
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Recorder

SECRET = "S3CRET"


class Sets(nri.Plugin):
    """Sets one variable, and refuses containers called bad."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if container.name == "bad":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("PW", SECRET)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """A creation by two plugins, and one that the first of them refuses; no value is replaced."""
    folder = tmp_path_factory.mktemp("traces")
    with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(Sets(), "10", "sets")
        pod = make_pod(name="web", namespace="shop")
        runtime.create_container(pod, make_container(name="one"))
        with pytest.raises(PluginRejected):
            runtime.create_container(pod, make_container(name="bad"))
    return [event for event in Trace(folder).events() if event.name == "CreateContainer"]


def spans_of(events: list[Event]) -> list[dict[str, Any]]:
    documents = [json.loads(line) for line in otlp(events)]
    return [
        span for document in documents for row in document["resourceSpans"] for span in row["scopeSpans"][0]["spans"]
    ]


def bars_of(events: list[Event]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads("".join(chrome(events)))["traceEvents"]
    return rows


def make_event(serial: int, began_ns: int, duration_ns: int, plugins: int = 0, name: str = "StopContainer") -> Event:
    """An event with these times; its other fields do not matter."""
    event = Event(name, serial, 1, began_ns)
    event.duration_ns = duration_ns
    for number in range(plugins):
        step = Step(f"{number:02}-p", "StopContainer", b"", began_ns)
        step.duration_ns = duration_ns
        event.steps.append(step)
    return event


def attributes(span: dict[str, Any]) -> dict[str, str]:
    return {row["key"]: row["value"]["stringValue"] for row in span["attributes"]}


def test_an_event_begins_no_later_than_its_first_step() -> None:
    event = make_event(1, began_ns=5000, duration_ns=3000, plugins=1)
    event.began_ns = 7000
    assert [span["startTimeUnixNano"] for span in spans_of([event])] == ["5000", "5000"]
    assert [bar["ts"] for bar in bars_of([event]) if bar["ph"] == "X"] == [5.0, 5.0]


def test_each_event_is_a_span_with_a_child_span_per_plugin(events: list[Event]) -> None:
    created, call, *_ = spans_of(events)

    assert (created["name"], created["status"], "parentSpanId" in created) == ("CreateContainer", {}, False)
    assert (call["name"], call["parentSpanId"]) == ("10-sets CreateContainer", created["spanId"])
    assert call["traceId"] == created["traceId"]
    assert attributes(call).items() >= {"k8s.pod.name": "web", "k8s.namespace.name": "shop"}.items()
    assert (attributes(call)["k8s.container.name"], attributes(call)["nri.plugin"]) == ("one", "10-sets")
    assert int(created["startTimeUnixNano"]) <= int(call["startTimeUnixNano"]) <= int(call["endTimeUnixNano"])


def test_a_failed_span_has_the_reason(events: list[Event]) -> None:
    refused, call = spans_of(events)[-2:]
    assert refused["status"]["code"] == call["status"]["code"] == 2
    assert "not this one" in call["status"]["message"]


def test_ids_have_the_length_of_the_standard_and_are_reproducible(events: list[Event]) -> None:
    spans = spans_of(events)
    assert {(len(bytes.fromhex(span["traceId"])), len(bytes.fromhex(span["spanId"]))) for span in spans} == {(16, 8)}
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert spans == spans_of(events)


def test_many_spans_are_split_into_several_lines() -> None:
    def spans(events: Iterable[Event]) -> list[int]:
        return [len(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]) for line in otlp(events)]

    assert spans(make_event(number, number, 1) for number in range(1250)) == [500, 500, 250]
    assert spans([make_event(1, 1, 1, plugins=1249)]) == [500, 500, 250]
    assert max(spans(make_event(number, number, 1, name="n" * 9999) for number in range(600))) < 300


def test_chrome_traces_have_a_process_for_the_runtime_and_each_plugin(events: list[Event]) -> None:
    bars = bars_of(events)
    names = {row["pid"]: row["args"]["name"] for row in bars if row["ph"] == "M"}
    assert set(names.values()) == {"runtime", "plugin 10-sets"}
    refused = bars[-1]
    assert (refused["ph"], names[refused["pid"]], refused["name"]) == ("X", "plugin 10-sets", "CreateContainer")
    assert "not this one" in refused["args"]["error"]


def test_bars_on_a_line_never_overlap() -> None:
    bars = bars_of([make_event(number, number * 10, 35, plugins=2) for number in range(50)])
    lines: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for row in bars:
        if row["ph"] == "X":
            lines[row["pid"], row["tid"]].append((row["ts"], row["ts"] + row["dur"]))
    assert len(lines) == 3 * 4
    assert all(one[1] <= other[0] + 1e-9 for rows in lines.values() for one, other in pairwise(rows))


def test_a_recording_of_endless_events_has_a_bounded_number_of_lines() -> None:
    bars = bars_of([make_event(number, number, 1 << 62) for number in range(1000)])
    assert max(row["tid"] for row in bars) == 256


def test_no_value_is_exported(events: list[Event]) -> None:
    assert any(SECRET.encode() in event.reply for event in events)
    assert SECRET not in "".join((*otlp(events), *chrome(events)))


def test_refused_answers_and_unreadable_requests_are_exported() -> None:
    event = make_event(1, 5, 1 << 63, plugins=1)
    event.request = b"\xff"
    event.steps[0].refused = t.Error(kind="ConflictError")
    event_span, call = spans_of([event])
    assert (attributes(event_span), int(event_span["endTimeUnixNano"])) == (
        {"rpc.method": "StopContainer"},
        5 + (1 << 63),
    )
    assert call["status"]["message"] == "ConflictError"


def test_an_empty_recording_is_an_empty_document() -> None:
    assert (bars_of([]), list(otlp([]))) == ([], [])


def test_the_processes_of_a_chrome_trace_are_bounded() -> None:
    bars = bars_of([make_event(1, 10, 5, plugins=5000)])
    names = [bar["args"]["name"] for bar in bars if bar["ph"] == "M"]
    assert (len(names), names[-1]) == (4097, "further plugins")
    assert len([bar for bar in bars if bar["ph"] == "X"]) == 5001
