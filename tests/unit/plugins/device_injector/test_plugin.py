"""`device-injector`: which annotations count, what a refusal leaves behind, and what is in the log."""

from __future__ import annotations

import logging

import pytest

import nri
from nri.plugins.device_injector.plugin import DeviceInjector
from nri.testing import Created, FakeRuntime, make_container, make_pod
from tests.support.pruned import pruned

DOMAIN = "noderesource.dev"


def create(runtime: FakeRuntime, **annotations: str) -> Created:
    """The container c0 of a pod with these annotations; `devices_` stands for the container's own."""
    if not runtime.plugins:
        runtime.add(DeviceInjector(), idx="10")
    named = {
        f"{key.rstrip('_').replace('_', '-')}.{DOMAIN}{'/container.c0' * key.endswith('_')}": text
        for key, text in annotations.items()
    }
    return runtime.create_container(make_pod(annotations=named), make_container("c0"))


def refusal(runtime: FakeRuntime, **annotations: str) -> str:
    with pytest.raises(nri.PluginRejected) as raised:
        create(runtime, **annotations)
    return raised.value.reason


def test_it_asks_for_creations_only(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(DeviceInjector(), idx="10")
    assert nri_runtime.health("10-device-injector").events == "CreateContainer"


def test_a_container_without_annotations_is_left_alone(nri_runtime: FakeRuntime) -> None:
    assert pruned(create(nri_runtime).adjust) == nri.Adjustment()
    asked = create(nri_runtime, devices="", mounts="[]", sysctl="{}", io_priority="# later", scheduling_policy="~")
    assert pruned(asked.adjust) == nri.Adjustment()


def test_the_containers_annotation_counts_before_the_pods(nri_runtime: FakeRuntime) -> None:
    reply = create(nri_runtime, sysctl_="{a.b: 1}", sysctl="{a.b: 2, c.d: 3}")
    assert pruned(reply.adjust) == nri.Adjustment().set_sysctl("a.b", "1")


def test_an_empty_annotation_of_the_container_takes_it_out_of_the_pods(nri_runtime: FakeRuntime) -> None:
    assert pruned(create(nri_runtime, sysctl_="", sysctl="{a.b: 2}").adjust) == nri.Adjustment()


def test_the_next_container_is_served_after_a_refusal(nri_runtime: FakeRuntime) -> None:
    refusal(nri_runtime, sysctl="x")
    assert pruned(create(nri_runtime, sysctl="{a.b: 1}").adjust) == nri.Adjustment().set_sysctl("a.b", "1")


def test_what_it_does_and_what_it_reads_past_is_in_the_log(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    create(nri_runtime, mounts="[{source: /a, destination: /b, option: ro}]")
    lines = [(one.levelname, one.getMessage()) for one in caplog.records if one.name.startswith("nri.plugin")]
    assert [(level, line.partition(" [pod")[0]) for level, line in lines] == [
        (
            "WARNING",
            'annotation mounts.noderesource.dev: [0].option: unknown key, left out (did you mean "options"?)',
        ),
        ("INFO", "mounts: /a -> /b"),
    ]


def test_a_line_of_the_log_is_short_however_much_was_done(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    create(nri_runtime, mounts="\n".join(f"- {{source: /a, destination: /b/{number}}}" for number in range(1000)))
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("mounts: ")]
    assert len(line) < 1200


def test_a_file_mode_that_is_more_than_permissions_is_warned_of(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    create(nri_runtime, devices="[{path: /dev/x, type: c, major: 1, file_mode: 660}]")
    said = "[0].file_mode: 660 is 0o1224, more than permissions (octal has a leading 0, as in 0660)"
    assert any(said in text for text in caplog.messages)
    caplog.clear()
    create(nri_runtime, devices="[{path: /dev/x, type: c, major: 1, file_mode: 0660}]")
    assert not any("file_mode" in text for text in caplog.messages)
