"""Steps of events for reporters: in order, with their bytes, without delaying the event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nri
from nri.adaptation import BuiltinPlugin
from nri.adaptation.audit import reporting, shadow
from nri.adaptation.audit.reporting import MAX_REMEMBERED, Reporting, adjustment_of, evictions_of
from nri.api import messages as m
from nri.api.events import EventMask
from nri.errors import ConflictError, PluginError, ValidationRejected
from nri.metrics import Observer
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


class Recorder:
    """Keeps every report as (step, *arguments)."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, ...]] = []

    def __getattr__(self, step: str) -> Callable[..., None]:
        return lambda *messages: self.steps.append((step, *messages))

    def of(self, event: str) -> list[tuple[Any, ...]]:
        """Steps of an event: their names, and the plugin where there is one."""
        return [
            (step, messages[0]) if step.startswith(("plugin", "reply")) else (step,)
            for step, *messages in self.steps
            if event in messages[:2]
        ]

    def reports(self, step: str, event: str = "CreateContainer") -> list[tuple[Any, ...]]:
        """The arguments of all reports of one step of an event."""
        return [tuple(messages) for entry, *messages in self.steps if entry == step and event in messages[:2]]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def runtime(recorder: Recorder) -> Iterator[FakeRuntime]:
    with FakeRuntime(reporters=[recorder]) as runtime:
        yield runtime


def env(name: str) -> Callable[..., nri.Adjustment]:
    return lambda *_: nri.Adjustment().add_env(name, "1")


def test_the_steps_of_a_creation_are_reported_in_order(runtime: FakeRuntime, recorder: Recorder) -> None:
    runtime.add(plugin("a", create_container=env("A")), idx="10")
    runtime.add(plugin("b", create_container=lambda *_: None), idx="20")
    runtime.create_container()
    assert recorder.of("CreateContainer") == [
        ("event_begins",),
        ("plugin_asked", "10-a"),
        ("plugin_answered", "10-a"),
        ("reply_merged", "10-a"),
        ("plugin_asked", "20-b"),
        ("plugin_answered", "20-b"),
        ("event_ends",),
    ]


def test_request_reply_and_result_are_reported_as_bytes(runtime: FakeRuntime, recorder: Recorder) -> None:
    runtime.add(plugin("a", create_container=env("A")))
    runtime.create_container(make_pod(name="web"), make_container(id="c"))
    ((_, serial, request),) = recorder.reports("event_begins")
    assert m.CreateContainerRequest.FromString(request).pod.name == "web"
    ((_, _, asked_serial, requests),) = recorder.reports("plugin_asked")
    assert (asked_serial, requests) == (serial, request)
    (answer,) = recorder.reports("plugin_answered")
    assert [pair.key for pair in m.CreateContainerResponse.FromString(answer[3]).adjust.env] == ["A"]
    assert answer[4] >= 0
    ((_, ended, result, error, seconds),) = recorder.reports("event_ends")
    assert [pair.key for pair in m.CreateContainerResponse.FromString(result).adjust.env] == ["A"]
    assert (ended, error) == (serial, None)
    assert seconds >= 0


def test_the_result_is_complete_with_none_one_and_more_answering_plugins(
    runtime: FakeRuntime, recorder: Recorder
) -> None:
    for number in range(3):
        runtime.create_container(make_pod(), make_container(id=f"c{number}"))
        result = m.CreateContainerResponse.FromString(recorder.reports("event_ends")[-1][2])
        assert [pair.key for pair in result.adjust.env] == ["A0", "A1"][:number]
        runtime.add(plugin(f"p{number}", create_container=env(f"A{number}")), f"{number}0")


def test_a_result_with_updates_is_complete(runtime: FakeRuntime, recorder: Recorder) -> None:
    runtime.create_container(None, make_container(id="other"))
    recorder.steps.clear()
    runtime.add(plugin("a", create_container=lambda *_: nri.Update("other").set_cpu_shares(5)))
    runtime.create_container()
    result = recorder.reports("event_ends")[-1][2]
    assert [update.container_id for update in m.CreateContainerResponse.FromString(result).update] == ["other"]


def test_an_update_of_a_container_ends_with_its_reply(runtime: FakeRuntime, recorder: Recorder) -> None:
    runtime.add(plugin("a", update_container=lambda pod, container, _: nri.Update(container).set_cpu_shares(5)))
    runtime.update_container(make_pod(), make_container(id="c"))
    result = m.UpdateContainerResponse.FromString(recorder.reports("event_ends", "UpdateContainer")[-1][2])
    assert result.update[-1].linux.resources.cpu.shares.value == 5


def test_a_failing_plugin_is_reported_with_its_error(runtime: FakeRuntime, recorder: Recorder) -> None:
    def refuse(*_: Any) -> None:
        raise nri.Reject("no")

    runtime.add(plugin("a", start_container=refuse))
    with pytest.raises(PluginError) as caught:
        runtime.start_container()
    ((label, event, _, error, _),) = recorder.reports("plugin_failed", "StartContainer")
    assert (label, event) == ("10-a", "StartContainer")
    assert "no" in str(error)
    assert recorder.reports("event_ends", "StartContainer")[-1][2:4] == (b"", caught.value)


def test_a_reply_that_cannot_be_merged_is_reported_with_the_reason(runtime: FakeRuntime, recorder: Recorder) -> None:
    for idx in ("10", "20"):
        runtime.add(plugin("a", create_container=env("A")), idx=idx)
    with pytest.raises(ConflictError) as caught:
        runtime.create_container()
    merged = recorder.reports("reply_merged")
    assert [(message[0], message[3]) for message in merged] == [("10-a", None), ("20-a", caught.value)]


def test_an_event_without_receivers_reports_start_and_end(runtime: FakeRuntime, recorder: Recorder) -> None:
    runtime.run_pod_sandbox()
    assert recorder.of("RunPodSandbox") == [("event_begins",), ("event_ends",)]


def test_a_fan_out_event_is_reported_like_any_other(recorder: Recorder) -> None:
    with FakeRuntime(reporters=[recorder], fan_out=EventMask.of("PostStartContainer")) as runtime:
        for idx in ("10", "20"):
            runtime.add(plugin("a", post_start_container=lambda *_: None), idx=idx)
        runtime.post_start_container()
    steps = recorder.of("PostStartContainer")
    assert steps[0] == ("event_begins",) and steps[-1] == ("event_ends",)
    assert sorted(steps[1:-1]) == sorted(
        (step, label) for step in ("plugin_asked", "plugin_answered") for label in ("10-a", "20-a")
    )


def test_a_validation_is_reported_as_a_separate_event(recorder: Recorder) -> None:
    class Refuses:
        def validate_container_adjustment(self, request: Any) -> str:
            return "no"

    with FakeRuntime(reporters=[recorder], builtin=[BuiltinPlugin("99", "v", Refuses())]) as runtime:
        with pytest.raises(ValidationRejected):
            runtime.create_container()
    assert ("plugin_answered", "99-v") in recorder.of("ValidateContainerAdjustment")
    assert isinstance(recorder.reports("event_ends")[-1][3], ValidationRejected)


class Broken(Observer):
    """Raises at every report."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("record_", "update_", "event_", "plugin_", "reply_")):

            def broken(*_: Any) -> None:
                raise ZeroDivisionError("in the watcher")

            return broken
        return super().__getattribute__(name)


@pytest.mark.parametrize("options", [{"observer": Broken()}, {"reporters": [Broken()]}], ids=["observer", "reporter"])
def test_an_exception_of_a_reporter_is_logged_once_and_fails_nothing(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise nri.Reject("no")

    with FakeRuntime(policy='["30-s"]\nshadow = true', **options) as runtime:
        runtime.add(plugin("a", create_container=lambda *_: [nri.Update("gone")], start_container=refuse))
        runtime.add(plugin("s", create_container=env("A")), idx="30")
        for _ in range(2):
            runtime.create_container()
        with pytest.raises(PluginError, match="no"):
            runtime.start_container()
    log_lines = [record.getMessage() for record in caplog.records if "to process a report" in record.getMessage()]
    assert log_lines == ["Broken failed to process a report; further failures are not logged"]


def test_reporters_receive_steps_despite_a_failing_observer(recorder: Recorder) -> None:
    with FakeRuntime(observer=Broken(), reporters=[recorder]) as runtime:
        runtime.add(plugin("a", create_container=env("A")))
        runtime.create_container()
    assert ("reply_merged", "10-a") in recorder.of("CreateContainer")


def test_without_observers_nothing_is_reported() -> None:
    silent = Reporting()
    assert (silent.watched, silent.recorded) == (False, False)
    assert Reporting(Observer()).watched and not Reporting(Observer()).recorded
    assert Reporting(None, [Recorder()]).recorded  # type: ignore[list-item]


def test_an_empty_shadow_answer_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nri.adaptation"):
        Reporting().shadow_answered(shadow.report("10-a", "RunPodSandbox", make_pod(), None))
        assert caplog.records == []
        Reporting().shadow_answered(shadow.failure("10-a", "RunPodSandbox", make_pod(), "no answer"))
        assert [record.levelname for record in caplog.records] == ["INFO"]


def test_the_number_of_remembered_names_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    reporting = Reporting()
    for number in range(MAX_REMEMBERED + 10):
        reporting.left_out(f"10-{number}", "UpdateContainers", "gone")
    assert len(caplog.records) == MAX_REMEMBERED + 10
    reporting.left_out(f"10-{MAX_REMEMBERED + 9}", "UpdateContainers", "gone")
    assert len(caplog.records) == MAX_REMEMBERED + 10, "the latest name is remembered and not logged again at once"
    reporting.left_out("10-0", "UpdateContainers", "gone")
    assert len(caplog.records) == MAX_REMEMBERED + 11, "the first name is forgotten"


def test_an_ignored_update_is_logged_again_after_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(reporting, "monotonic", lambda: clock[0])
    created = Reporting()
    for moment in (0.0, 59.9, 60.0):
        clock[0] = moment
        created.left_out("10-a", "CreateContainer", "gone")
    request = 'an update or eviction of container "gone", which does not exist'
    line = f"plugin 10-a, CreateContainer: ignored {request}"
    assert [record.getMessage() for record in caplog.records] == [line, f"{line}, and 1 more in the last minute"]


def test_only_a_reply_to_a_creation_has_an_adjustment() -> None:
    assert adjustment_of(m.UpdateContainerResponse()) is None
    assert adjustment_of(m.CreateContainerResponse()) is None
    assert adjustment_of(m.CreateContainerResponse(adjust=m.ContainerAdjustment())) is not None
    assert list(evictions_of(m.StopContainerResponse())) == []
    evict = [m.ContainerEviction(container_id="c")]
    assert list(evictions_of(m.UpdateContainerResponse(evict=evict))) == evict
