"""One event and its answers: single reports, decoding, and invalid answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.dispatch.event import Event
from nri.adaptation.peers.event_request import EventRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import ConflictError, PluginError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin, response
from tests.support.made_plugins import plugin


def event() -> Event:
    return Event(EventRequest(BY_METHOD["start_container"], make_pod(name="web"), make_container()))


def test_events_are_numbered() -> None:
    first, second = event(), event()
    assert second.serial > first.serial


@pytest.mark.pure
def test_an_event_without_a_result_records_nothing() -> None:
    created = event()
    created.record(None, "failed")  # type: ignore[arg-type]
    created.work_meanwhile()
    assert created.result_bytes() == b""


class Bytes:
    """A message whose bytes cannot be decoded as any kind."""

    def SerializeToString(self) -> bytes:
        return b"\xff\xff"


@contextmanager
def answering_creation(runtime: FakeRuntime, reply: Any) -> Iterator[RawPlugin]:
    """A plugin `10-raw` that answers its first CreateContainer with `reply`."""
    raw = RawPlugin(runtime, events=1 << BY_METHOD["create_container"].number - 1).join()
    answering = threading.Thread(
        target=lambda: (raw.wait_for(b"CreateContainer"), raw.sock.sendall(response(5, reply)))
    )
    answering.start()
    yield raw
    answering.join(20)
    raw.close()


@pytest.mark.parametrize("reply", [None, m.CreateContainerResponse(adjust={})], ids=["empty", "empty adjustment"])
def test_an_empty_shadow_answer_is_not_reported(reply: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nri.adaptation"), FakeRuntime(policy='["10-raw"]\nshadow = true') as runtime:
        with answering_creation(runtime, reply):
            runtime.create_container()
    assert "shadow plugin" not in caplog.text


def test_an_unreadable_reply_fails_the_event_with_the_plugins_name(nri_runtime: FakeRuntime) -> None:
    with (
        answering_creation(nri_runtime, Bytes()),
        pytest.raises(PluginError, match="plugin 10-raw: its reply is invalid"),
    ):
        nri_runtime.create_container()


def test_an_unreadable_shadow_reply_is_reported_as_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nri.adaptation"), FakeRuntime(policy='["10-raw"]\nshadow = true') as runtime:
        with answering_creation(runtime, Bytes()):
            runtime.create_container()
    assert "shadow plugin 10-raw at CreateContainer" in caplog.text
    assert "failed: its reply is invalid" in caplog.text


def env(value: str) -> Any:
    return lambda *_: nri.Adjustment().add_env("A", value)


def test_a_conflicting_answer_is_an_error_of_its_plugin(nri_runtime: FakeRuntime) -> None:
    for idx in ("10", "20"):
        nri_runtime.add(plugin("a", create_container=env(idx)), idx=idx)
    with pytest.raises(ConflictError) as caught:
        nri_runtime.create_container()
    assert nri_runtime.health("20-a").last_error == str(caught.value)
    assert nri_runtime.health("10-a").last_error == ""


def test_a_shadow_report_shows_the_conflict(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nri.adaptation"), FakeRuntime(policy='["20-a"]\nshadow = true') as runtime:
        for idx in ("10", "20"):
            runtime.add(plugin("a", create_container=env(idx)), idx=idx)
        assert runtime.create_container().env == {"A": "10"}
    assert 'Env A: "10" -> "20" (in conflict with 10-a)' in caplog.text


def test_deferred_requests_for_a_failed_creation_are_dropped() -> None:
    """The answers update and evict a container whose creation fails before the event ends."""
    with FakeRuntime() as runtime:
        inventory = parts_of(runtime.adaptation).trail.inventory
        inventory.creating("soon", "default")

        def answer(*_: Any) -> Any:
            return [nri.Update("soon").set_cpu_shares(5), nri.Eviction("soon", "no room")]

        def fails(*_: Any) -> None:
            inventory.not_created("soon")

        runtime.add(plugin("a", create_container=answer), idx="10").add(plugin("b", create_container=fails), idx="20")
        reply = runtime.adaptation.create_container(make_pod(), make_container())
        assert reply.updates == [] and reply.evictions == []
        assert [(row.plugin, row.container_id, row.field) for row in reply.ignored] == [
            ("10-a", "soon", ""),
            ("10-a", "soon", "evict"),
        ]


def test_deferred_requests_for_a_finished_creation_are_in_the_reply() -> None:
    with FakeRuntime() as runtime:
        inventory = parts_of(runtime.adaptation).trail.inventory
        inventory.creating("soon", "default")

        def answer(*_: Any) -> Any:
            return [nri.Update("soon").set_cpu_shares(5), nri.Eviction("soon", "no room")]

        def creates(*_: Any) -> None:
            inventory.created("soon", make_pod(), b"")

        runtime.add(plugin("a", create_container=answer), idx="10").add(plugin("b", create_container=creates), idx="20")
        reply = runtime.adaptation.create_container(make_pod(), make_container())
        assert [update.container_id for update in reply.updates] == ["soon"]
        assert [(update.container_id, update.reason) for update in reply.evictions] == [("soon", "no room")]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (nri.Update("other").set_cpu_shares(5), "its policy does not allow it to set CPUShares"),
        (nri.Eviction("other", "no room"), "its policy does not allow it to evict"),
        (nri.Adjustment().add_annotation("a", "1"), "its policy does not allow it to set Annotations"),
    ],
)
def test_allowed_fields_also_limit_updates_and_evictions(answer: Any, text: str) -> None:
    with FakeRuntime(policy='["10-a"]\nallow.fields = ["Env"]') as runtime:
        runtime.create_container(None, make_container(id="other"))
        runtime.add(plugin("a", create_container=lambda *_: answer))
        with pytest.raises(PluginError, match=text):
            runtime.create_container()


# --- the reply to the runtime


class Shrinks(nri.Plugin):
    """Takes shares from another container whenever one is stopped."""

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> Any:
        return nri.Update("other").set_cpu_shares(512)


def stopped(runtime: FakeRuntime) -> Any:
    other = make_container(id="other")
    other.linux.resources.cpu.shares.value = 1024
    runtime.create_container(make_pod(), other)
    runtime.create_container(make_pod(), make_container(id="own"))
    return runtime.adaptation.stop_container(make_pod(), make_container(id="own"))


def test_updates_of_other_containers_are_returned_with_their_owners() -> None:
    with FakeRuntime() as runtime:
        reply = stopped(runtime.add(Shrinks()))
        assert [(update.container_id, update.linux.resources.cpu.shares.value) for update in reply.updates] == [
            ("other", 512)
        ]
        assert reply.owners.owners["other"].simple[m.Field.CPUShares] == "10-shrinks"


def test_abort_restores_the_other_containers() -> None:
    with FakeRuntime() as runtime:
        reply = stopped(runtime.add(Shrinks()))
        undone: list[Any] = []
        reply.abort(undone.extend)
        assert [update.container_id for update in undone] == ["other"]
        undone.clear()
        reply.abort(undone.extend)
        assert undone == [], "what was given back once is not given back again"


def test_abort_after_commit_does_nothing() -> None:
    with FakeRuntime() as runtime:
        reply = stopped(runtime.add(Shrinks()))
        reply.commit()
        undone: list[Any] = []
        reply.abort(undone.extend)
        assert undone == []
