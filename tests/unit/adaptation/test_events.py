"""Events of a runtime as methods: their list, deadlines, and failed removals."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.errors import DeadlineExceeded, PluginError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin

POD, CONTAINER = make_pod(), make_container(id="c")


def call(runtime: FakeRuntime, method: str, **when: float) -> Any:
    """One event of each kind, by its method."""
    spec = next(spec for spec in EVENTS if spec.method == method)
    arguments: list[Any] = [POD] if spec.kind == "pod" else [POD, CONTAINER]
    if method == "update_container":
        arguments.append(m.LinuxResources())
    return getattr(runtime.adaptation, method)(*arguments, **when)


METHODS = [spec.method for spec in EVENTS if spec.kind in ("pod", "container") and "validate" not in spec.method]


@pytest.mark.parametrize("method", METHODS)
def test_every_event_reaches_a_plugin_with_a_handler(nri_runtime: FakeRuntime, method: str) -> None:
    calls: list[Any] = []
    nri_runtime.add(plugin("a", **{method: lambda *arguments: calls.append(arguments[0].id)}))
    call(nri_runtime, method)
    assert calls == [POD.id]


@pytest.mark.parametrize("method", METHODS)
def test_wrong_arguments_are_refused_with_the_expected_ones(nri_runtime: FakeRuntime, method: str) -> None:
    spec = next(spec for spec in EVENTS if spec.method == method)
    of_pod = spec.kind == "pod"
    arguments: list[Any] = [{"id": "p"}] if of_pod else [CONTAINER, POD]
    if method == "update_container":
        arguments.append(m.LinuxResources())
    with pytest.raises(TypeError) as caught:
        getattr(nri_runtime.adaptation, method)(*arguments)
    takes = "(pod) takes PodSandbox" if of_pod else "(pod, container) takes PodSandbox and Container"
    names = "dict" if of_pod else "Container and PodSandbox"
    assert str(caught.value) == f"{method}{takes} of nri.api.messages, not {names}"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", ["timeout_s", "deadline", "both"])
def test_every_event_ends_at_the_first_limit_of_the_caller(nri_runtime: FakeRuntime, method: str, limit: str) -> None:
    go = threading.Event()
    nri_runtime.timeout(30).add(plugin("a", **{method: lambda *_: go.wait(20) and None}))
    soon, late = 0.02, 20.0
    when = {
        "timeout_s": {"timeout_s": soon},
        "deadline": {"deadline": time.monotonic() + soon},
        "both": {"timeout_s": late, "deadline": time.monotonic() + soon},
    }[limit]
    try:
        with pytest.raises(DeadlineExceeded):
            call(nri_runtime, method, **when)
    finally:
        go.set()


def test_an_update_of_a_pod_has_its_resources_and_its_overhead(nri_runtime: FakeRuntime) -> None:
    calls: list[tuple[int, int]] = []

    def update(pod: nri.PodSandbox, overhead: m.LinuxResources, resources: m.LinuxResources) -> None:
        calls.append((overhead.cpu.shares.value, resources.cpu.shares.value))

    nri_runtime.add(plugin("a", update_pod_sandbox=update))
    overhead, resources = m.LinuxResources(), m.LinuxResources()
    overhead.cpu.shares.value, resources.cpu.shares.value = 1, 2
    nri_runtime.adaptation.update_pod_sandbox(POD, overhead, resources)
    assert calls == [(1, 2)]


@pytest.mark.parametrize(("method", "names"), [("remove_container", False), ("stop_container", True)])
def test_a_removed_container_is_forgotten_even_if_a_plugin_refuses(
    nri_runtime: FakeRuntime, method: str, names: bool
) -> None:
    def refuse(*_: Any) -> None:
        raise nri.Reject("no")

    nri_runtime.adaptation.create_container(POD, CONTAINER)
    nri_runtime.add(plugin("a", **{method: refuse}))
    with pytest.raises(PluginError):
        call(nri_runtime, method)
    assert ("c" in parts_of(nri_runtime.adaptation).trail.inventory.known) is names
