"""The gates that a NodeSLO asks for."""

from __future__ import annotations

from typing import Any

import pytest

from nri.policies.koordinator.rules.asked import asked
from nri.policies.koordinator.rules.defaults import DEFAULTS

STRATEGY, THRESHOLD = "resourceQOSStrategy", "resourceUsedThresholdWithBE"
ON = {"enable": True}


@pytest.mark.parametrize(
    ("spec", "gates"),
    [
        ({STRATEGY: {"lsClass": {"memoryQOS": ON}}}, {"CgroupReconcile": f"{STRATEGY}.lsClass.memoryQOS.enable"}),
        (
            {"systemStrategy": {"totalNetworkBandwidth": "1G", "minFreeKbytesFactor": 50}},
            {"SystemConfig": "systemStrategy.minFreeKbytesFactor"},
        ),
        ({STRATEGY: {"beClass": {"blkioQOS": ON}}}, {"BlkIOReconcile": f"{STRATEGY}.beClass.blkioQOS.enable"}),
        ({STRATEGY: {"lsClass": {"cpuQOS": ON}}}, {"GroupIdentity": f"{STRATEGY}.lsClass.cpuQOS.enable"}),
        (
            {STRATEGY: {"policies": {"cpuPolicy": "coreSched", "netQOSPolicy": 5}, "beClass": {"cpuQOS": ON}}},
            {"CoreSched": f"{STRATEGY}.beClass.cpuQOS.enable"},
        ),
        (
            {STRATEGY: {"policies": {"netQOSPolicy": "terway-qos"}, "beClass": {"networkQOS": ON}}},
            {"TerwayQoS": f"{STRATEGY}.beClass.networkQOS.enable"},
        ),
        ({THRESHOLD: ON}, {"BECPUSuppress": f"{THRESHOLD}.enable"}),
        (
            {THRESHOLD: {**ON, "memoryEvictThresholdPercent": 70, "cpuEvictThresholdPercent": "x"}},
            {
                "BECPUSuppress": f"{THRESHOLD}.enable",
                "BEMemoryEvict": f"{THRESHOLD}.memoryEvictThresholdPercent",
            },
        ),
        ({"cpuBurstStrategy": {"policy": "auto"}}, {"CPUBurst": "cpuBurstStrategy.policy"}),
    ],
)
def test_what_is_switched_on_asks_for_its_gate_by_its_key(spec: dict[str, Any], gates: dict[str, str]) -> None:
    assert asked({"spec": spec}) == gates


@pytest.mark.parametrize(
    "document", [None, {}, {"spec": None}, {"spec": 5}, {"spec": DEFAULTS}, {"spec": {STRATEGY: []}}]
)
def test_defaults_and_nothing_ask_for_none(document: Any) -> None:
    assert asked(document) == {}
