"""The kubelet's managers beside plugins that pin, judged."""

from __future__ import annotations

from nri.cli.doctor.examination import examine
from nri.cli.settings import Settings
from tests.unit.cli.conftest import lines

STATE = "/var/lib/kubelet/cpu_manager_state"


def told(root: str) -> list[str]:
    return [line for line in lines(examine(Settings(), root)) if "kubelet" in line]


def test_a_manager_is_a_note_and_beside_a_plugin_that_pins_a_warning(put) -> None:
    root = put({STATE: '{"policyName": "static"}'})
    pins = "the kubelet's CPU manager pins containers (policy static)"
    assert told(root) == [f"note: {STATE}: {pins}"]
    put({"/var/lib/nri/placement/balloons.json": "{}"})
    assert told(root) == [f"warning: {STATE}: {pins}, and so does balloons: each undoes the other's work"]
    put({STATE: '{"policyName": "none"}'})
    assert told(root) == []
