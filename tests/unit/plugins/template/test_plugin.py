"""`template` logs a line for every pod and container event and changes no container."""

from __future__ import annotations

import logging

import pytest

import nri
from nri.api import messages as m
from nri.api.events import ALL
from nri.plugins.template.plugin import Template
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.plugin_program import Listener, plugin_program


def test_the_plugin_handles_all_events_except_pod_updates_and_validation(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Template(), idx="10")
    left_out = nri.EventMask.of("UpdatePodSandbox", "PostUpdatePodSandbox", "ValidateContainerAdjustment")
    assert nri_runtime.health("10-template").events == str(ALL - left_out)


def test_each_event_logs_a_line_and_changes_no_container(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nri_runtime.add(Template(), idx="10")
    pod = make_pod(name="web", namespace="shop")
    nri_runtime.run_pod_sandbox(pod)
    reply = nri_runtime.create_container(pod, make_container(name="app"))
    nri_runtime.stop_pod_sandbox(pod)
    assert Template().create_container(pod, make_container()) is None
    assert not reply.updates
    assert [record.getMessage() for record in caplog.records if "[pod" in record.getMessage()] == [
        "pod started [pod shop/web]",
        "creating container [pod shop/web, container app]",
        "pod stopped [pod shop/web]",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ("remove_pod_sandbox", "pod removed [pod shop/web]"),
        ("post_create_container", "container created [pod shop/web, container app]"),
        ("start_container", "starting container [pod shop/web, container app]"),
        ("post_start_container", "container started [pod shop/web, container app]"),
        ("update_container", "updating container [pod shop/web, container app]"),
        ("post_update_container", "container updated [pod shop/web, container app]"),
        ("stop_container", "container stopped [pod shop/web, container app]"),
        ("remove_container", "container removed [pod shop/web, container app]"),
    ],
)
def test_events_of_existing_pods_and_containers_are_logged(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture, event: str, line: str
) -> None:
    nri_runtime.add(Template(), idx="10")
    pod, container = make_pod(name="web", namespace="shop"), make_container(name="app")
    nri_runtime.run_pod_sandbox(pod)
    nri_runtime.create_container(pod, container)
    caplog.clear()
    caplog.set_level(logging.INFO)
    getattr(nri_runtime, event)(*((pod,) if "pod" in event else (pod, container)))
    assert [record.getMessage() for record in caplog.records if "[pod" in record.getMessage()] == [line]


def test_updates_and_stops_change_no_container(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Template(), idx="10")
    pod, container = make_pod(), make_container()
    nri_runtime.create_container(pod, container)
    resources = m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=512)))
    updated = nri_runtime.update_container(pod, container, resources)
    assert (updated.changed, updated.reply.resources, updated.updates) == (False, resources, {})
    assert nri_runtime.stop_container(pod, container).updates == {}


def test_sigterm_ends_the_program_with_0(tmp_path) -> None:
    arguments = ["-m", "nri.plugins.template.plugin", "-idx", "10", "-socket", tmp_path / "s"]
    with Listener(tmp_path / "s") as listener, plugin_program(tmp_path, *arguments) as program:
        listener.accept().begin()
        program.wait_text("synchronized with 0 pods and 0 containers")
        assert program.stop() == 0


def test_a_flag_overrides_the_configuration(tmp_path) -> None:
    (tmp_path / "t.yaml").write_text("cfgParam1: file\n")
    arguments = ["-m", "nri.plugins.template.plugin", "-idx", "10", "-cfg-param1=flag", "-config", tmp_path / "t.yaml"]
    with Listener(tmp_path / "s") as listener:
        with plugin_program(tmp_path, *arguments, "-socket", tmp_path / "s") as program:
            listener.accept().begin()
            program.wait_text('cfgParam1 "flag"')
