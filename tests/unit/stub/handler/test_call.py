"""Every event reaches its method, with its arguments."""

from __future__ import annotations

import nri
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import ADJUSTMENT, CONTAINER, POD


def test_a_return_value_of_an_event_without_answers_is_an_error() -> None:
    class Talks(nri.Plugin):
        def start_container(self, pod, container):
            return ADJUSTMENT

    with plugin_thread(Talks()) as running:
        running.runtime.begin()
        response = running.runtime.call("StartContainer", m.StartContainerRequest(pod=POD, container=CONTAINER))
        assert response.code == Code.UNKNOWN and "start_container returned Adjustment" in response.message


def test_validation_rejects_with_a_reason() -> None:
    class Refuses(nri.Plugin):
        def validate_container_adjustment(self, request):
            if request.container.name == "app":
                raise nri.Reject("no")

    with plugin_thread(Refuses()) as running:
        running.runtime.begin()
        request = m.ValidateContainerAdjustmentRequest(pod=POD, container=CONTAINER)
        response = running.runtime.call("ValidateContainerAdjustment", request)
        answer = m.ValidateContainerAdjustmentResponse.FromString(response.payload)
        assert (answer.reject, answer.reason) == (True, "no")
        accepted = running.runtime.call("ValidateContainerAdjustment", m.ValidateContainerAdjustmentRequest(pod=POD))
        assert not accepted.code and not accepted.payload


def test_every_event_reaches_its_method_with_its_arguments() -> None:
    calls: list[tuple[str, tuple[str, ...]]] = []

    def recorder(method: str, arguments: tuple[str, ...]):
        scope: dict[str, object] = {}
        names = ", ".join(arguments)
        exec(f"def {method}(self, {names}): record({method!r}, ({names},))", {"record": record}, scope)
        return scope[method]

    def record(method, values):
        calls.append((method, tuple(getattr(v, "id", "") or type(v).__name__ for v in values)))

    from nri.stub.support.checks import ARGUMENTS

    members = {spec.method: recorder(spec.method, ARGUMENTS[spec.method]) for spec in EVENTS}
    everything = type("Everything", (nri.Plugin,), members)
    with plugin_thread(everything()) as running:
        mask = running.runtime.begin().events
        assert mask == nri.EventMask.ALL, nri.EventMask(mask)
        for spec in EVENTS:
            request = getattr(m, spec.request)(pod=POD)
            if spec.kind != "pod":
                request.container.CopyFrom(CONTAINER)
            response = running.runtime.call(spec.rpc, request)
            assert not response.code, response.message
    expected_by_kind = {"pod": ("p0",), "container": ("p0", "c0"), "validation": ("ValidationRequest",)}
    expected = []
    for spec in EVENTS:
        extra = {"update_container": ("LinuxResources",), "update_pod_sandbox": ("LinuxResources", "LinuxResources")}
        expected.append((spec.method, expected_by_kind[spec.kind] + extra.get(spec.method, ())))
    assert calls == expected


def test_a_container_without_a_name_gets_the_name_of_the_kubelets_label() -> None:
    names: list[str] = []

    class Notes(nri.Plugin):
        mirror = True

        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
            names.extend(container.name for container in containers)

        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            names.append(container.name)

    def unnamed(name: str) -> nri.Container:  # as CRI-O before 1.37 sends it
        container = make_container(name, pod, labels={"io.kubernetes.container.name": name})
        container.name = ""
        return container

    pod = make_pod()
    with FakeRuntime(pods=[pod], containers=[unnamed("one")]) as runtime:
        runtime.add(Notes())
        runtime.create_container(pod, unnamed("two"))
        runtime.create_container(pod, make_container("three", pod))
    assert names == ["one", "two", "three"]
