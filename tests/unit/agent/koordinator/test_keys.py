"""The gates that a NodeSLO requests, and the rule keys of each hook and strategy."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator.documents import DEFAULTS
from nri.agent.koordinator.keys import requested_gates
from nri.agent.koordinator.profile import PROFILE
from nri.agent.koordinator.unread_keys import unread

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
def test_an_enabled_strategy_requests_its_gate(spec: dict[str, Any], gates: dict[str, str]) -> None:
    assert requested_gates({"spec": spec}) == gates


@pytest.mark.parametrize(
    "document", [None, {}, {"spec": None}, {"spec": 5}, {"spec": DEFAULTS}, {"spec": {STRATEGY: []}}]
)
def test_defaults_and_empty_documents_request_no_gate(document: Any) -> None:
    assert requested_gates(document) == {}


#: Hooks that read pods alone.
_PODS_ALONE = {hook.name for hook in PROFILE.hooks if not set(hook.sources) - {"pods"}}


@pytest.mark.parametrize("name", [row.name for row in (*PROFILE.hooks, *PROFILE.strategies)])
def test_every_hook_and_strategy_has_known_keys(name: str) -> None:
    actual = PROFILE.origins(name, "BE")
    assert bool(actual) is (name not in _PODS_ALONE)
    for kind, key in actual:
        spec: dict[str, object] = {"spec": {}}
        part = spec["spec"]
        for entry in key.split(".") if kind == "NodeSLO" else ():
            assert isinstance(part, dict)
            part[entry] = {}
            part = part[entry]
        assert unread(spec) == []


def test_a_class_key_follows_the_pods_class_or_its_kubernetes_class() -> None:
    keys = [
        PROFILE.origins("GroupIdentity", of)[0][1].split(".")[1] for of in ("BE", "LSE", "BestEffort", "Burstable", "")
    ]
    assert keys == ["beClass", "lsrClass", "beClass", "lsClass", "lsClass"]
