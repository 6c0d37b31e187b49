"""topology-aware on a machine of four memory nodes with four CPUs each. Deviations show both modes."""

import re
from dataclasses import replace

import pytest

from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.amounts import Amounts
from nri.placement.choices import Choices
from nri.placement.containers import Container, Hint, NoPlace, Pins
from nri.placement.machine import Machine
from nri.placement.state import PlacementState
from nri.placement.topology_aware.options import Options
from nri.placement.topology_aware.policy import TopologyAware
from tests.support.placement import GIB, container, guest, topology_aware, with_memory

MODES = (Choices.DEFAULT, Choices.REFERENCE)


def test_exclusive_cpus_leave_the_shared_cpus_and_return() -> None:
    policy = topology_aware()
    assert policy.create(container("shared", 500, qos="Burstable", limit_m=600)) == {"shared": Pins("4-7", "1", 512)}
    pins = policy.create(container("own", 14000))
    assert pins == {"own": Pins("1-6,8-15", "0-3", 14336), "shared": Pins("7")}
    assert policy.release("own") == {"shared": Pins("4-7")}
    assert policy.pools.root.free_sharable == policy.pools.root.sharable


def test_lower_pools_keep_their_shares() -> None:
    """`lower_pools_keep_their_shares`: CPUs of a package leave each node what it has promised, and so each cache in it.

    Else what one policy has given the next one finds to be too much, and does not take up.
    """
    for choices in MODES:
        policy = topology_aware(guest(1, 2, 8, 2, l3_groups=""), choices)
        for name, cpu_m in (("a", 9500), ("b", 9500), ("c", 11000)):
            policy.create(container(name, cpu_m))
        assert [grant.pool.level for grant in policy.grants.values()] == ["numa", "numa", "package"]
        remaining = all(pool.own_shared_m() >= 0 for pool in policy.pools.by_id)
        assert remaining == (choices is Choices.DEFAULT)
        assert (restarted(policy).saved() == policy.saved()) == remaining


def test_next_pool_is_tried() -> None:
    """`next_pool_is_tried`: affinity prefers one node, and a strict hint requires another."""
    for choices in MODES:
        policy = topology_aware(choices=choices, colocatePods=True)
        policy.create(container("first", 500, pod="pod"))
        second = container("second", 500, pod="pod", **{"strict.topologyhints": "true"})
        second.hints = {"device": Hint("12-15", "3")}
        if choices is Choices.DEFAULT:
            assert policy.create(second)["second"].cpus == "12-15"
        else:
            with pytest.raises(NoPlace, match="NUMA node #1 lacks CPUs 12-15, which its strict hints require"):
                policy.create(second)


def test_idle_containers_fit() -> None:
    """`idle_containers_fit`: nri-plugins refuses the second container when all CPU is promised."""
    for choices in MODES:
        policy = topology_aware(guest(1, 1, 2, 1), choices)
        policy.create(container("all", 1000, qos="Burstable", limit_m=1000))
        policy.create(container("idle"))
        if choices is Choices.DEFAULT:
            assert policy.create(container("more"))["more"].cpus == "1"
        else:
            with pytest.raises(NoPlace, match="socket #0 lacks"):
                policy.create(container("more"))


ALL_OWN = [container(name, 1000) for name in "abc"]


@pytest.mark.parametrize(
    "ones",
    [
        [container("idle", qos="Guaranteed"), *ALL_OWN],
        [container("idle", memory=3 * GIB, qos="Burstable"), *ALL_OWN],
        [*ALL_OWN, container("idle")],
        [container("two", 2000), container("all", 1000, qos="Burstable"), container("one"), container("idle")],
    ],
    ids=["of the pool", "of the pool above", "when there are none", "when all others are promised"],
)
def test_idle_containers_have_a_cpu(ones: list[Container]) -> None:
    """`idle_containers_have_a_cpu`: in nri-plugins exclusive containers may take the last CPU."""
    for choices in MODES:
        policy = topology_aware(guest(1, 2, 2, 1), choices)
        refused = []
        for one in ones:
            try:
                policy.create(replace(one))
            except NoPlace as error:
                refused.append(error.reason)
        if choices is Choices.DEFAULT:
            assert all(pins.cpus for pins in policy.pins.values())
            assert len(policy.pins) + len(refused) == len(ones)
            assert all("shared CPU" in reason or "1m CPU" in reason for reason in refused)
            assert restarted(policy).saved() == policy.saved()
        else:
            assert policy.pins["idle"].cpus == ""
            assert "idle" not in restarted(policy).containers


def test_resize_can_move() -> None:
    """`resize_can_move`: a container that no longer fits its node moves to the package."""
    for choices in MODES:
        policy = topology_aware(choices=choices)
        assert policy.create(container("main", 3000))["main"].cpus == "4-6"
        if choices is Choices.DEFAULT:
            assert masks.parse(policy.resize("main", Requests(6000, 6000))["main"].cpus or "").bit_count() == 6
        else:
            with pytest.raises(NoPlace):
                policy.resize("main", Requests(6000, 6000))


def test_equal_resizes_keep_shares() -> None:
    """`equal_resizes_keep_shares`: nri-plugins restores the first shares if it pins no CPUs."""
    for choices in MODES:
        policy = topology_aware(choices=choices, pinCPU=False)
        main = container("main", 2000, GIB)
        main.shares = 2048
        policy.create(main)
        policy.resize("main", Requests(3000, 3000, GIB, GIB))
        shares = policy.resize("main", Requests(3000, 3000, GIB, GIB))["main"].shares
        assert shares == (None if choices is Choices.DEFAULT else 2048)


@pytest.mark.parametrize(("qos", "counts"), [("Burstable", False), ("Guaranteed", True)])
def test_dropped_requests_count(qos: str, counts: bool) -> None:
    """`dropped_requests_count`: for nri-plugins a removed request is not a change."""
    for choices in MODES:
        policy = topology_aware(choices=choices)
        policy.create(container("main", 1500, GIB, qos))
        policy.resize("main", Requests(500, 500, GIB, GIB))
        assert policy.resize("main", Requests(500, 500, GIB, GIB))["main"].shares == 512
        shares = policy.resize("main", Requests(0, 0, GIB, GIB))["main"].shares
        assert shares == (2 if counts or choices is Choices.DEFAULT else 512)
        assert policy.resize("main", Requests(250, 250, GIB, GIB))["main"].shares == 256


def test_failure_changes_nothing() -> None:
    """`failure_changes_nothing`: a container that cannot grow keeps what it has."""
    for choices in MODES:
        policy = topology_aware(choices=choices)
        policy.create(container("main", 3000, GIB))
        before = (policy.grants["main"].exclusive, dict(policy.zones.zones), policy.pools.root.free_sharable)
        with pytest.raises(NoPlace, match="NUMA node #1 lacks"):
            policy.resize("main", Requests(60000, 60000, GIB, GIB))
        after = policy.grants.get("main")
        if choices is Choices.DEFAULT:
            assert after is not None
            assert (after.exclusive, dict(policy.zones.zones), policy.pools.root.free_sharable) == before
            assert policy.release("main") == {}
        else:
            assert after is None


def test_strict_hints_bind_memory() -> None:
    """`strict_hints_bind_memory`: a strict hint does not allow memory of several nodes."""
    for choices in MODES:
        policy = topology_aware(choices=choices)
        main = container("main", 1000, 5 * GIB, **{"strict.topologyhints": "true"})
        main.hints = {"device": Hint("8-11", "2")}
        if choices is Choices.DEFAULT:
            with pytest.raises(NoPlace, match="strict hints require"):
                policy.create(main)
            assert policy.zones.zones == {}
        else:
            assert policy.create(main)["main"] == Pins("8", "0-3", 1024)


def test_isolated_cpus_are_assigned_on_request() -> None:
    isolated = replace(guest(), isolated=frozenset({6, 7, 10, 11}))
    policy = topology_aware(isolated)
    assert policy.create(container("one", 1000))["one"].cpus == "6"
    wants = {"require_isolated_cpus": "true"}
    assert policy.create(container("two", 2000, **wants))["two"].cpus == "10-11"
    with pytest.raises(NoPlace, match=r"lacks 1 isolated CPU\b"):
        policy.create(container("three", 2000, **wants))
    with pytest.raises(ValueError, match="only a single isolated CPU"):
        topology_aware(isolated, reservedResources={"cpu": "cpuset:6-7"})


def test_system_containers_share_reserved_cpus_or_fall_back_to_others() -> None:
    policy = topology_aware()
    assert policy.create(container("dns", 500, namespace="kube-system"))["dns"] == Pins("0", "0-3", 512)
    assert policy.create(container("agent", 800, namespace="kube-system"))["agent"].cpus == "1-15"
    one = topology_aware(guest(1, 1, 2, 1), availableResources={"cpu": "cpuset:0-1"})
    assert one.create(container("main", 0, **{"cpu.preserve": "true"}))["main"] == Pins(None, "0", 2)


def test_without_reserved_cpus_system_containers_get_normal_cpus() -> None:
    policy = topology_aware(pinMemory=False)
    policy.pools.root.reserved = 0
    assert policy.create(container("dns", 500, namespace="kube-system"))["dns"] == Pins("4-7", "", 512)
    unpinned = topology_aware(pinCPU=False)
    assert unpinned.create(container("main", 1000))["main"] == Pins(None, "1", None)


def test_a_memory_request_moves_less_important_containers() -> None:
    policy = topology_aware()
    assert policy.create(container("first", 100, GIB, qos="Burstable", limit_m=100))["first"].mems == "1"
    strict = container("second", 100, 2 * GIB, **{"strict.topologyhints": "true"})
    strict.hints = {"device": Hint(nodes="1")}
    pins = policy.create(strict)
    assert (pins["second"].mems, pins["first"].mems) == ("1", "0-3")
    with pytest.raises(NoPlace, match="root lacks memory"):
        policy.create(container("huge", 100, 100 * GIB))


def test_containers_of_a_namespace_stay_together_and_unknown_levels_are_reported() -> None:
    policy = topology_aware(colocateNamespaces=True)
    policy.create(container("first", 1000, namespace="web"))
    second = container("second", 0, GIB, qos="Burstable", namespace="web", unlimited_burstable="socket")
    assert policy.create(second)["second"].mems == "1"
    assert [doubt.partition(": ")[2].partition(";")[0] for doubt in second.doubts] == ["'socket' is not a level"]


def test_strict_hints_bind_reserved_and_shared_cpus() -> None:
    policy = topology_aware()
    for name, namespace in (("shared", "default"), ("reserved", "kube-system")):
        main = container(name, 500, namespace=namespace, **{"strict.topologyhints": "true"})
        main.hints = {"device": Hint("9")}
        with pytest.raises(NoPlace, match="lacks CPUs 9, which its strict hints require"):
            policy.create(main)


def test_a_repeated_request_gets_the_same_cpus_and_can_hide_hyperthreads() -> None:
    policy = topology_aware()
    one = container("one", 2000, hide_hyperthreads="true")
    pins = policy.create(one)["one"]
    assert pins == Pins("4", "1", 2048)
    assert policy.resize("one", one.requests) == {"one": pins}
    assert policy.resize("nobody", Requests()) == {}
    assert policy.release("nobody") == {}


def test_placement_works_on_a_machine_with_4096_sparse_cpus() -> None:
    topology = guest(8, 2, 16, 2)
    cpus = {n * 8: replace(cpu, number=n * 8, threads=frozenset(t * 8 for t in cpu.threads), caches=())
            for n, cpu in topology.cpus.items()}  # fmt: skip
    nodes = {n: replace(node, cpus=frozenset(cpu * 8 for cpu in node.cpus)) for n, node in topology.nodes.items()}
    topology = replace(topology, cpus=cpus, nodes=nodes, present=frozenset(range(4096)))
    policy = TopologyAware(Machine.of(topology), topology_aware().options)
    assert policy.create(container("main", 3000))["main"].cpus == "256,264,272"
    assert max(masks.members(policy.pools.root.free_sharable)) == 4088


# -- what is kept over a restart ---------------------------------------------------------------------------------------


def restarted(policy: TopologyAware, state: PlacementState | None = None, **options: object) -> TopologyAware:
    """A policy that takes up what another one gave, perhaps with other options."""
    containers = {name: replace(container) for name, container in policy.containers.items()}
    options = {**vars(policy.options), **options}
    return TopologyAware(policy.machine, Options(**options), state=state or policy.saved(), containers=containers)  # type: ignore[arg-type]


def test_saved_grants_are_restored_if_options_and_machine_allow_them() -> None:
    policy = topology_aware()
    for name in "ab":
        policy.create(container(name, 2000))
    policy.create(container("s", 100, namespace="kube-system"))
    assert restarted(policy).saved() == policy.saved()
    assert list(restarted(policy, availableResources=Amounts("exclude-cpuset:4-5")).containers) == ["b", "s"]
    assert list(restarted(policy, reservedResources=Amounts("cpuset:8")).containers) == ["a", "s"]


def test_a_pool_promises_no_more_than_it_has() -> None:
    policy = topology_aware()
    policy.create(container("a", 3900, qos="Burstable"))
    policy.create(container("s", 900, namespace="kube-system"))
    state = policy.saved()
    for name, portion_m in (("a", 70000), ("s", 1001)):
        grants = {**state.grants, name: replace(state.grants[name], portion_m=portion_m)}
        restored = restarted(policy, replace(state, grants=grants))
        assert name not in restored.containers
        assert len(restored.containers) == 1
    nowhere = replace(state, grants={"a": replace(state.grants["a"], pool="NUMA node #9")})
    assert restarted(policy, nowhere).containers == {}


def test_saved_memory_is_restored_only_if_it_fits() -> None:
    policy = topology_aware()
    policy.create(container("a", 1000, 2 * GIB))
    state = policy.saved()
    for zone in ("", "17"):
        grants = {"a": replace(state.grants["a"], zone=zone)}
        assert restarted(policy, replace(state, grants=grants)).containers == {}
    policy.containers["a"].requests = Requests(1000, 1000, 3 * GIB, 3 * GIB)
    assert restarted(policy).containers == {}


def test_shared_containers_get_only_their_own_changes() -> None:
    policy = topology_aware(guest(1, 1, 8, 1))
    policy.create(container("shared", 500, qos="Burstable"))
    assert list(policy.create(container("more", 500, qos="Burstable"))) == ["more"]
    assert list(policy.create(container("own", 2000))) == ["own", "shared", "more"]
    assert list(policy.resize("shared", Requests(600))) == ["shared"]


# -- cold start --------------------------------------------------------------------------------------------------------

COLD = {"cold_start": "{duration: 60s}"}


def test_a_cold_container_has_no_dram_until_it_is_warm() -> None:
    policy = topology_aware(with_memory("pmem", 16, True))
    policy.create(container("plain", 500, GIB))
    assert policy.pins["plain"].mems == "1,4"
    policy.create(container("cold", 500, GIB, **COLD))
    assert (policy.pins["cold"].mems, policy.cold_starts()) == ("5", {"cold": 60.0})
    assert policy.warm("cold") == {"cold": Pins(mems="2-3,5")}
    assert policy.cold_starts() == {}
    assert policy.warm("cold") == policy.warm("plain") == policy.warm("none") == {}
    grown = policy.resize("cold", Requests(600, 600, GIB, GIB))
    assert masks.parse(grown["cold"].mems or "") & masks.parse("0-3"), "it is still warm"
    policy.release("cold")
    policy.create(container("cold", 500, GIB, **COLD))
    assert policy.cold_starts() == {"cold": 60.0}


def test_a_cold_start_survives_a_restart_of_the_policy() -> None:
    policy = topology_aware(with_memory("pmem", 16, True))
    for name in ("cold", "warm"):
        policy.create(container(name, 500, GIB, **COLD))
    policy.warm("warm")
    message = {name: container(name, 500, GIB, **COLD) for name in ("cold", "warm")}
    restored = TopologyAware(policy.machine, policy.options, state=policy.saved(), containers=message)
    assert (restored.cold_starts(), restored.pins) == ({"cold": 60.0}, policy.pins)


@pytest.mark.parametrize(
    ("machine", "requests"),
    [
        (guest(), "{duration: 60s}"),
        (with_memory("pmem", 16, False), "{duration: 60s}"),
        (with_memory("pmem", 16, False), "soon"),
        (with_memory("pmem", 16, True), "{duration: 0s}"),
        (with_memory("pmem", 16, True), "{}"),
        (with_memory("pmem", 16, True), "{other: 1}"),
    ],
)
def test_without_slow_memory_or_a_duration_there_is_no_cold_start(machine, requests: str) -> None:
    policy, one = topology_aware(machine), container("c", 500, GIB, cold_start=requests)
    policy.create(one)
    assert policy.cold_starts() == {}
    assert bool(one.doubts) is ("other" in requests)


@pytest.mark.parametrize("machine", [guest(), with_memory("pmem", 16, True)])
@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ("{duration: 2h}", "duration: 2h must be from 0s to 1h"),
        ("{duration: -1s}", "duration: -1s must be from 0s to 1h"),
        ("{duration: 60}", "duration: 60 is not a string such as 60s"),
        ("{duration: soon}", "soon"),
        ("soon", 'expected a mapping of keys to values (duration), not "soon"'),
        ("[", "not valid YAML"),
    ],
)
def test_an_invalid_cold_start_refuses_the_container(machine, requests: str, words: str) -> None:
    policy = topology_aware(machine)
    with pytest.raises(NoPlace, match=f"annotation cold-start.resource-policy.nri.io/pod: .*{re.escape(words)}"):
        policy.create(container("c", 500, GIB, **{"cold_start/pod": requests}))
    assert policy.saved() == topology_aware(machine).saved()
    policy.create(container("c", 500, GIB, **{"memory.preserve": "true"}, cold_start=requests))


def test_cold_starts_need_slow_memory() -> None:
    """`cold_starts_need_slow_memory`: with only DRAM, nri-plugins finds no memory for the container."""
    assert topology_aware().create(container("c", 500, **COLD))["c"].mems == "1"
    with pytest.raises(NoPlace, match="memory"):
        topology_aware(choices=Choices.REFERENCE).create(container("c", 500, **COLD))


def test_a_container_without_free_dram_keeps_its_memory() -> None:
    policy = topology_aware(with_memory("pmem", 16, True), pinMemory=False)
    policy.create(container("cold", 500, GIB, **COLD))
    assert policy.warm("cold") == {}


def test_strict_hints_and_required_isolated_cpus_refuse_only_new_containers() -> None:
    close = {"device": Hint("4-7")}
    for annotation, hints, lacks in (
        ("strict.topologyhints", close, "CPUs 4-7, which its strict hints require"),
        ("require-isolated-cpus", {}, "2 isolated CPUs, which it requires"),
    ):
        policy = topology_aware(availableResources={"cpu": "cpuset:0-3"})
        one = container("one", 2000, **{annotation: "true"})
        one.hints = hints
        with pytest.raises(NoPlace, match=lacks.partition(", ")[0]):
            policy.create(one)
        assert policy.unmet == {}
        one.runs = True
        assert policy.create(one)["one"].cpus == "2-3"
        assert policy.unmet == {"one": lacks}
        policy.release("one")
        assert policy.unmet == {}


def test_a_running_container_of_a_removed_class_can_be_resized() -> None:
    policy = topology_aware(cpuClasses=[{"name": "low"}], sharedPoolCPUClass="low")
    one = container("one", 2000, cpu_class="fast")
    one.runs = True
    policy.create(one)
    assert "unknown CPU class 'fast'; write low" in policy.unmet["one"]
    assert policy.resize("one", Requests(3000, 3000, 0, 0))["one"].cpus
    assert "unknown CPU class 'fast'; write low" in policy.unmet["one"]
