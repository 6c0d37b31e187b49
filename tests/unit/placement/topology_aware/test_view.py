"""topology-aware's pools, explanations and measurements."""

from __future__ import annotations

from dataclasses import replace

from nri.host.topology import Topology
from nri.kube.requests import Requests
from nri.placement.containers import Hint
from nri.placement.topology_aware.policy import TopologyAware
from tests.support.placement import GIB, container, guest, topology_aware


def by_place(policy: TopologyAware, name: str) -> dict[str, tuple[str, str]]:
    """Of each pool that was looked at for a container, what decided against it, and what would change that."""
    return {candidate.place: (candidate.lost, candidate.change) for candidate in policy.explain(name).candidates}


def test_every_other_pool_has_the_reason_against_it_and_a_remedy() -> None:
    policy = topology_aware()
    policy.create(container("a", 3000))
    policy.create(container("b", 2000))
    candidates = by_place(policy, "b")
    assert set(candidates) == {pool.name for pool in policy.pools.by_id}
    chosen = policy.explain("b").place
    assert candidates.pop(chosen) == ("", "")
    assert candidates["NUMA node #0"][0] == "more free CPU"
    assert candidates["NUMA node #1"] == ("enough CPU", "1000m CPU more, or a smaller request")
    assert candidates["root"] == ("fewer memory nodes", "a memory request that fits in fewer nodes")


def test_each_comparison_has_its_own_text() -> None:
    policy = topology_aware(colocatePods=True)
    policy.create(container("a", 2000))
    policy.create(container("near", 1000, pod="a"))
    assert by_place(policy, "near")["NUMA node #3"][0] == "affinity"
    hinted = container("hinted", 1000)
    hinted.hints = {"device": Hint(nodes="3")}
    policy.create(hinted)
    assert by_place(policy, "hinted")["NUMA node #0"] == ("hints", "devices that are nearer to it")
    policy.create(container("burst", 500, qos="Burstable", limit_m=3500))
    assert by_place(policy, "burst")["NUMA node #1"] == ("CPU up to the limit", "a CPU limit of at most 1000m")
    policy.create(container("unlimited", 500, qos="Burstable"))
    assert "unlimited-burstable: numa" in by_place(policy, "unlimited")["NUMA node #0"][1]
    policy.create(container("large", 500, memory=3 * GIB))
    assert by_place(policy, "large")["NUMA node #0"][0] in ("fewer memory nodes", "memory offer")


def test_a_better_pool_shows_why_it_was_not_used() -> None:
    policy = topology_aware(colocatePods=True)
    for name in ("a", "b", "c", "d", "e"):
        policy.create(container(name, 500))
    strict = container("strict", 500, pod="a", **{"strict.topologyhints": "true"})
    strict.hints = {"device": Hint("12-15", "3")}
    policy.create(strict)
    lost, change = by_place(policy, "strict")[policy.explain("a").place]
    assert (lost, change) == ("could not serve it: CPUs 12-15, which its strict hints require", "enough free resources")
    stays = policy.explain("e").place
    for name in [name for name, grant in policy.grants.items() if grant.pool.name != stays]:
        policy.release(name)
    policy.resize("e", Requests(600, 600))
    assert ("the container still fits in its pool", "create the container again") in by_place(policy, "e").values()


def test_isolated_cpus_and_equal_pools_are_explained() -> None:
    for isolated in (frozenset[int](), frozenset({6, 7})):
        policy = topology_aware(replace(guest(), isolated=isolated))
        policy.create(container("own", 1000))
        explanation = policy.explain("own")
        assert ("1 exclusive isolated CPU" in explanation.request) is bool(isolated)
        assert ("isolated left" in explanation.candidates[0].has) is bool(isolated)
        if not isolated:
            assert (
                next(candidate.lost for candidate in explanation.candidates if candidate.place == "NUMA node #3")
                == "lower number"
            )


def test_requests_are_described_in_words() -> None:
    policy = topology_aware(reservedPoolNamespaces=["infra"])
    words = {}
    for row in (
        container("own", 3000, memory=1024),
        container("mixed", 1500),
        container("none", 0),
        container("infra", 100, namespace="infra"),
        container("alone", 1000, **{"cpu.preserve": "true", "memory.preserve": "true"}),
    ):
        policy.create(row)
        words[row.id] = policy.explain(row.id).request
    assert words["own"] == "Guaranteed, 3 exclusive CPUs, 1 KiB of memory"
    assert words["mixed"].startswith("Guaranteed, 1 exclusive CPU, 500m of shared CPUs")
    assert words["none"].startswith("BestEffort, 0m of shared CPUs")
    assert words["infra"].startswith("Guaranteed, 100m of reserved CPUs")
    assert words["alone"] == "Guaranteed, its CPUs are preserved"


def test_a_restored_container_is_compared_like_a_new_one() -> None:
    policy = topology_aware()
    for name in ("a", "b", "c", "d"):
        policy.create(container(name, 2000))
    state = policy.saved()
    for name in ("a", "b"):
        policy.release(name)
    containers = dict(policy.containers)
    restored = TopologyAware(policy.machine, policy.options, state=state, containers=containers)
    before = dict(restored.pins)
    explanation = restored.explain("c")
    assert not explanation.then
    assert explanation.place == restored.grants["c"].pool.name
    assert [candidate.lost for candidate in explanation.candidates].count("") == 1
    now = by_place(restored, "d")
    assert now["NUMA node #1"] == ("better now: more free CPU", "create the container again")
    assert dict(restored.pins) == before
    assert list(restored.grants) == list(containers)
    restored.resize("c", Requests(1000, 1000))
    assert restored.explain("c").then, "a container that was placed anew has an account of that"


def test_metrics_of_pools_add_up() -> None:
    topology: Topology = guest()
    policy = topology_aware(topology)
    policy.create(container("own", 2000, memory=GIB))
    policy.create(container("part", 700, memory=GIB))
    actual, labels = dict[str, dict[str, float]](), dict[str, set[str]]()
    for gauge in policy.gauges():
        name = gauge.name.removeprefix("nri_policy_topologyaware_zone_")
        actual.setdefault(name, {})[gauge.labels["zone"]] = gauge.value
        labels[name] = set(gauge.labels) - {"zone"}
    assert labels == {
        "cpu_capacity_cores": {"cpus", "mems"}, "cpu_shared_capacity_cores": set(), "cpu_shared_assigned_cores": set(),
        "cpu_shared_available_cores": set(), "mem_capacity_bytes": {"mems"}, "mem_assigned_bytes": {"mems"},
        "mem_available_bytes": {"mems"}, "container_count": set(), "shared_container_count": set(),
    }  # fmt: skip
    root = {name: values["root"] for name, values in actual.items()}
    assert root["cpu_capacity_cores"] == 16
    assert root["cpu_shared_capacity_cores"] == 13
    assert root["cpu_shared_assigned_cores"] == 0.7
    assert root["mem_assigned_bytes"] == 2 * GIB
    assert root["mem_available_bytes"] + root["mem_assigned_bytes"] == 8 * GIB
    assert sum(actual["container_count"].values()) == 2
    assert sum(actual["shared_container_count"].values()) == 1
