"""`template`: every pod and container event gets its line, and nothing is changed."""

from __future__ import annotations

import logging

import pytest

import nri
from nri.api.events import ALL
from nri.plugins.template.plugin import Template
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.plugin_program import Listener, plugin_program


def test_it_handles_every_event_but_those_of_pod_resources_and_validation(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Template(), idx="10")
    left_out = nri.EventMask.of("UpdatePodSandbox", "PostUpdatePodSandbox", "ValidateContainerAdjustment")
    assert nri_runtime.health("10-template").events == str(ALL - left_out)


def test_it_logs_a_line_for_each_event_and_changes_nothing(
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


def test_its_parameter_comes_from_a_flag_before_the_configuration(tmp_path) -> None:
    (tmp_path / "t.yaml").write_text("cfgParam1: file\n")
    arguments = ["-m", "nri.plugins.template.plugin", "-idx", "10", "-cfg-param1=flag", "-config", tmp_path / "t.yaml"]
    with Listener(tmp_path / "s") as listener:
        with plugin_program(tmp_path, *arguments, "-socket", tmp_path / "s") as program:
            listener.accept().begin()
            program.wait_text('cfgParam1 "flag"')
