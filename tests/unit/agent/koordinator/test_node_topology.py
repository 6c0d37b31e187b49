"""The rule from a NodeResourceTopology."""

from typing import Any

import pytest

from nri.agent.koordinator import names, node_topology
from nri.agent.koordinator.quirks import Quirks


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


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ('{"reservedCPUs":"0-1,8","resources":{"cpu":"9"}}', 3000),
        ('{"resources":{"cpu":"1500m","memory":"1Gi"}}', 1500),
        ('{"resources":{"memory":"1Gi"}}', 0),
        ("{}", 0),
        ('{"reservedCPUs":"a"}', 0),
        ("[", 0),
        (None, 0),
    ],
    ids=["CPUs before resources", "resources", "no CPU", "nothing", "no CPUs", "no JSON", "no annotation"],
)
def test_a_node_keeps_the_cpus_of_its_annotation_and_none_by_one_that_cannot_be_read(
    text: str | None, milli: int
) -> None:
    assert node_topology.reserved_milli({} if text is None else {names.ANNOTATION_RESERVATION: text}) == milli
