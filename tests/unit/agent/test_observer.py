"""Counters and gauges in the format of Prometheus."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nri.agent.observer import METRICS, Observer
from nri.host import Outcome, Result
from tests.support.scrape import scrape


def samples(observer: Observer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus' own parser reads of the text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(scrape(observer))
        for sample in family.samples
    }


def test_decisions_are_counted_by_hook_stage_and_error() -> None:
    observer = Observer()
    observer.decided("nri", "PreCreateContainer", 0.0003, {"CPUSetAllocator"}, {"BatchResource"})
    observer.decided("nri", "PreCreateContainer", 3.0, {"CPUSetAllocator"}, ())
    where = (("stage", "PreCreateContainer"), ("transport", "nri"))
    actual = samples(observer)
    assert actual["nri_agent_decisions_total", where] == 2
    assert actual["nri_agent_hook_changes_total", (("hook", "CPUSetAllocator"), *where)] == 2
    assert actual["nri_agent_hook_errors_total", (("hook", "BatchResource"), *where)] == 1
    assert actual["nri_agent_decision_seconds_sum", where] == pytest.approx(3.0003)
    assert actual["nri_agent_decision_seconds_bucket", (("le", "0.0005"), *where)] == 1
    assert actual["nri_agent_decision_seconds_bucket", (("le", "+Inf"), *where)] == 2
    assert actual["nri_agent_decision_seconds_count", where] == 2


def test_writes_are_counted_by_knob_and_outcome() -> None:
    observer = Observer()
    observer.wrote(
        [
            Result("a", "cpu.shares", 2, Outcome.APPLIED),
            Result("a", "cpu.shares", 2, Outcome.UNCHANGED),
            Result("g", "schemata.L3", {}, Outcome.UNSUPPORTED, "no"),
            Result("a", 'what"ever\n', "", Outcome.UNSUPPORTED, "no"),
        ]
    )
    actual = scrape(observer)
    assert 'nri_agent_writes_total{knob="cpu.shares",outcome="applied"} 1.0\n' in actual
    assert 'nri_agent_writes_total{knob="schemata",outcome="unsupported"} 1.0\n' in actual
    assert 'nri_agent_writes_total{knob="other",outcome="unsupported"} 1.0\n' in actual, "no pod's text becomes a label"


def test_gauges_are_read_at_every_scrape() -> None:
    observer, stored = Observer(), {"pods": 1.0}
    observer.gauge("held", lambda: stored)
    observer.gauge("held", lambda: {"written values": 7})
    stored["pods"] = 2
    actual = samples(observer)
    assert actual["nri_agent_held", (("what", "pods"),)] == 2
    assert actual["nri_agent_held", (("what", "written values"),)] == 7


def test_dropped_items_and_events_are_counted() -> None:
    observer = Observer()
    observer.left_out("pending", 3)
    observer.count_event("nri", "connected")
    assert 'nri_agent_left_out_total{reason="pending"} 3.0\n' in scrape(observer)
    assert 'nri_agent_events_total{event="connected",transport="nri"} 1.0\n' in scrape(observer)


def test_a_label_can_contain_any_text() -> None:
    observer = Observer()
    observer.count_event('a"b\\', "line\nbreak")
    assert samples(observer)["nri_agent_events_total", (("event", "line\nbreak"), ("transport", 'a"b\\'))] == 1


def test_every_metric_has_help_and_type() -> None:
    text = scrape(Observer())
    assert all(f"# HELP nri_agent_{name} " in text and f"# TYPE nri_agent_{name} " in text for name in METRICS)
