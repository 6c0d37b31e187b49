"""Reports of an event's steps: the invoker of an event, and single reports."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.adaptation import parts_of
from nri.adaptation.audit.reporting import Reporting
from nri.adaptation.dispatch.event import Event
from nri.adaptation.dispatch.observation import RecordedInvoker, invokers
from nri.adaptation.peers.event_request import EventRequest
from nri.api.events import BY_METHOD
from nri.metrics import Observer
from nri.rules import Rules
from nri.testing import FakeRuntime, make_container, make_pod


class Requests:
    """A reporter that notes the requests which it gets."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.asked: list[bytes] = []

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        self.begun.append(request)

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        self.asked.append(request)

    def _ignore(self, *_: object) -> None: ...

    plugin_answered = plugin_failed = reply_merged = event_ends = _ignore


class Peer:
    label = "10-a"


def start_event() -> Event:
    return Event(EventRequest(BY_METHOD["start_container"], make_pod(name="web"), make_container()))


@pytest.mark.pure
def test_the_start_of_an_event_is_reported_once_before_the_first_request() -> None:
    event, reporter = start_event(), Requests()
    invoker = RecordedInvoker(Rules.DEFAULT, Reporting(reporters=[reporter]))
    peer: Any = Peer()
    invoker.plugin_asked(peer, event)
    invoker.event_starts(event)
    assert (len(reporter.begun), len(reporter.asked)) == (1, 1)


@pytest.mark.pure
def test_reporters_share_the_encoded_request_of_plugins() -> None:
    event, reporter = start_event(), Requests()
    peer: Any = Peer()
    RecordedInvoker(Rules.DEFAULT, Reporting(reporters=[reporter])).plugin_asked(peer, event)
    assert reporter.begun[0] is reporter.asked[0] is event.request_bytes()


def test_an_event_is_reported_only_while_a_reporter_is_attached() -> None:
    reporter = Requests()
    with FakeRuntime() as runtime:
        runtime.start_container()
        reporting = parts_of(runtime.adaptation).reporting
        reporting.attach(reporter)
        runtime.start_container()
        reporting.detach(reporter)
        runtime.start_container()
    assert len(reporter.begun) == 1


@pytest.mark.pure
def test_an_observer_without_reporters_does_not_encode_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting = Reporting(Observer())
    event, peer = start_event(), Peer()
    observed: Any = invokers(Rules.DEFAULT, reporting)[reporting.watched + reporting.recorded]
    encoded: list[object] = []
    monkeypatch.setattr(EventRequest, "encoded", encoded.append)
    observed.event_starts(event)
    observed.plugin_asked(peer, event)
    observed.plugin_failed(peer, event, ValueError("x"), 0.1)
    observed.event_ends(event, 0.0)
    assert encoded == []
