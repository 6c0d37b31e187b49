"""Options of topology-aware, and options that contradict the machine."""

import pytest

from nri.placement import masks
from tests.support.placement import topology_aware


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"reservedResources": {}}, "reservedResources.cpu: missing"),
        ({"reservedResources": {"cpu": "cpuset:99"}}, "99 are not among the available CPUs"),
        ({"reservedResources": {"cpu": "0"}}, "topology-aware requires at least one reserved CPU"),
        ({"availableResources": {"cpu": "4"}}, "write a list"),
        ({"preferSharedCPU": True}, 'did you mean "preferSharedCPUs"'),
        ({"unlimitedBurstable": "socket"}, "expected one of system, package"),
    ],
)
def test_contradictory_options_are_refused(spec: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        topology_aware(**spec)


def test_reserved_cpus_are_picked_among_the_available_ones() -> None:
    policy = topology_aware(reservedResources={"cpu": "1500m"}, availableResources={"cpu": "exclude-cpuset:0-3"})
    assert masks.text(policy.reserved) == "4-5"
    assert masks.text(policy.pools.root.sharable) == "6-15"
