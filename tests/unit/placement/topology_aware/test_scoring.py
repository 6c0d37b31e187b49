"""The order of pools: the deciding comparison, and a total order."""

from nri.placement.choices import Choices
from nri.placement.topology_aware.policy import TopologyAware
from nri.placement.topology_aware.requests import request_of
from nri.placement.topology_aware.scoring import Score, Scoring, affinity_score
from tests.support.placement import container, topology_aware


def scored(policy: TopologyAware, qos: str, level: str, cpu_m: int = 500) -> tuple[Scoring, dict[str, Score]]:
    request = request_of(container("main", cpu_m, qos=qos), policy.options, policy.choices, policy.zones)
    scores = {pool.name: Score.of(pool, request, policy.machine) for pool in policy.pools.by_id}
    return Scoring(request, policy.zones, level, policy.choices), scores


def test_the_deciding_comparison_has_a_name() -> None:
    scoring, scores = scored(topology_aware(), "Guaranteed", "package")
    node, other, root = (scores[name] for name in ("NUMA node #1", "NUMA node #0", "root"))
    assert scoring.compare(node, root) == (1, "deeper pool")
    assert scoring.compare(other, node) == (-1, "more free CPU")
    other.affinity = 1.0
    assert scoring.compare(other, node) == (1, "affinity")
    node.shared_m = -1
    assert scoring.compare(root, node) == (1, "enough CPU")
    assert node.lacks(scoring.request) == "1m CPU"


def test_pools_have_one_order() -> None:
    """`pools_have_one_order`: in nri-plugins the better of two pools can depend on the order of the comparison."""
    for choices, both in ((Choices.REFERENCE, True), (Choices.DEFAULT, False)):
        scoring, scores = scored(topology_aware(choices=choices), "Burstable", "package")
        root, node = scores["root"], scores["NUMA node #2"]
        assert scoring.compare(node, root)[0] > 0
        assert (scoring.compare(root, node)[0] > 0) is both
        isolated, shared = scores["NUMA node #0"], scores["NUMA node #3"]
        isolated.isolated, isolated.shared_m, shared.isolated, shared.shared_m = 0, -1, -1, 0
        assert (scoring.compare(isolated, shared)[0] == scoring.compare(shared, isolated)[0]) is both


def test_the_name_of_a_container_does_not_affect_its_pool() -> None:
    places = set()
    for number in range(16):
        policy = topology_aware()
        policy.create(container(f"c{number}", 1000))
        places.add(policy.pins[f"c{number}"])
    assert len(places) == 1


def test_affinity_counts_less_with_each_step() -> None:
    pools = topology_aware().pools
    node, package, root = (pools.by_name[name] for name in ("NUMA node #0", "socket #0", "root"))
    weights = {node.id: 4}
    assert [affinity_score(weights, pool) for pool in (node, package, root)] == [4.0, 3.0, 2.25]
    assert affinity_score({root.id: 4}, node) == 2.25
