"""The rule from a NodeResourceTopology."""

from typing import Any

from nri.policies.koordinator import names
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.rules import node_topology


def topology(**annotations: str) -> dict[str, Any]:
    keys = {"shared": names.ANNOTATION_SHARE_POOLS, "batch": names.ANNOTATION_BE_SHARE_POOLS}
    keys |= {"system": names.ANNOTATION_SYSTEM_QOS, "kubelet": names.ANNOTATION_CPU_MANAGER}
    return {"metadata": {"annotations": {keys[key]: text for key, text in annotations.items()}}}


def test_a_topology_gives_pools_policy_and_system_cpus() -> None:
    rule = node_topology.parse(
        topology(
            shared='[{"socket":0,"node":0,"cpuset":"0-7"},{"socket":1,"node":1,"cpuset":"8-15"}]',
            kubelet='{"policy":"static","options":{"a":"b"}}',
            system='{"cpuset":"16-17","cpusetExclusive":false}',
        )
    )
    assert (rule.shared(), rule.kubelet_policy, rule.system_cpus) == ("0-7,8-15", "static", "16-17")
    assert node_topology.parse({"metadata": {}}) == node_topology.CpusetRule()


def test_a_share_pool_without_readable_cpus_is_taken_by_the_original() -> None:
    """`bad_share_pool_refused`."""
    bad = topology(shared='[{"cpuset":"a"}]')
    assert node_topology.parse(bad, Quirks.REFERENCE).shared() == "a"
