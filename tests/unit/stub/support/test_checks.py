"""Mistakes in a plugin's class are found when it is made."""

from __future__ import annotations

import pytest

import nri
from nri.stub.support.checks import kebab_case


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("create_containr", "create_container"),
        ("create_containers", "create_container"),
        ("craete_container", "create_container"),
        ("run_pod_sandbx", "run_pod_sandbox"),
        ("synchronise", "synchronize"),
        ("configur", "configure"),
        ("CreateContainer", "create_container"),
        ("StopPodSandbox", "stop_pod_sandbox"),
    ],
)
def test_a_misspelt_handler_is_an_error_with_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"Wrong\.{name} is not an NRI event; did you mean {meant}\?"):
        type("Wrong", (nri.Plugin,), {name: lambda self, pod, container: None})


@pytest.mark.parametrize("name", ["_create_containr", "close", "helper", "container_zone", "remove", "lookup_pod"])
def test_other_methods_are_the_plugins_own_business(name: str) -> None:
    made = type("Right", (nri.Plugin,), {name: lambda self: None})
    assert made.name == "right"


def test_a_handler_with_the_wrong_arguments_is_an_error() -> None:
    with pytest.raises(
        TypeError, match=r"Wrong\.create_container is called with \(pod, container\), and takes \(container\)"
    ):

        class Wrong(nri.Plugin):
            def create_container(self, container): ...


def test_a_handler_with_a_required_keyword_is_an_error() -> None:
    with pytest.raises(TypeError, match="is called with"):

        class Wrong(nri.Plugin):
            def create_container(self, pod, container, *, zone): ...


def test_a_handler_may_take_anything_and_have_defaults() -> None:
    class Right(nri.Plugin):
        def create_container(self, *args, **kwargs): ...

        def start_container(self, pod, container, zone="a"): ...

    assert Right.name == "right"


def test_a_handler_that_is_no_method_is_an_error() -> None:
    with pytest.raises(TypeError, match="must be a method"):
        type("Wrong", (nri.Plugin,), {"create_container": 5})


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("PodName", "pod-name"),
        ("HTTPInjector", "http-injector"),
        ("Pin", "pin"),
        ("My_Plugin", "my-plugin"),
        ("A2B", "a2-b"),
    ],
)
def test_the_name_is_the_class_name_in_kebab_case(class_name: str, name: str) -> None:
    assert kebab_case(class_name) == name
