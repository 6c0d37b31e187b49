"""`memory-qos`: errors of configuration and annotations. Its answers are tested in tests/conformance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.plugins.memory_qos import plugin
from nri.plugins.memory_qos.plugin import MemoryQos, high_bytes
from nri.testing import FakeRuntime, make_container, make_pod

CONFIG = "classes: [{name: silver, swaplimitratio: 0.2}]\nunifiedannotations: [memory.high]\n"


def create(runtime: FakeRuntime, annotations: dict[str, str], **fields: Any) -> Any:
    pod = make_pod(annotations={key.replace("@", ".memory-qos.nri.io"): value for key, value in annotations.items()})
    return runtime.create_container(pod, make_container("c0", **fields)).unified


def test_an_own_value_overrides_the_class(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(MemoryQos(), idx="10", config=CONFIG)
    reply = create(nri_runtime, {"class@": "silver", "memory.high@/c0": "max"}, memory_limit=1 << 20)
    assert reply == {"memory.high": "max", "memory.swap.max": "max"}


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"class@/c0": "gold"}, 'annotation class@/c0: class "gold" not found; existing classes: silver'),
        ({"class@": "silver"}, "annotation class@: container c0 has no memory limit, which the class requires"),
        ({"memory.low@": "1"}, 'annotation memory.low@: "memory.low" is not allowed (allowed: memory.high)'),
        ({"../x@": "1"}, 'annotation ../x@: "../x" is not allowed'),
        ({"memory.high@": "a\0b"}, "annotation memory.high@: "),
    ],
)
def test_an_invalid_annotation_refuses_the_container_with_its_key(
    nri_runtime: FakeRuntime, annotations: dict[str, str], message: str
) -> None:
    nri_runtime.add(MemoryQos(), idx="10", config=CONFIG)
    with pytest.raises(nri.PluginRejected) as raised:
        create(nri_runtime, annotations)
    assert raised.value.reason.startswith(message.replace("@", ".memory-qos.nri.io"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("classes: [{name: a, swaplimitratio: 1.5}]", "swaplimitratio must be from 0 to 1, not 1.5"),
        ("classes: [{name: a, swaplimitratio: -1}]", "swaplimitratio must be from 0 to 1"),
        ("classes: [{swaplimitratio: 1}]", "name: missing"),
        ("classes: [{name: ''}]", "the name of a class must not be empty"),
        ("classes: [{name: a}, {name: a}]", 'classes: duplicate name "a"'),
        ("classes: [{name: a, swapLimitRation: 1}]", 'did you mean "swaplimitratio"?'),
        ("unifiedannotations: [../../cpu.max]", 'unifiedannotations: "../../cpu.max" is not a file of cgroup v2'),
    ],
)
def test_an_invalid_configuration_is_an_error_with_its_key(nri_runtime: FakeRuntime, config: str, message: str) -> None:
    with pytest.raises(nri.NriError, match=re.escape(message)):
        nri_runtime.add(MemoryQos(), idx="10", config=config)


def test_without_a_configuration_a_warning_is_logged(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    nri_runtime.add(MemoryQos(), idx="10")
    assert "classes and unifiedannotations are empty" in caplog.text
    with pytest.raises(nri.PluginRejected, match=r"existing classes: none"):
        create(nri_runtime, {"class@": "silver"})


def test_the_watermark_is_computed_in_single_precision() -> None:
    assert high_bytes(1 << 30, 0.1) == 966367616  # 966367641 in double precision


def test_classes_without_a_ratio_change_no_container(
    nri_runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin, "SECOND_VERSION", str(tmp_path))
    nri_runtime.add(MemoryQos(), idx="10", config="classes: [{name: plain}]")
    assert create(nri_runtime, {"class@": "plain"}) == create(nri_runtime, {"class@": ""}) == {}
    assert "cgroup v1" not in caplog.text
