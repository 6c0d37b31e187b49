"""The keys of rules by which each hook and strategy decides."""

from __future__ import annotations

import pytest

from nri.agent.profiles.koordinator import PROFILE
from nri.policies.koordinator.rules.origins import origins
from nri.policies.koordinator.rules.unread import unread

#: They read pods alone.
_PODS_ALONE = {"GPUEnvInject", "OOMScoreAdj", "RDMADeviceInject", "Resctrl"}


@pytest.mark.parametrize("name", [row.name for row in (*PROFILE.hooks, *PROFILE.strategies)])
def test_every_hook_and_strategy_has_keys_that_are_read(name: str) -> None:
    found = origins(name, "BE")
    assert bool(found) is (name not in _PODS_ALONE)
    for kind, key in found:
        spec: dict[str, object] = {"spec": {}}
        part = spec["spec"]
        for each in key.split(".") if kind == "NodeSLO" else ():
            assert isinstance(part, dict)
            part[each] = {}
            part = part[each]
        assert unread(spec) == []


def test_a_key_of_a_class_is_that_of_the_pods_class_or_of_its_kubernetes_class() -> None:
    keys = [origins("GroupIdentity", of)[0][1].split(".")[1] for of in ("BE", "LSE", "BestEffort", "Burstable", "")]
    assert keys == ["beClass", "lsrClass", "beClass", "lsClass", "lsClass"]
