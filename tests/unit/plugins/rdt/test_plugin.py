"""`rdt`: the three annotations set their fields, and wrong values are refused with their names."""

from __future__ import annotations

import logging

import pytest

import nri
from nri.plugins.rdt.plugin import Rdt
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.pruned import pruned


def create(runtime: FakeRuntime, **fields: str) -> nri.Adjustment:
    if not runtime.plugins:
        runtime.add(Rdt(), idx="10")
    annotations = {f"{field}.rdt.noderesource.dev/container.c0": text for field, text in fields.items()}
    reply = runtime.create_container(make_pod(annotations=annotations), make_container("c0"))
    adjustment: nri.Adjustment = pruned(reply.adjust)
    return adjustment


def test_a_container_without_annotations_is_unchanged(nri_runtime: FakeRuntime) -> None:
    assert create(nri_runtime) == nri.Adjustment()


def test_class_schemata_and_monitoring_are_set(nri_runtime: FakeRuntime) -> None:
    reply = create(nri_runtime, closid="gold", schemata="L3:0=ff;1=ff,MB:0=50", enablemonitoring="true")
    expected = nri.Adjustment().set_rdt_clos_id("gold").set_rdt_schemata(["L3:0=ff;1=ff", "MB:0=50"])
    assert reply == expected.set_rdt_enable_monitoring(True)


@pytest.mark.parametrize(("text", "value"), [("1", True), ("T", True), ("TRUE", True), ("f", False), ("False", False)])
def test_monitoring_accepts_gos_boolean_words(nri_runtime: FakeRuntime, text: str, value: bool) -> None:
    assert create(nri_runtime, enablemonitoring=text) == nri.Adjustment().set_rdt_enable_monitoring(value)


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("closid", "", "\"\" cannot be the name of a class; write, for example, 'gold'"),
        ("closid", "..", '".." cannot be the name of a class'),
        ("closid", "../../etc", '"../../etc" cannot be the name of a class'),
        ("closid", "info", '"info" cannot be the name of a class'),
        ("closid", "a\nb", '"a\\nb" cannot be the name of a class'),
        ("schemata", "", "[0]: \"\" is not a line of schemata; write, for example, 'L3:0=ff;1=ff,MB:0=50'"),
        ("schemata", "L3:0=ff,", '[1]: "" is not a line of schemata'),
        ("schemata", "L3", '[0]: "L3" is not a line of schemata'),
        ("schemata", "L3:0=ff;1", '[0]: "L3:0=ff;1" is not a line of schemata'),
        ("enablemonitoring", "yes", '"yes" is neither true nor false; write true or false'),
        ("enablemonitoring", "", '"" is neither true nor false; write true or false'),
    ],
)
def test_a_wrong_value_is_refused_with_its_annotation(
    nri_runtime: FakeRuntime, field: str, text: str, message: str
) -> None:
    with pytest.raises(nri.PluginRejected) as raised:
        create(nri_runtime, **{field: text})
    assert raised.value.reason.startswith(f"annotation {field}.rdt.noderesource.dev/container.c0: {message}")


def test_annotations_without_effect_are_logged(nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    nri_runtime.add(Rdt(), idx="10")
    pod = make_pod(
        annotations={
            "closID.rdt.noderesource.dev/container.c0": "gold",
            "closid.rdt.noderesource.dev/pod": "gold",
            "closid.rdt.noderesource.dev/container.c1": "silver",
        }
    )
    assert pruned(nri_runtime.create_container(pod, make_container("c0")).adjust) == nri.Adjustment()
    warnings = [one.getMessage().partition(" [pod")[0] for one in caplog.records if one.levelname == "WARNING"]
    assert warnings == [
        "annotation closid.rdt.noderesource.dev/pod has no effect; write closid.rdt.noderesource.dev/container.NAME",
        'unknown annotation "closID.rdt.noderesource.dev/container.c0"; known: closid, schemata, enablemonitoring',
    ]
