"""The last good rule stays."""

from typing import Any

import pytest

from nri.policies.koordinator import names
from nri.policies.koordinator.rules import node_topology
from nri.policies.koordinator.rules.kept import Kept


def topology(**annotations: str) -> dict[str, Any]:
    keys = {"shared": names.ANNOTATION_SHARE_POOLS, "batch": names.ANNOTATION_BE_SHARE_POOLS}
    keys |= {"system": names.ANNOTATION_SYSTEM_QOS, "kubelet": names.ANNOTATION_CPU_MANAGER}
    return {"metadata": {"annotations": {keys[key]: text for key, text in annotations.items()}}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"shared": "x"},
        {"batch": "{}"},
        {"system": '{"cpuset":"5-1"}'},
        {"kubelet": "[]"},
        {"shared": '[{"cpuset":"a"}]'},
    ],
)
def test_a_topology_that_cannot_be_read_keeps_the_last_good_rule(wrong: dict[str, str]) -> None:
    kept = Kept(node_topology.CpusetRule(system_cpus="0"))
    assert not kept.take(lambda: node_topology.parse(topology(**wrong)))
    assert kept.rule.system_cpus == "0"
    assert kept.error.startswith("annotation ")
    assert kept.take(lambda: node_topology.parse(topology()))
    assert kept.error == ""
