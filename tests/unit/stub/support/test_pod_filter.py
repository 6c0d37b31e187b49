"""Handlers with a filter for pods."""

from __future__ import annotations

from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.errors import ValidationRejected
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.commands import unmeasured
from tests.support.plugin_thread import plugin_thread

WEB = {"labels": {"app": "web"}}


def recorder(**choice: Any) -> Any:
    """A plugin that notes for which pods it is called, chosen so."""

    class Notes(nri.Plugin):
        mirror = True

        def __init__(self) -> None:
            self.seen: list[str] = []

        @nri.when(**choice)
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            self.seen.append(pod.name)
            return nri.Adjustment().add_env("SEEN", pod.name)

        @nri.when(**choice)
        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
            self.seen += [f"pod {pod.name}" for pod in pods] + [
                f"container {container.name}" for container in containers
            ]

    return Notes()


PODS = {
    "plain": {},
    "web": WEB,
    "prod": {"namespace": "prod-eu"},
    "marked": {"annotations": {"zone.example.com": "a"}},
    "both": {"namespace": "prod-us", **WEB},
}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"labels": "app"}, ["web", "both"]),
        ({"labels": {"app": True}}, ["web", "both"]),
        ({"labels": {"app": "w*"}}, ["web", "both"]),
        ({"labels": {"app": False}}, ["plain", "prod", "marked"]),
        ({"labels": ["app=web", "!team"]}, ["web", "both"]),
        ({"labels": "app!=web"}, ["plain", "prod", "marked"]),
        ({"annotations": {"zone.example.com": "a"}}, ["marked"]),
        ({"annotations": "zone.example.com=b"}, []),
        ({"namespaces": "prod-*"}, ["prod", "both"]),
        ({"namespaces": ["prod-*", "!prod-us"]}, ["prod"]),
        ({"namespaces": "prod-*", "labels": "app"}, ["both"]),
    ],
)
def test_a_handler_is_called_only_for_matching_pods(
    nri_runtime: FakeRuntime, choice: dict[str, Any], expected: list[str]
) -> None:
    plugin = recorder(**choice)
    nri_runtime.add(plugin)
    replies = {name: nri_runtime.create_container(make_pod(name, **pod)) for name, pod in PODS.items()}
    assert plugin.seen == expected
    assert [name for name, reply in replies.items() if reply.env] == expected


def test_synchronize_receives_matching_pods_and_the_mirror_all_pods() -> None:
    web, plain = make_pod("web", **WEB), make_pod("plain")
    plugin = recorder(labels="app=web")
    containers = [make_container("in-web", web), make_container("in-plain", plain)]
    with FakeRuntime(pods=[web, plain], containers=containers) as runtime:
        runtime.add(plugin)
        assert plugin.seen == ["pod web", "container in-web"]
        assert sorted(pod.name for pod in plugin.state.pods.values()) == ["plain", "web"]


def test_a_pod_must_match_all_filters(nri_runtime: FakeRuntime) -> None:
    class Both(nri.Plugin):
        @nri.when(namespaces=["*", "!kube-system"])
        @nri.when(labels="app")
        async def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().add_env("A", "1")

    nri_runtime.add(Both())
    passed = [nri_runtime.create_container(make_pod(namespace=ns, **WEB)).env for ns in ("a", "kube-system")]
    assert passed == [{"A": "1"}, {}]
    assert nri_runtime.create_container(make_pod(namespace="a")).env == {}


def test_a_validator_can_have_a_filter(nri_runtime: FakeRuntime) -> None:
    class Strict(nri.Plugin):
        @nri.when(namespaces="prod")
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
            raise nri.Reject("not in prod")

    nri_runtime.add(Strict())
    nri_runtime.create_container(make_pod(namespace="dev"))
    with pytest.raises(ValidationRejected, match="not in prod"):
        nri_runtime.create_container(make_pod(namespace="prod"))


def test_events_inside_a_state_change_are_filtered() -> None:
    texts: list[str] = []

    class Notes(nri.Plugin):
        @nri.when(labels="app")
        def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
            texts.append(pod.name)

    with plugin_thread(Notes()) as running:
        running.runtime.begin()
        for pod in (make_pod("web", **WEB), make_pod("plain")):
            running.runtime.call("StateChange", m.StateChangeEvent(event=m.Event.RUN_POD_SANDBOX, pod=pod))
    assert texts == ["web"]


def test_a_direct_call_of_the_method_is_not_filtered() -> None:
    plugin = recorder(labels="app")
    assert plugin.create_container(make_pod("plain"), make_container()).env == {"SEEN": "plain"}


@pytest.mark.parametrize(
    ("choice", "error", "text"),
    [
        ({}, TypeError, "takes namespaces, labels or annotations by name"),
        ({"labels": "a b"}, ValueError, r'nri.when\(labels=...\): "a b" is not a selector; write key, !key'),
        ({"namespaces": "!"}, ValueError, r'nri.when\(namespaces=...\): "!" is not a namespace'),
        (
            {"labels": {"app": 5}},
            TypeError,
            r"nri.when\(labels=...\): the value of 'app' must be a string, True or False, not 5",
        ),
        ({"annotations": 5}, TypeError, r"nri.when\(annotations=...\) takes a string or several strings, not 5"),
        ({"namespaces": []}, TypeError, r"nri.when\(namespaces=\[\]\) is empty: omit the argument"),
        ({"labels": {}}, TypeError, r"nri.when\(labels={}\) is empty"),
        ({"labels": ["app", "!app"]}, ValueError, r'nri.when: "!app" and "app" exclude each other'),
        ({"namespaces": ["a", 1]}, TypeError, r"nri.when\(namespaces=...\) takes a string or several strings, not 1"),
    ],
)
def test_an_invalid_filter_is_an_error_with_the_right_form(
    choice: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        nri.when(**choice)


def test_a_filter_without_arguments_is_an_error_with_the_right_form() -> None:
    with pytest.raises(TypeError, match=r"write @nri\.when\(labels='app=web'\)"):

        class Forgets(nri.Plugin):
            @nri.when
            def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


def test_a_filter_does_not_import_slow_modules() -> None:
    import subprocess
    import sys

    code = "import sys; import nri; nri.when(labels='a'); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], env=unmeasured(), capture_output=True, text=True, check=True)
    assert not {"dataclasses", "inspect", "logging", "asyncio", "typing"} & set(result.stdout.split()), result.stdout


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("namespace", "did you mean namespaces"),
        ("label", "did you mean labels"),
        ("annotation", "did you mean annotations"),
        ("image", "use namespaces, labels or annotations"),
    ],
)
def test_an_unknown_filter_argument_is_an_error_with_a_suggestion(name: str, hint: str) -> None:
    argument: Any = {name: "web"}
    with pytest.raises(TypeError, match=rf"nri\.when has no argument {name}[;:] {hint}"):
        nri.when(**argument)


def test_filters_that_exclude_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match='"app=db" and "app=web" exclude each other'):

        class Never(nri.Plugin):
            @nri.when(labels="app=web")
            @nri.when(labels="app=db")
            def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


def test_a_filter_value_can_start_with_an_equals_sign() -> None:
    plugin = recorder(annotations={"key": "=x"})
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.create_container(make_pod("equal", annotations={"key": "=x"}))
        runtime.create_container(make_pod("other", annotations={"key": "x"}))
    assert plugin.seen == ["equal"]
