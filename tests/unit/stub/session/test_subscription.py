"""A plugin subscribes to the events that it handles and the runtime supports, never to 0, which means all events."""

from __future__ import annotations

import pytest

import nri
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import Names


def test_a_plugin_subscribes_to_its_handlers() -> None:
    with plugin_thread(Names()) as running:
        assert running.runtime.begin().events == nri.EventMask.of("CreateContainer")


def test_configure_can_narrow_the_subscription() -> None:
    class Narrow(Names):
        def configure(self):
            return nri.EventMask.parse("CreateContainer")

        def start_container(self, pod, container): ...

    with plugin_thread(Narrow()) as running:
        assert running.runtime.begin().events == nri.EventMask.of("CreateContainer")


def test_configure_cannot_subscribe_to_events_without_a_handler() -> None:
    class Wide(Names):
        def configure(self):
            return nri.EventMask.parse("all")

    with plugin_thread(Wide()) as running:
        running.runtime.register()
        assert "events without a handler: RunPodSandbox" in running.runtime.configure().message
        assert isinstance(running.ended(), nri.RegistrationError)


def test_the_command_line_can_narrow_the_subscription() -> None:
    class Two(Names):
        def start_container(self, pod, container): ...

    with plugin_thread(Two(), events=nri.EventMask.parse("pod,StartContainer")) as running:
        assert running.runtime.begin().events == nri.EventMask.of("StartContainer")


@pytest.mark.parametrize(
    ("nri_version", "version", "events"),
    [
        ("", "1.7.24~ds1", "CreateContainer"),
        ("v0.8.0", "2.1.9", "CreateContainer"),
        ("v0.10.0", "2.2.0", "UpdatePodSandbox,CreateContainer,ValidateContainerAdjustment"),
        ("", "v2.2.1", "UpdatePodSandbox,CreateContainer,ValidateContainerAdjustment"),
        ("v0.12.5", "x", "UpdatePodSandbox,CreateContainer,ValidateContainerAdjustment"),
    ],
)
def test_the_mask_has_only_events_that_the_runtime_supports(nri_version: str, version: str, events: str) -> None:
    class New(Names):
        def update_pod_sandbox(self, pod, overhead, resources): ...

        def validate_container_adjustment(self, request): ...

    with plugin_thread(New()) as running:
        reply = running.runtime.begin(name="containerd", version=version, nri=nri_version)
        assert reply.events == nri.EventMask.parse(events)


@pytest.mark.parametrize(("has_own_handler", "warned"), [(False, []), (True, ["UpdatePodSandbox"])])
def test_a_warning_names_only_handlers_of_the_author(
    caplog: pytest.LogCaptureFixture, has_own_handler: bool, warned: list[str]
) -> None:
    class Mirrors(Names):
        mirror = True  # requests events that this runtime does not know

    class Handles(Mirrors):
        def update_pod_sandbox(self, pod, overhead, resources): ...

    with plugin_thread(Handles() if has_own_handler else Mirrors()) as running:
        reply = running.runtime.begin(name="containerd", version="1.7.24", nri="")
        assert nri.EventMask(reply.events).has("StopContainer")
    lines = [record.getMessage() for record in caplog.records if "does not know" in record.getMessage()]
    assert lines == [f"containerd 1.7.24 does not know {name}: not subscribed" for name in warned]


def test_an_empty_mask_is_an_error_that_names_the_handlers() -> None:
    class OnlyNew(nri.Plugin):
        def validate_container_adjustment(self, request): ...

    with plugin_thread(OnlyNew()) as running:
        running.runtime.register()
        response = running.runtime.configure(name="containerd", version="1.7.24", nri="")
        assert "containerd 1.7.24 knows none of the events of OnlyNew: ValidateContainerAdjustment" in response.message
        assert isinstance(running.ended(), nri.RegistrationError)


def test_a_plugin_with_only_synchronize_never_subscribes_to_all_events() -> None:
    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers): ...

    with plugin_thread(Syncs()) as running:
        assert running.runtime.begin().events == nri.EventMask.of("RemovePodSandbox")


def test_a_plugin_without_any_handler_is_refused() -> None:
    class Nothing(nri.Plugin): ...

    with plugin_thread(Nothing()) as running:
        running.runtime.register()
        assert "handles no event" in running.runtime.configure().message


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (nri.EventMask(0), "Chooses.configure returned an empty mask"),
        ("CreateContainer", "Chooses.configure returned str: None is expected, or an nri.EventMask"),
    ],
)
def test_a_wrong_return_value_of_configure_is_an_error(returned: object, message: str) -> None:
    class Chooses(Names):
        def configure(self):
            return returned

    with plugin_thread(Chooses()) as running:
        running.runtime.register()
        assert message in running.runtime.configure().message
        assert isinstance(running.ended(), nri.RegistrationError)


def test_a_command_line_and_a_configure_without_a_common_event_are_an_error() -> None:
    class Two(Names):
        def configure(self):
            return nri.EventMask.of("CreateContainer")

        def start_container(self, pod, container): ...

        def synchronize(self, pods, containers): ...

    with plugin_thread(Two(), events=nri.EventMask.parse("StartContainer")) as running:
        running.runtime.register()
        message = running.runtime.configure().message
        assert "Two.configure selects only CreateContainer, but the command line only StartContainer" in message
        assert isinstance(running.ended(), nri.RegistrationError)


def test_events_on_the_command_line_without_a_handler_are_an_error() -> None:
    with plugin_thread(Names(), events=nri.EventMask.parse("StopContainer")) as running:
        running.runtime.register()
        assert "Names handles none of the selected events: StopContainer" in running.runtime.configure().message
        assert isinstance(running.ended(), nri.RegistrationError)
